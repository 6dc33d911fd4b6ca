#include "train/reward_trial.h"

#include "base/log.h"
#include "base/memory.h"
#include "generation/generator.h"
#include "reward/command.h"
#include "reward/reward.h"

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

/* Weighted sums of the rewards' means. A kind of completion without any verdict counts as not tried. */
typedef struct trial_totals {
  double sums[NUM_TRIED];
  bool tried[NUM_TRIED];
} trial_totals;

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

/* A completion that is tried. */
typedef struct tried {
  const tri_rollout_prompt *prompt;
  const char *text;
  size_t bytes;
  int which;    /* TRIED_OWN, TRIED_EMPTY or TRIED_OTHER */
  double found; /* reward of the completion; NaN: no verdict */
} tried;

/* All completions that are tried. */
typedef struct tried_list {
  tried all[MOST_PROMPTS * NUM_TRIED];
  int64_t count;
} tried_list;

static void add_tried(tried_list *to, const tri_rollout_prompt *prompt, const char *text, size_t bytes, int which) {
  to->all[to->count++] = (tried){prompt, text, bytes, which, (double)NAN};
}

static void list_tried(const tri_prompt_source *source, tried_list *out) {
  out->count = 0;
  for (int64_t i = 0; i < source->count && i < MOST_PROMPTS; i++) {
    const tri_rollout_prompt *prompt = &source->list[i], *other = other_answer(source, i);
    add_tried(out, prompt, "", 0, TRIED_EMPTY);
    if (prompt->answer == NULL) continue;
    add_tried(out, prompt, prompt->answer, prompt->answer_bytes, TRIED_OWN);
    if (other != NULL) add_tried(out, prompt, other->answer, other->answer_bytes, TRIED_OTHER);
  }
}

static tri_status score_by_rule(const tri_run_config *config, const tri_reward *reward, tried_list *list) {
  for (int64_t i = 0; i < list->count; i++) {
    tried *one = &list->all[i];
    const tri_scored_completion scored = {.prompt = one->prompt->text,
                                          .prompt_bytes = one->prompt->text_bytes,
                                          .text = one->text,
                                          .text_bytes = one->bytes,
                                          .answer = one->prompt->answer,
                                          .answer_bytes = one->prompt->answer_bytes,
                                          .tokens = 1,
                                          .max_tokens = config->rollout.max_completion_length};
    const tri_status status = tri_reward_score(reward, &scored, &one->found);
    if (status != TRI_OK)
      return tri_fail(status, "%s line %" PRId64 ": %s", config->data.prompts, one->prompt->line, tri_status_message());
  }
  return TRI_OK;
}

static tri_status try_rule(const tri_run_config *config, const tri_run_reward *of, bool *compares, tried_list *list) {
  tri_reward *reward = NULL;
  TRI_TRY(tri_reward_create(&of->rule, &reward));
  *compares = *compares || tri_reward_needs_answer(reward);
  const tri_status status = score_by_rule(config, reward, list);
  if (tri_reward_limits(reward) > 0) tri_reward_warn_of_limits(of->label, tri_reward_limits(reward), list->count);
  tri_reward_destroy(reward);
  return status;
}

/* Sets the rewards of a program from its answers, and releases them. */
static tri_status read_answers(const tri_run_reward *of, tri_command_item *items, tried_list *list) {
  int64_t failed = 0;
  for (int64_t i = 0; i < list->count; i++) {
    list->all[i].found = items[i].reward;
    failed += items[i].failed;
  }
  tri_reward_command_release(items, list->count);
  if (failed == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`reward`: the command of %s has not answered for %" PRId64 " of the %" PRId64
                  " completions that --dry-run tries; correct the program, or raise its timeout",
                  of->label, failed, list->count);
}

/* Runs the command as a run does, but its standard error is that of this process. */
static tri_status try_command(const tri_run_reward *of, tried_list *list) {
  tri_reward_command *command = NULL;
  tri_command_item *items = NULL;
  TRI_TRY(tri_alloc("completions to score", (size_t)list->count, sizeof *items, &items));
  for (int64_t i = 0; i < list->count; i++) {
    const tried *one = &list->all[i];
    items[i] = (tri_command_item){.json = one->prompt->json,
                                  .json_bytes = one->prompt->json_bytes,
                                  .prompt = one->prompt->text,
                                  .prompt_bytes = one->prompt->text_bytes,
                                  .completion = one->text,
                                  .completion_bytes = one->bytes,
                                  .finish = tri_finish_name(TRI_FINISH_END),
                                  .tokens = 1};
  }
  tri_status status = tri_reward_command_create(&of->command, NULL, &command);
  if (status == TRI_OK) status = tri_reward_command_score(command, items, list->count);
  if (status == TRI_OK) status = read_answers(of, items, list);
  tri_reward_command_destroy(command);
  tri_free(items);
  return status;
}

