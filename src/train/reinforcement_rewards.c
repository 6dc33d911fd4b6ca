/* Rewards of the completions of a batch, and the evaluation on held-out prompts. */
#include "train/reinforcement.h"

#include "rollout/advantage.h"

#include <inttypes.h>
#include <math.h>

static tri_status score_completion(const tri_training *t, tri_rollout_completion *c) {
  const tri_reinforcement *rl = tri_reinforcement_of(t);
  const tri_scored_completion scored = {.prompt = c->prompt->text,
                                        .prompt_bytes = c->prompt->text_bytes,
                                        .text = c->text,
                                        .text_bytes = c->text_bytes,
                                        .answer = c->prompt->answer,
                                        .answer_bytes = c->prompt->answer_bytes,
                                        .tokens = c->count,
                                        .max_tokens = t->config->rollout.max_completion_length,
                                        .truncated = c->finish == TRI_FINISH_LENGTH};
  for (int64_t r = 0; r < t->config->num_rewards; r++)
    TRI_TRY(tri_reward_score(rl->rewards[r], &scored, &c->rewards[r]));
  return TRI_OK;
}

tri_status tri_reinforcement_score(const tri_training *t, tri_rollout_batch *batch) {
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) TRI_TRY(score_completion(t, &batch->list[i]));
  tri_rollout_weigh_rewards(batch, tri_reinforcement_of(t)->weights, t->config->num_rewards);
  return TRI_OK;
}

/* ---- held-out prompts -------------------------------------------------------------------------------------------- */

/* Groups of evaluations have numbers from here on, so that their random numbers are not those of training. */
static const int64_t FIRST_HELD_OUT = (int64_t)1 << 40;

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
  return tri_reinforcement_score(t, batch);
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
  if (tri_training_diverges(t) || t->data.validation_prompts.count == 0 ||
      !tri_training_is_due(t, t->config->evaluation.every))
    return TRI_OK;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  rl->sampler.temperature = t->config->rollout.validation_temperature;
  rl->sampler.stops_when_asked = false; /* the line of metrics of this step needs the evaluation */
  tri_status status = tri_rollout_ranks_run(t, &rl->ranks, judge, &batch, &stopped);
  if (status == TRI_OK && tri_training_is_rank0(t)) set_judged(t, &batch);
  tri_rollout_batch_release(&batch);
  TRI_TRY(status);
  tri_named_metric *reward = tri_named_metrics_find(&t->named, TRI_HELD_OUT_REWARD);
  TRI_TRY(tri_broadcast(&t->mesh.world, 0, sizeof reward->value, &reward->value));
  tri_training_judged(t);
  return TRI_OK;
}
