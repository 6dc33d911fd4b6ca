/* The rewards of a run: rules and commands, and the scores of a group of completions. */
#include "train/reinforcement.h"

#include "files/file.h"

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

/* Warns, once, that a pattern exceeds the limits of PCRE2. `before`: number of exceeded limits before the group. */
static void check_limits(const tri_training *t, int64_t r, int64_t before, const tri_rollout_batch *group) {
  tri_reinforcement *rl = tri_reinforcement_of(t);
  const int64_t limits = tri_reward_limits(rl->rewards[r]) - before;
  if (limits == 0 || rl->warned_of_limits[r]) return;
  rl->warned_of_limits[r] = true;
  tri_reward_warn_of_limits(t->config->rewards[r].label, limits, tri_rollout_batch_count(group));
}

static tri_status score_by_rule(const tri_training *t, int64_t r, tri_rollout_batch *group) {
  const int64_t before = tri_reward_limits(tri_reinforcement_of(t)->rewards[r]);
  for (int64_t i = 0; i < tri_rollout_batch_count(group); i++) {
    tri_rollout_completion *c = &group->list[i];
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
  check_limits(t, r, before, group);
  return TRI_OK;
}

tri_status tri_reinforcement_score_by_rules(tri_training *t, tri_rollout_batch *group) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    if (tri_reinforcement_of(t)->rewards[r] != NULL) TRI_TRY(score_by_rule(t, r, group));
  }
  return TRI_OK;
}

tri_status tri_reinforcement_ask_commands(tri_training *t, const tri_rollout_batch *group, tri_command_item *items) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    tri_reward_command *command = tri_reinforcement_of(t)->commands[r];
    for (int64_t i = 0; i < group->size && command != NULL; i++) {
      const tri_rollout_completion *c = &group->list[i];
      tri_command_item *item = &items[r * group->size + i];
      *item = (tri_command_item){.json = c->prompt->json,
                                 .json_bytes = c->prompt->json_bytes,
                                 .prompt = c->prompt->text,
                                 .prompt_bytes = c->prompt->text_bytes,
                                 .completion = c->text,
                                 .completion_bytes = c->text_bytes,
                                 .finish = tri_finish_name(c->finish),
                                 .tokens = c->count};
      TRI_TRY(tri_reward_command_add(command, item));
    }
  }
  return TRI_OK;
}

tri_status tri_reinforcement_attend_commands(tri_training *t, bool waits) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    tri_reward_command *command = tri_reinforcement_of(t)->commands[r];
    if (command != NULL) TRI_TRY(tri_reward_command_attend(command, waits));
  }
  return TRI_OK;
}

bool tri_reinforcement_has_answers(const tri_training *t, const tri_rollout_batch *group,
                                   const tri_command_item *items) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    if (tri_reinforcement_of(t)->commands[r] == NULL) continue;
    for (int64_t i = 0; i < group->size; i++) {
      if (!items[r * group->size + i].done) return false;
    }
  }
  return true;
}

void tri_reinforcement_read_answers(const tri_training *t, tri_rollout_batch *group, tri_command_item *items) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    if (tri_reinforcement_of(t)->commands[r] == NULL) continue;
    for (int64_t i = 0; i < group->size; i++) {
      tri_rollout_completion *c = &group->list[i];
      tri_command_item *item = &items[r * group->size + i];
      c->rewards[r] = item->reward;
      c->failed = c->failed || item->failed;
      c->parts[r] = item->parts;
      c->num_parts[r] = item->num_parts;
      item->parts = NULL;
      item->num_parts = 0;
    }
  }
}

void tri_reinforcement_drop_commands(tri_training *t) {
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    if (tri_reinforcement_of(t)->commands[r] != NULL) tri_reward_command_drop(tri_reinforcement_of(t)->commands[r]);
  }
}
