/* The task of reinforcement learning: batches of completions, and the updates on them. */
#include "train/reinforcement.h"

#include "base/clock.h"
#include "base/count.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "data/permutation.h"
#include "rollout/advantage.h"
#include "train/rollout_record.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static bool needs_old(const tri_training *t) { return tri_policy_has_old(&t->config->objective.policy); }
static bool needs_reference(const tri_training *t) { return t->config->objective.beta > 0; }

static int64_t completions_of(const tri_training *t) {
  return t->config->rollout.prompts * t->config->rollout.num_generations;
}

/* Allocates memory for the samples of an update, or of a whole batch if their log-probabilities are computed first; on
 * the first rank also the arrays for the chosen completions. */
static tri_status make_room(tri_training *t) {
  const tri_run_config *config = t->config;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const int64_t unit = config->layout.micro_batch * tri_mesh_group(&t->mesh, TRI_DOMAIN_BATCH)->size;
  const bool whole = needs_old(t) || needs_reference(t);
  const int64_t most = whole ? tri_round_up(completions_of(t), unit) : config->optimizer.global_batch;
  const size_t all = (size_t)completions_of(t);
  TRI_TRY(tri_held_samples_create(tri_objective_columns(&config->objective.trained), config->data.sequence, most,
                                  config->layout.micro_batch, &t->mesh, &rl->held));
  TRI_TRY(tri_alloc("log-probabilities of a batch", (size_t)(most * config->data.sequence), sizeof *rl->log_probs,
                    &rl->log_probs));
  if (!tri_training_is_rank0(t)) return TRI_OK;
  TRI_TRY(tri_alloc("a batch of completions", all, sizeof *rl->normalisers, &rl->normalisers));
  TRI_TRY(tri_alloc("a batch of completions", all, sizeof *rl->chosen, &rl->chosen));
  TRI_TRY(tri_alloc("a batch of completions", all, sizeof *rl->chosen_normalisers, &rl->chosen_normalisers));
  return tri_alloc("a batch of completions", all, sizeof *rl->packed, &rl->packed);
}

/* Fails, before the first rollout, if a reward cannot judge the completions of a prompt. */
static tri_status check_answers(const tri_training *t, const char *key, const char *file,
                                const tri_prompt_source *source) {
  const tri_reinforcement *rl = tri_reinforcement_of(t);
  for (int64_t i = 0; i < source->count; i++) {
    const tri_rollout_prompt *prompt = &source->list[i];
    const tri_scored_completion empty = {.prompt = prompt->text,
                                         .prompt_bytes = prompt->text_bytes,
                                         .text = "",
                                         .answer = prompt->answer,
                                         .answer_bytes = prompt->answer_bytes,
                                         .max_tokens = t->config->rollout.max_completion_length};
    for (int64_t r = 0; r < t->config->num_rewards; r++) {
      double reward = NAN;
      if (rl->rewards[r] == NULL) continue;
      if (tri_reward_needs_answer(rl->rewards[r]) && prompt->answer == NULL) {
        return tri_fail(TRI_BAD_FILE,
                        "`%s`: %s line %" PRId64 ": `answer` is missing, and the reward %s compares with it", key, file,
                        prompt->line, t->config->rewards[r].label);
      }
      const tri_status status = tri_reward_score(rl->rewards[r], &empty, &reward);
      if (status != TRI_OK)
        return tri_fail(status, "`%s`: %s line %" PRId64 ": %s", key, file, prompt->line, tri_status_message());
    }
  }
  return TRI_OK;
}

static tri_status open_tokenizer(tri_training *t) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  char folder[TRI_PATH_BYTES];
  TRI_TRY(tri_tokenizer_create(t->data.tokenizer, &rl->tokenizer));
  memcpy(folder, t->data.tokenizer, sizeof folder);
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *slash = '\0';
  TRI_TRY(tri_tokenizer_find_ends(rl->tokenizer, slash == NULL ? "." : folder));
  rl->sampler.ends = tri_tokenizer_ends(rl->tokenizer, &rl->sampler.num_ends);
  if (rl->sampler.num_ends > 0 || t->config->rollout.num_stops > 0 || t->data.prompts.turn_end[0] != '\0')
    return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the tokenizer %s has no token that ends a text, so every completion would have "
                  "rollout.max_completion_length tokens; give rollout.stop, such as [\"\\n\"], or a tokenizer with an "
                  "end-of-text token",
                  t->data.tokenizer);
}

