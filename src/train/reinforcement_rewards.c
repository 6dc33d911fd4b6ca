/* Rewards of the completions of a batch, and the evaluation on held-out prompts. */
#include "train/reinforcement.h"

#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "files/file.h"
#include "rollout/advantage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

tri_status tri_reinforcement_open_rewards(tri_training *t) {
  const tri_run_config *config = t->config;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  char log[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(log, config->output, "reward.log"));
  for (int64_t r = 0; r < config->num_rewards; r++) {
    const tri_run_reward *reward = &config->rewards[r];
    if (tri_run_reward_is_command(reward)) {
      TRI_TRY(tri_reward_command_create(&reward->command, log, &rl->commands[r]));
    } else {
      TRI_TRY(tri_reward_create(&reward->rule, &rl->rewards[r]));
    }
    rl->weights[r] = reward->rule.weight;
  }
  return TRI_OK;
}

void tri_reinforcement_close_rewards(tri_reinforcement *rl) {
  for (int r = 0; r < TRI_MOST_REWARDS; r++) {
    tri_reward_destroy(rl->rewards[r]);
    if (rl->commands[r] != NULL) tri_reward_command_destroy(rl->commands[r]);
  }
}

/* ---- scoring ----------------------------------------------------------------------------------------------------- */

/* Warns, once, that a pattern exceeds the limits of PCRE2. `before`: number of exceeded limits before the batch. */
static void check_limits(const tri_training *t, int64_t r, int64_t before, const tri_rollout_batch *batch) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const int64_t limits = tri_reward_limits(rl->rewards[r]) - before;
  if (limits == 0 || rl->warned_of_limits[r]) return;
  rl->warned_of_limits[r] = true;
  tri_reward_warn_of_limits(t->config->rewards[r].label, limits, tri_rollout_batch_count(batch));
}

static tri_status score_by_rule(const tri_training *t, int64_t r, tri_rollout_batch *batch) {
  const int64_t before = tri_reward_limits(tri_reinforcement_of(t)->rewards[r]);
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) {
    tri_rollout_completion *c = &batch->list[i];
    const tri_scored_completion scored = {.prompt = c->prompt->text,
                                          .prompt_bytes = c->prompt->text_bytes,
                                          .text = c->text,
                                          .text_bytes = c->text_bytes,
                                          .answer = c->prompt->answer,
                                          .answer_bytes = c->prompt->answer_bytes,
                                          .ids = c->ids,
                                          .tokens = c->count,
                                          .max_tokens = t->config->rollout.max_completion_length,
                                          .truncated = c->finish == TRI_FINISH_LENGTH};
    TRI_TRY(tri_reward_score(tri_reinforcement_of(t)->rewards[r], &scored, &c->rewards[r]));
  }
  check_limits(t, r, before, batch);
  return TRI_OK;
}

static bool asked_to_stop(void *context) {
  const tri_rollout_sampler *sampler = context;
  tri_recorder_beat();
  return sampler->stops_when_asked && tri_stop_asked();
}

static tri_status score_by_command(tri_training *t, int64_t r, tri_rollout_batch *batch, bool *stopped) {
  const int64_t count = tri_rollout_batch_count(batch);
  const tri_record record = tri_record_make(TRI_RECORD_WORK, "score completions by a command");
  tri_reinforcement *rl = tri_reinforcement_of(t);
  tri_command_item *items = NULL;
  TRI_TRY(tri_alloc("completions to score", (size_t)count, sizeof *items, &items));
  for (int64_t i = 0; i < count; i++) {
    const tri_rollout_completion *c = &batch->list[i];
    items[i] = (tri_command_item){.json = c->prompt->json,
                                  .json_bytes = c->prompt->json_bytes,
                                  .prompt = c->prompt->text,
                                  .prompt_bytes = c->prompt->text_bytes,
                                  .completion = c->text,
                                  .completion_bytes = c->text_bytes,
                                  .finish = tri_finish_name(c->finish),
                                  .tokens = c->count};
  }
  const uint64_t ticket = tri_recorder_begin(&record);
  const tri_status status =
      tri_reward_command_score(rl->commands[r], items, count, asked_to_stop, &rl->sampler, stopped);
  tri_recorder_end(ticket);
  if (status == TRI_OK && !*stopped) {
    for (int64_t i = 0; i < count; i++) {
      tri_rollout_completion *c = &batch->list[i];
      c->rewards[r] = items[i].reward;
      c->failed = c->failed || items[i].failed;
      c->parts[r] = items[i].parts;
      c->num_parts[r] = items[i].num_parts;
    }
  }
  tri_free(items);
  return status;
}

/* Number of the first group of evaluations. It is so large that their random numbers differ from those of all training
 * groups. */
static const int64_t FIRST_HELD_OUT = (int64_t)1 << 40;

/* Returns words for the state that is saved if the run stops while it scores these completions: the state after the
 * step that is evaluated, if they are held-out ones, or the state before the batch. */
static const char *saved_state(const tri_rollout_batch *batch) {
  return batch->list[0].group >= FIRST_HELD_OUT ? "its state" : "the state before this batch";
}

/* Makes the run save its state and end with TRI_IO_FAILED. */
static void stop_run(tri_training *t, bool *stopped) {
  t->stop_status = TRI_IO_FAILED;
  *stopped = true;
}

