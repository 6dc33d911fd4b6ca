#include "reward/reward.h"

#include "base/log.h"
#include "base/memory.h"
#include "config/nearest_word.h"
#include "reward/kind.h"
#include "reward/pattern.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof *(ARRAY))
#define KIND_ADDRESS(NAME) &tri_reward_##NAME,
#define KIND_NAME(NAME) #NAME,

static const tri_reward_kind *const kinds[] = {TRI_REWARD_KINDS(KIND_ADDRESS)};
static const char *const names[] = {TRI_REWARD_KINDS(KIND_NAME)};

static const struct {
  uint32_t bit;
  const char *name, *advice; /* advice: text after "write" in the error message if a required key is missing */
} keys[] = {
    {TRI_REWARD_WEIGHT, "weight", NULL},
    {TRI_REWARD_PATTERN, "pattern", "a regular expression"},
    {TRI_REWARD_TEXT, "text", "the text to find"},
    {TRI_REWARD_STRIP, "strip", NULL},
    {TRI_REWARD_IGNORE_CASE, "ignore_case", NULL},
    {TRI_REWARD_IGNORE_PUNCTUATION, "ignore_punctuation", NULL},
    {TRI_REWARD_IGNORE_NUMBERS, "ignore_numbers", NULL},
    {TRI_REWARD_MAX, "max", "a number of tokens"},
    {TRI_REWARD_BUFFER, "buffer", "the number of tokens below the maximum in which the reward falls from 0 to -1"},
    {TRI_REWARD_NGRAM, "ngram", "a number of words or tokens"},
    {TRI_REWARD_MAX_PENALTY, "max_penalty", "a number of at most 0"},
    {TRI_REWARD_UNIT, "unit", NULL},
};

enum { LIST_BYTES = 512 };

/* Writes the names of the keys in `bits` to `list`, separated by commas, and returns `list`. */
static const char *list_keys(uint32_t bits, char list[LIST_BYTES]) {
  size_t length = 0;
  list[0] = '\0';
  for (size_t i = 0; i < COUNT_OF(keys); i++) {
    if ((bits & keys[i].bit) == 0) continue;
    length += (size_t)snprintf(list + length, LIST_BYTES - length, "%s%s", length > 0 ? ", " : "", keys[i].name);
  }
  return list;
}

static tri_status find_kind(const char *name, const tri_reward_kind **out) {
  char list[LIST_BYTES];
  size_t length = 0;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (strcmp(name, names[i]) == 0) {
      *out = kinds[i];
      return TRI_OK;
    }
    length += (size_t)snprintf(list + length, LIST_BYTES - length, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  const char *near = tri_nearest_word(name, names, COUNT_OF(names));
  if (near == NULL) return tri_fail(TRI_BAD_CONFIG, "reward %s: not a kind of reward; write one of %s", name, list);
  return tri_fail(TRI_BAD_CONFIG, "reward %s: not a kind of reward; did you mean `%s`? The kinds are %s", name, near,
                  list);
}

static tri_status check_keys(const tri_reward_kind *kind, uint32_t given) {
  const uint32_t taken = kind->keys | TRI_REWARD_WEIGHT;
  char list[LIST_BYTES];
  for (size_t i = 0; i < COUNT_OF(keys); i++) {
    const bool is_given = (given & keys[i].bit) != 0;
    if (is_given && (taken & keys[i].bit) == 0) {
      return tri_fail(TRI_BAD_CONFIG, "reward %s: %s is not a key of this kind; leave it out: the keys are %s",
                      kind->name, keys[i].name, list_keys(taken, list));
    }
    if (!is_given && (kind->required & keys[i].bit) != 0) {
      return tri_fail(TRI_BAD_CONFIG, "reward %s: %s is missing; write %s", kind->name, keys[i].name, keys[i].advice);
    }
  }
  return TRI_OK;
}

static void set_defaults(tri_reward_settings *s) {
  if ((s->given & TRI_REWARD_WEIGHT) == 0) s->weight = 1;
  if ((s->given & TRI_REWARD_PATTERN) == 0) s->pattern[0] = '\0';
  if ((s->given & TRI_REWARD_TEXT) == 0) s->text[0] = '\0';
  if ((s->given & TRI_REWARD_STRIP) == 0) s->strip = true;
  if ((s->given & TRI_REWARD_IGNORE_CASE) == 0) s->ignore_case = false;
  if ((s->given & TRI_REWARD_IGNORE_PUNCTUATION) == 0) s->ignore_punctuation = false;
  if ((s->given & TRI_REWARD_IGNORE_NUMBERS) == 0) s->ignore_numbers = false;
  if ((s->given & TRI_REWARD_MAX) == 0) s->max = 0;
  if ((s->given & TRI_REWARD_NGRAM) == 0) s->ngram = 3;
  if ((s->given & TRI_REWARD_MAX_PENALTY) == 0) s->max_penalty = -1;
  if ((s->given & TRI_REWARD_UNIT) == 0) s->unit = TRI_REWARD_WORDS;
}

static tri_status check_settings(tri_reward *reward) {
  TRI_TRY(check_keys(reward->kind, reward->settings.given));
  set_defaults(&reward->settings);
  if (!isfinite(reward->settings.weight)) {
    return tri_fail(TRI_BAD_CONFIG, "reward %s: weight is %g; write a finite number", reward->kind->name,
                    reward->settings.weight);
  }
  return reward->kind->create == NULL ? TRI_OK : reward->kind->create(reward);
}

tri_status tri_reward_create(const tri_reward_settings *settings, tri_reward **out) {
  const tri_reward_kind *kind = NULL;
  tri_reward *reward = NULL;
  *out = NULL;
  TRI_TRY(find_kind(settings->name, &kind));
  TRI_TRY(tri_alloc("a reward", 1, sizeof *reward, &reward));
  *reward = (tri_reward){.kind = kind, .settings = *settings, .needs_answer = kind->needs_answer};
  const tri_status status = check_settings(reward);
  if (status == TRI_OK) *out = reward;
  if (status != TRI_OK) tri_reward_destroy(reward);
  return status;
}

void tri_reward_destroy(tri_reward *reward) {
  if (reward == NULL) return;
  tri_reward_pattern_destroy(reward->pattern);
  tri_free(reward);
}

tri_status tri_reward_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  *out = (double)NAN;
  if (reward->needs_answer && completion->answer == NULL) return TRI_OK;
  const tri_status status = reward->kind->score(reward, completion, out);
  if (status != TRI_OK) *out = (double)NAN;
  return status;
}

bool tri_reward_needs_answer(const tri_reward *reward) { return reward->needs_answer; }

double tri_reward_weight(const tri_reward *reward) { return reward->settings.weight; }

int64_t tri_reward_limits(const tri_reward *reward) {
  return reward->pattern == NULL ? 0 : tri_reward_pattern_limits(reward->pattern);
}

const char *const *tri_reward_names(size_t *count) {
  *count = COUNT_OF(names);
  return names;
}

void tri_reward_warn_of_limits(const char *label, int64_t limits, int64_t count) {
  tri_warn("reward %s: its pattern took too many steps for %" PRId64 " of %" PRId64
           " completions, which count as not matching; write a pattern that backtracks less, such as one without "
           "nested repetitions",
           label, limits, count);
}