static void set_sampler(tri_training *t) {
  const tri_rollout_settings *settings = &t->config->rollout;
  tri_rollout_sampler *sampler = &tri_reinforcement_of(t)->sampler;
  sampler->dispatcher = tri_reinforcement_of(t)->ranks.dispatcher;
  sampler->tokenizer = tri_reinforcement_of(t)->tokenizer;
  for (int64_t i = 0; i < settings->num_stops; i++) sampler->stops[sampler->num_stops++] = settings->stops[i].text;
  if (t->data.prompts.turn_end[0] != '\0') sampler->stops[sampler->num_stops++] = t->data.prompts.turn_end;
  sampler->seed = t->config->seed;
  sampler->most = settings->max_completion_length;
  sampler->slots = settings->slots;
}

static tri_status open_first(tri_training *t) {
  const tri_run_config *config = t->config;
  TRI_TRY(tri_reinforcement_open_rewards(t));
  TRI_TRY(check_answers(t, "data.prompts", config->data.prompts, &t->data.prompts));
  TRI_TRY(check_answers(t, "data.validation_prompts", config->data.validation_prompts, &t->data.validation_prompts));
  TRI_TRY(open_tokenizer(t));
  return tri_rollout_record_open(config, t->progress.batches, &tri_reinforcement_of(t)->record);
}

static tri_status reinforcement_begin(tri_training *t) {
  const tri_group *world = &t->mesh.world;
  const tri_policy_config *policy = &t->config->objective.policy;
  tri_reinforcement *rl = NULL;
  TRI_TRY(tri_common_status(world, tri_alloc("a run of reinforcement learning", 1, sizeof *rl, &rl)));
  t->task_state = rl;
  rl->ranks.replicas = tri_replicas_alone();
  if (t->stop_at % (policy->num_iterations * policy->mini_batches) != 0) {
    return tri_fail(TRI_BAD_USAGE, "--stop-at %ld ends inside a batch, which has %ld updates; use a multiple of that",
                    (long)t->stop_at, (long)(policy->num_iterations * policy->mini_batches));
  }
  rl->updates = rl->done = policy->num_iterations * policy->mini_batches;
  rl->next_group = t->progress.groups;
  TRI_TRY(tri_common_status(world, make_room(t)));
  TRI_TRY(tri_first_rank_status(world, tri_training_is_rank0(t) ? open_first(t) : TRI_OK));
  TRI_TRY(tri_rollout_ranks_create(t, &rl->ranks));
  set_sampler(t);
  return TRI_OK;
}

static void reinforcement_release(tri_training *t) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  if (rl == NULL) return;
  if (rl->record != NULL) fclose(rl->record);
  tri_rollout_ranks_release(&rl->ranks);
  tri_rollout_batch_release(&rl->batch);
  tri_held_samples_release(&rl->held);
  tri_reinforcement_close_rewards(rl);
  tri_tokenizer_destroy(rl->tokenizer);
  tri_free(rl->log_probs);
  tri_free(rl->normalisers);
  tri_free(rl->chosen);
  tri_free(rl->chosen_normalisers);
  tri_free(rl->packed);
  tri_free(rl);
  t->task_state = NULL;
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

static void name_group(const tri_training *t, int64_t index, tri_rollout_batch *group) {
  const int64_t number = t->progress.groups + index;
  for (int64_t i = 0; i < group->size; i++) {
    group->list[i].group = number;
    group->list[i].prompt = &t->data.prompts.list[tri_prompt_source_at(&t->data.prompts, t->config->seed, number)];
  }
}

static bool passes_filter(const tri_training *t, const tri_rollout_batch *group) {
  const double reward = tri_rollout_group_reward(group, 0);
  const tri_rollout_settings *r = &t->config->rollout;
  if (r->filter.low <= -TRI_ROLLOUT_NO_LIMIT && r->filter.high >= TRI_ROLLOUT_NO_LIMIT) return true;
  return !isnan(reward) && reward > r->filter.low && reward < r->filter.high;
}