/* Stops the run if no completion of a whole batch has a reward. */
static void check_verdicts(tri_training *t, const tri_rollout_batch *batch, bool *stopped) {
  const int64_t count = tri_rollout_batch_count(batch);
  for (int64_t i = 0; i < count; i++) {
    if (!isnan(batch->list[i].reward)) return;
  }
  tri_warn(
      "no reward has a verdict about any of %ld completions, so there is nothing to learn from; the run saves %s and "
      "ends: look at what the rewards, or the answers of the prompts, lack",
      (long)count, saved_state(batch));
  stop_run(t, stopped);
}

/* Stops the run if commands have not answered for too many completions. */
static void check_failed(tri_training *t, const tri_rollout_batch *batch, bool *stopped) {
  const int64_t count = tri_rollout_batch_count(batch);
  int64_t failed = 0;
  for (int64_t i = 0; i < count; i++) failed += batch->list[i].failed;
  if ((double)failed <= t->config->rollout.max_failed * (double)count) return;
  tri_warn(
      "the command of a reward has not answered for %ld of %ld completions, more than rollout.max_failed %g, so the "
      "run saves %s and ends; look at %s/reward.log",
      (long)failed, (long)count, t->config->rollout.max_failed, saved_state(batch), t->config->output);
  stop_run(t, stopped);
}

tri_status tri_reinforcement_score(tri_training *t, tri_rollout_batch *batch, bool *stopped) {
  for (int64_t r = 0; r < t->config->num_rewards && !*stopped; r++) {
    const bool by_rule = tri_reinforcement_of(t)->rewards[r] != NULL;
    const tri_status status = by_rule ? score_by_rule(t, r, batch) : score_by_command(t, r, batch, stopped);
    if (status == TRI_IO_FAILED) {
      tri_warn("%s; the run saves %s and ends", tri_status_message(), saved_state(batch));
      stop_run(t, stopped);
    } else {
      TRI_TRY(status);
    }
  }
  if (*stopped) return TRI_OK;
  tri_rollout_weigh_rewards(batch, tri_reinforcement_of(t)->weights, t->config->num_rewards);
  check_failed(t, batch, stopped);
  const bool whole = batch->groups == t->config->rollout.prompts && batch->list[0].group < FIRST_HELD_OUT;
  if (!*stopped && whole) check_verdicts(t, batch, stopped);
  return TRI_OK;
}

/* ---- held-out prompts -------------------------------------------------------------------------------------------- */

/* Samples one completion of each of some held-out prompts, spread evenly over the file, and scores it. */
static tri_status judge(tri_training *t, void *context, bool *stopped) {
  const tri_prompt_source *source = &t->data.validation_prompts;
  const int64_t asked = t->config->evaluation.sequences, count = asked < source->count ? asked : source->count;
  tri_rollout_batch *batch = context;
  TRI_TRY(tri_rollout_batch_create(count, 1, batch));
  for (int64_t i = 0; i < count; i++) {
    const int64_t number = i * source->count / count;
    batch->list[i].prompt = &source->list[number];
    batch->list[i].group = FIRST_HELD_OUT + number;
  }
  TRI_TRY(tri_rollout_sample(&tri_reinforcement_of(t)->sampler, batch, stopped));
  return tri_reinforcement_score(t, batch, stopped);
}

static void set_judged(tri_training *t, const tri_rollout_batch *batch) {
  double tokens = 0;
  for (int64_t i = 0; i < batch->groups; i++) tokens += (double)batch->list[i].count;
  tri_named_metrics_set(&t->named, tri_rollout_reward_facts(batch).mean, TRI_HELD_OUT_REWARD);
  tri_named_metrics_set(&t->named, tokens / (double)batch->groups, "validation/completions/mean_length");
}

tri_status tri_observe_reward_validation(tri_training *t, tri_made_step *made) {
  tri_rollout_batch batch = {0};
  bool stopped = false;
  (void)made;
  if (tri_training_diverges(t) || t->data.validation_prompts.count == 0 || t->config->evaluation.every == 0 ||
      !tri_training_is_due(t, t->config->evaluation.every))
    return TRI_OK;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  rl->sampler.sampling = tri_rollout_held_out_sampling(&t->config->rollout);
  rl->sampler.stops_when_asked = false; /* a stop request must not cut the evaluation short, because this step's line of
                                           metrics contains its result */
  tri_status status = tri_rollout_ranks_run(t, &rl->ranks, TRI_POLICY_EVALUATED, judge, &batch, &stopped);
  if (status == TRI_OK && stopped) t->stopping = true;
  if (status == TRI_OK && !stopped && tri_training_is_rank0(t)) set_judged(t, &batch);
  tri_rollout_batch_release(&batch);
  if (status != TRI_OK || stopped) return status; /* the evaluation has no result */
  tri_named_metric *reward = tri_named_metrics_find(&t->named, TRI_HELD_OUT_REWARD);
  TRI_TRY(tri_broadcast(&t->mesh.world, 0, sizeof reward->value, &reward->value));
  t->validation_reward = reward->value;
  tri_training_judged(t);
  return TRI_OK;
}
