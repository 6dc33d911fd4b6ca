#include "train/reward_trial.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_PROMPTS = 64 };

/* The completions that are tried for a prompt: its own answer, an empty text, and another prompt's answer. */
enum { TRIED_OWN, TRIED_EMPTY, TRIED_OTHER, NUM_TRIED };

/* Sums of a reward over prompts, for each completion that is tried. */
typedef struct trial_sums {
  double sums[NUM_TRIED], verdicts[NUM_TRIED];
} trial_sums;

/* Returns another prompt with an answer that differs from that of prompt `number`; NULL if there is none. */
static const tri_rollout_prompt *other_answer(const tri_prompt_source *source, int64_t number) {
  const tri_rollout_prompt *own = &source->list[number];
  for (int64_t i = 1; i < source->count; i++) {
    const tri_rollout_prompt *other = &source->list[(number + i) % source->count];
    if (other->answer == NULL) continue;
    if (other->answer_bytes != own->answer_bytes || memcmp(other->answer, own->answer, own->answer_bytes) != 0)
      return other;
  }
  return NULL;
}

static tri_status try_text(const tri_run_config *config, const tri_reward *reward, const tri_rollout_prompt *prompt,
                           const char *text, size_t bytes, int which, trial_sums *to) {
  double found = NAN;
  const tri_scored_completion scored = {.prompt = prompt->text,
                                        .prompt_bytes = prompt->text_bytes,
                                        .text = text,
                                        .text_bytes = bytes,
                                        .answer = prompt->answer,
                                        .answer_bytes = prompt->answer_bytes,
                                        .tokens = 1,
                                        .max_tokens = config->rollout.max_completion_length};
  TRI_TRY(tri_reward_score(reward, &scored, &found));
  if (isnan(found)) return TRI_OK;
  to->sums[which] += found;
  to->verdicts[which]++;
  return TRI_OK;
}

static tri_status try_prompt(const tri_run_config *config, const tri_reward *reward, const tri_prompt_source *source,
                             int64_t number, trial_sums *to) {
  const tri_rollout_prompt *prompt = &source->list[number], *other = other_answer(source, number);
  TRI_TRY(try_text(config, reward, prompt, "", 0, TRIED_EMPTY, to));
  if (prompt->answer == NULL) return TRI_OK;
  TRI_TRY(try_text(config, reward, prompt, prompt->answer, prompt->answer_bytes, TRIED_OWN, to));
  if (other == NULL) return TRI_OK;
  return try_text(config, reward, prompt, other->answer, other->answer_bytes, TRIED_OTHER, to);
}

static void print_row(const char *name, double weight, const double *means, FILE *to) {
  fprintf(to, "  %-16s %8.3g", name, weight);
  for (int k = 0; k < NUM_TRIED; k++) {
    if (isnan(means[k])) fprintf(to, " %14s", "-");
    if (!isnan(means[k])) fprintf(to, " %14.4f", means[k]);
  }
  fprintf(to, "\n");
}

/* Tries one reward, prints its row, and adds its means to the totals. */
static tri_status try_reward(const tri_run_config *config, const tri_prompt_source *source, const tri_reward *reward,
                             const char *name, double totals[NUM_TRIED], FILE *to) {
  trial_sums sums = {{0}, {0}};
  double means[NUM_TRIED];
  for (int64_t i = 0; i < source->count && i < MOST_PROMPTS; i++) {
    const tri_status status = try_prompt(config, reward, source, i, &sums);
    if (status != TRI_OK)
      return tri_fail(status, "%s line %" PRId64 ": %s", config->data.prompts, source->list[i].line,
                      tri_status_message());
  }
  for (int k = 0; k < NUM_TRIED; k++) {
    means[k] = sums.verdicts[k] == 0 ? NAN : sums.sums[k] / sums.verdicts[k];
    totals[k] += sums.verdicts[k] == 0 ? 0 : tri_reward_weight(reward) * means[k];
  }
  print_row(name, tri_reward_weight(reward), means, to);
  return TRI_OK;
}

tri_status tri_reward_trial(const tri_run_config *config, const tri_run_data *data, FILE *to) {
  double totals[NUM_TRIED] = {0};
  bool compares = false;
  fprintf(to, "rewards of up to %d prompts, whose completion is\n  %-16s %8s %14s %14s %14s\n", MOST_PROMPTS, "",
          "weight", "their answer", "an empty text", "another answer");
  for (int64_t r = 0; r < config->num_rewards; r++) {
    tri_reward *reward = NULL;
    if (tri_run_reward_is_command(&config->rewards[r])) continue;
    TRI_TRY(tri_reward_create(&config->rewards[r].rule, &reward));
    compares = compares || tri_reward_needs_answer(reward);
    const tri_status status = try_reward(config, &data->prompts, reward, config->rewards[r].label, totals, to);
    tri_reward_destroy(reward);
    TRI_TRY(status);
  }
  if (config->num_rewards > 1) print_row("sum", 1, totals, to);
  if (!compares || (totals[TRIED_OWN] > totals[TRIED_EMPTY] && totals[TRIED_OWN] > totals[TRIED_OTHER])) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "`reward`: the answers of the prompts earn %.4g in the mean, an empty text %.4g and other answers %.4g, "
      "so the right answer is not what is learned; look at the table of --dry-run",
      totals[TRIED_OWN], totals[TRIED_EMPTY], totals[TRIED_OTHER]);
}