/* Samples and scores the groups of a batch. Fails with TRI_DIVERGED if the filter drops all of them. */
static tri_status fill_batch(tri_training *t, void *context, bool *stopped) {
  const tri_rollout_settings *r = &t->config->rollout;
  const tri_group_order order = {.groups = r->prompts,
                                 .size = r->num_generations,
                                 .max_filtered = r->max_filtered,
                                 .name = name_group,
                                 .passes = passes_filter};
  tri_reinforcement *rl = tri_reinforcement_of(t);
  tri_group_result result;
  (void)context;
  TRI_TRY(tri_reinforcement_run_groups(t, &order, &result, stopped));
  rl->batch = result.batch;
  rl->next_group = t->progress.groups + result.begun;
  rl->filtered = result.dropped;
  rl->rollout_s = result.rollout_s;
  rl->reward_s = result.reward_s;
  if (*stopped || rl->batch.groups > 0) return TRI_OK;
  return tri_fail(
      TRI_DIVERGED,
      "none of %" PRId64
      " groups has a mean reward within rollout.filter, so there is nothing to learn from; widen the filter, "
      "raise rollout.max_filtered, or give easier or harder prompts",
      rl->filtered);
}

/* Computes the numbers that the loss needs from a complete batch: advantages, completions that count, and normalisers.
 * Also writes its metrics and its record. */
static tri_status finish_batch(tri_training *t) {
  const tri_policy_config *policy = &t->config->objective.policy;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  tri_rollout_find_advantages(&rl->batch, policy);
  for (int64_t i = 0; i < tri_rollout_batch_count(&rl->batch); i++) {
    tri_rollout_completion *c = &rl->batch.list[i];
    c->counts = !policy->mask_truncated_completions || c->finish != TRI_FINISH_LENGTH;
  }
  tri_rollout_normalisers(&rl->batch, policy->loss_type, t->config->rollout.max_completion_length, policy->mini_batches,
                          rl->normalisers);
  TRI_TRY(tri_reinforcement_batch_metrics(t));
  return tri_rollout_record_write(rl->record, t->config, t->progress.batches, &rl->batch);
}

/* ---- samples of an update ---------------------------------------------------------------------------------------- */

/* COLLECTIVE. Shares the samples of the chosen completions with all ranks. */
static tri_status share_chosen(tri_training *t) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const tri_pack_request request = {rl->chosen, rl->num_chosen, rl->chosen_normalisers};
  const bool first = tri_training_is_rank0(t);
  TRI_TRY(tri_first_rank_status(&t->mesh.world, first ? tri_rollout_pack(&request, &rl->held, rl->packed) : TRI_OK));
  return tri_held_samples_share(&rl->held);
}

/* Chooses the completions of groups [first, end), numbered in the random order that an iteration over the batch has. */
static void choose_groups(tri_training *t, int64_t iteration, int64_t first, int64_t end) {
  const tri_policy_config *policy = &t->config->objective.policy;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const uint64_t stream = (uint64_t)(t->progress.batches * policy->num_iterations + iteration);
  const tri_random_key key = tri_philox_key(t->config->seed, TRI_RANDOM_BATCH, stream);
  rl->num_chosen = 0;
  for (int64_t g = first; g < end; g++) {
    const int64_t group = (int64_t)tri_permutation_at(key, (uint64_t)rl->batch.groups, (uint64_t)g);
    for (int64_t i = group * rl->batch.size; i < (group + 1) * rl->batch.size; i++) {
      rl->chosen_normalisers[rl->num_chosen] = rl->normalisers[i];
      rl->chosen[rl->num_chosen++] = &rl->batch.list[i];
    }
  }
}

/* Returns the place of a completion's log-probabilities under a policy. */
static double **log_probs_of(tri_rollout_completion *c, tri_policy policy) {
  switch (policy) {
    case TRI_POLICY_REFERENCE: return &c->reference;
    case TRI_POLICY_TRAINED:
    case TRI_POLICY_EVALUATED: break;
  }
  return &c->old;
}

