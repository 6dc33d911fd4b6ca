/* The evaluation of a run of reinforcement learning: rewards of completions of held-out prompts. */
#include "train/reinforcement.h"

#include "base/count.h"
#include "rollout/advantage.h"

/* Number of the first group of evaluations. It is so large that their random numbers differ from those of all training
 * groups. */
static const int64_t FIRST_HELD_OUT = (int64_t)1 << 40;

static int64_t held_out_count(const tri_training *t) {
  return tri_smaller(t->config->evaluation.sequences, t->data.validation_prompts.count);
}

/* The prompts of an evaluation are spread evenly over the file. */
static void name_held_out(const tri_training *t, int64_t index, tri_rollout_batch *group) {
  const tri_prompt_source *source = &t->data.validation_prompts;
  const int64_t number = index * source->count / held_out_count(t);
  group->list[0].prompt = &source->list[number];
  group->list[0].group = FIRST_HELD_OUT + number;
}

/* Samples one completion of each of some held-out prompts, and scores it. */
static tri_status judge(tri_training *t, void *context, bool *stopped) {
  const tri_group_order order = {.groups = held_out_count(t), .size = 1, .held_out = true, .name = name_held_out};
  tri_group_result result;
  tri_rollout_batch *batch = context;
  TRI_TRY(tri_reinforcement_run_groups(t, &order, &result, stopped));
  *batch = result.batch;
  return TRI_OK;
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