static void print_row(const char *name, double weight, const double *means, FILE *to) {
  fprintf(to, "  %-16s %8.3g", name, weight);
  for (int k = 0; k < NUM_TRIED; k++) {
    if (isnan(means[k])) fprintf(to, " %14s", "-");
    if (!isnan(means[k])) fprintf(to, " %14.4f", means[k]);
  }
  fprintf(to, "\n");
}

/* Prints the row of a reward, and adds its means to the totals. */
static void add_reward(const tri_run_reward *of, const tried_list *list, trial_totals *totals, FILE *to) {
  trial_sums sums = {{0}, {0}};
  double means[NUM_TRIED];
  for (int64_t i = 0; i < list->count; i++) {
    const tried *one = &list->all[i];
    if (isnan(one->found)) continue;
    sums.sums[one->which] += one->found;
    sums.verdicts[one->which]++;
  }
  for (int k = 0; k < NUM_TRIED; k++) {
    means[k] = sums.verdicts[k] == 0 ? (double)NAN : sums.sums[k] / sums.verdicts[k];
    if (sums.verdicts[k] == 0) continue;
    totals->sums[k] += of->rule.weight * means[k];
    totals->tried[k] = true;
  }
  print_row(of->label, of->rule.weight, means, to);
}

static tri_status try_rewards(const tri_run_config *config, tried_list *list, bool *compares, trial_totals *totals,
                              FILE *to) {
  for (int64_t r = 0; r < config->num_rewards; r++) {
    const tri_run_reward *of = &config->rewards[r];
    TRI_TRY(tri_run_reward_is_command(of) ? try_command(of, list) : try_rule(config, of, compares, list));
    add_reward(of, list, totals, to);
  }
  return TRI_OK;
}

static void print_totals(const trial_totals *totals, FILE *to) {
  double sums[NUM_TRIED];
  for (int k = 0; k < NUM_TRIED; k++) sums[k] = totals->tried[k] ? totals->sums[k] : (double)NAN;
  print_row("sum", 1, sums, to);
}

/* Judges whether the prompts' own answers earn the most. If the rewards compare with answers (`compares`), they must;
 * otherwise another completion that earns more is worth a warning. */
static tri_status judge(const trial_totals *totals, bool compares) {
  const double own = totals->sums[TRIED_OWN];
  double most = -INFINITY; /* the largest sum of the other completions */
  for (int k = 0; k < NUM_TRIED; k++)
    if (k != TRIED_OWN && totals->tried[k]) most = fmax(most, totals->sums[k]);
  if (!totals->tried[TRIED_OWN] || own > most) return TRI_OK;
  if (compares) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`reward`: the answers of the prompts earn %.4g in the mean, an empty text %.4g and other answers %.4g, "
        "so the right answer is not what is learned; look at the table of --dry-run",
        own, totals->sums[TRIED_EMPTY], totals->sums[TRIED_OTHER]);
  }
  if (own < most) tri_warn("--dry-run: the rewards do not prefer the prompts' answers; is this meant?");
  return TRI_OK;
}

tri_status tri_reward_trial(const tri_run_config *config, const tri_run_data *data, FILE *to) {
  trial_totals totals = {{0}, {false}};
  bool compares = false;
  tried_list *list = NULL;
  TRI_TRY(tri_alloc("completions to score", 1, sizeof *list, &list));
  fprintf(to, "rewards of up to %d prompts, whose completion is\n  %-16s %8s %14s %14s %14s\n", MOST_PROMPTS, "",
          "weight", "their answer", "an empty text", "another answer");
  list_tried(&data->prompts, list);
  const tri_status status = try_rewards(config, list, &compares, &totals, to);
  tri_free(list);
  TRI_TRY(status);
  if (config->num_rewards > 1) print_totals(&totals, to);
  return judge(&totals, compares);
}