/* COLLECTIVE. Computes the log-probabilities of all completions of the batch that count, under a policy. */
static tri_status find_log_probs(tri_training *t, tri_policy policy) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const tri_feed feed = tri_held_samples_feed(&rl->held);
  if (tri_training_is_rank0(t)) choose_groups(t, 0, 0, rl->batch.groups);
  TRI_TRY(share_chosen(t));
  TRI_TRY(tri_engine_log_probs(t->engine, &feed, rl->held.count, policy, rl->log_probs));
  for (int64_t i = 0; i < rl->num_chosen; i++) {
    tri_rollout_completion *c = rl->chosen[i];
    double **to = log_probs_of(c, policy);
    if (rl->packed[i].sample < 0) continue;
    TRI_TRY(tri_alloc("log-probabilities", (size_t)c->count, sizeof **to, to));
    memcpy(*to, rl->log_probs + rl->packed[i].sample * rl->held.sequence + rl->packed[i].first,
           (size_t)c->count * sizeof **to);
  }
  return TRI_OK;
}

/* COLLECTIVE. Samples, scores and prepares the next batch. */
static tri_status next_batch(tri_training *t, bool *stopped) {
  const tri_group *world = &t->mesh.world;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  tri_rollout_batch_release(&rl->batch);
  rl->sampler.sampling =
      (tri_sampling){.temperature = t->config->rollout.temperature, .top_p = 1, .repetition_penalty = 1};
  const double waited_s = rl->ranks.wait_s;
  TRI_TRY(tri_rollout_ranks_run(t, &rl->ranks, TRI_POLICY_TRAINED, fill_batch, NULL, stopped));
  rl->wait_s = rl->ranks.wait_s - waited_s;
  if (*stopped) return TRI_OK;
  TRI_TRY(tri_first_rank_status(world, tri_training_is_rank0(t) ? finish_batch(t) : TRI_OK));
  TRI_TRY(tri_broadcast(world, 0, sizeof rl->next_group, &rl->next_group));
  rl->done = 0;
  if (needs_reference(t)) TRI_TRY(find_log_probs(t, TRI_POLICY_REFERENCE));
  return needs_old(t) ? find_log_probs(t, TRI_POLICY_TRAINED) : TRI_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* COLLECTIVE. Makes an update on a part of the batch. */
static tri_status make_update(tri_training *t, double lr, tri_step *out) {
  const int64_t parts = t->config->objective.policy.mini_batches;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const tri_feed feed = tri_held_samples_feed(&rl->held);
  const int64_t part = rl->done % parts, groups = rl->batch.groups;
  if (tri_training_is_rank0(t)) choose_groups(t, rl->done / parts, part * groups / parts, (part + 1) * groups / parts);
  TRI_TRY(share_chosen(t));
  const tri_global_batch batch = {t->progress.step, 0, rl->held.count};
  TRI_TRY(tri_engine_step(t->engine, &feed, &batch, t->progress.updates, lr, out));
  TRI_TRY(tri_engine_step_log_probs(t->engine, rl->log_probs));
  return tri_first_rank_status(&t->mesh.world, tri_training_is_rank0(t) ? tri_reinforcement_update_metrics(t) : TRI_OK);
}

static tri_status reinforcement_step(tri_training *t, double lr, tri_step *out) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const double begin_s = tri_clock_s();
  bool stopped = false;
  *out = (tri_step){0};
  if (rl->done == rl->updates) {
    TRI_TRY(next_batch(t, &stopped));
    t->stopping = stopped;
    if (stopped) return TRI_OK;
  }
  TRI_TRY(make_update(t, lr, out));
  rl->done++;
  if (rl->done == rl->updates) {
    t->progress.batches++;
    t->progress.groups = rl->next_group;
  }
  const double other_s = rl->done == 1 ? rl->rollout_s + rl->reward_s : 0;
  tri_named_metrics_set(&t->named, tri_clock_s() - begin_s - other_s, "train_s");
  return TRI_OK;
}

static bool reinforcement_is_between(const tri_training *t) {
  const tri_reinforcement *rl = tri_reinforcement_of(t);
  return rl == NULL || rl->done == rl->updates;
}

static tri_observer *const observers[] = {
    tri_observe_bad_steps,
    tri_observe_reward_validation,
    tri_observe_metrics,
    tri_observe_divergence,
    tri_observe_state,
    tri_observe_samples,
    NULL,
};

const tri_train_task tri_task_reinforcement = {.name = "reinforcement",
                                               .data = &tri_run_data_prompts,
                                               .held_out_key = "data.validation_prompts",
                                               .begin = reinforcement_begin,
                                               .announce = tri_training_announce_reinforcement,
                                               .step = reinforcement_step,
                                               .is_between = reinforcement_is_between,
                                               .observers = observers,
                                               .release = reinforcement_release};
