/* `repetition`: penalty for repeated n-grams (arXiv:2502.03373, appendix C.2):
 * (1 - distinct n-grams / n-grams) * max_penalty, and 0 for a completion with fewer units than an n-gram. The units are
 * words, bytes between white space of ASCII, so that the number does not depend on the tokenizer; or the completion's
 * tokens, as in TRL's get_repetition_penalty_reward, for languages that do not divide words by white space.
 *
 * The n-grams are sorted to count the distinct ones. Each word is replaced by its rank among the sorted words first, so
 * that n-grams of words are compared as n numbers, like those of tokens. */
#include "base/memory.h"
#include "reward/kind.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 64 }; /* units in an n-gram */

typedef struct word {
  const char *text;
  size_t bytes;
  int64_t index; /* in the text, from 0 */
} word;

/* An n-gram: a range of the list of numbers that has one number for each unit of the completion. */
typedef struct ngram {
  const int64_t *numbers; /* [count], not owned */
  int64_t count;          /* n; equal in all n-grams of a completion */
} ngram;

static bool is_space(char c) { return c != '\0' && strchr(" \t\n\v\f\r", c) != NULL; }

/* Returns the number of words, and writes them if `out` is not NULL. */
static int64_t split_words(const tri_scored_completion *completion, word *out) {
  const char *text = completion->text;
  int64_t count = 0;
  for (size_t at = 0; at < completion->text_bytes;) {
    const size_t begin = at;
    if (is_space(text[at])) {
      at++;
      continue;
    }
    while (at < completion->text_bytes && !is_space(text[at])) at++;
    if (out != NULL) out[count] = (word){.text = text + begin, .bytes = at - begin, .index = count};
    count++;
  }
  return count;
}

static int compare_words(const void *a, const void *b) {
  const word *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return memcmp(x->text, y->text, x->bytes);
}

static int compare_ngrams(const void *a, const void *b) {
  const ngram *x = a, *y = b;
  for (int64_t i = 0; i < x->count; i++) {
    if (x->numbers[i] != y->numbers[i]) return x->numbers[i] < y->numbers[i] ? -1 : 1;
  }
  return 0;
}

/* Sets ranks[i] to the rank of word i among the different words: [count]. Sorts `words`. */
static void rank_words(word *words, int64_t count, int64_t *ranks) {
  int64_t rank = 0;
  qsort(words, (size_t)count, sizeof *words, compare_words);
  for (int64_t i = 0; i < count; i++) {
    if (i > 0 && compare_words(&words[i - 1], &words[i]) != 0) rank++;
    ranks[words[i].index] = rank;
  }
}

static int64_t count_distinct(ngram *ngrams, int64_t count) {
  int64_t distinct = 1;
  qsort(ngrams, (size_t)count, sizeof *ngrams, compare_ngrams);
  for (int64_t i = 1; i < count; i++) distinct += compare_ngrams(&ngrams[i - 1], &ngrams[i]) != 0;
  return distinct;
}

static bool counts_words(const tri_reward_settings *s) {
  switch (s->unit) {
    case TRI_REWARD_WORDS: return true;
    case TRI_REWARD_TOKENS: break;
  }
  return false;
}

static tri_status repetition_create(tri_reward *reward) {
  const tri_reward_settings *s = &reward->settings;
  if (s->ngram < 1 || s->ngram > MOST_UNITS) {
    return tri_fail(TRI_BAD_CONFIG, "reward repetition: ngram is %" PRId64 "; write a number of %s from 1 to %d",
                    s->ngram, counts_words(s) ? "words" : "tokens", MOST_UNITS);
  }
  if (!isfinite(s->max_penalty) || s->max_penalty > 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "reward repetition: max_penalty is %g; write a number of at most 0, because it is a reward",
                    s->max_penalty);
  }
  return TRI_OK;
}

/* Sets numbers[i] to the rank of word i among the different words of the text: [count]. */
static tri_status number_words(const tri_scored_completion *completion, int64_t count, int64_t *numbers) {
  word *words = NULL;
  TRI_TRY(tri_alloc("words", (size_t)count, sizeof *words, &words));
  split_words(completion, words);
  rank_words(words, count, numbers);
  tri_free(words);
  return TRI_OK;
}

static tri_status repetition_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  const bool of_words = counts_words(&reward->settings);
  const int64_t units = of_words ? split_words(completion, NULL) : completion->ids != NULL ? completion->tokens : 0;
  const int64_t n = reward->settings.ngram, count = units - n + 1;
  int64_t *numbers = NULL;
  ngram *ngrams = NULL;
  *out = 0;
  if (count < 1) return TRI_OK;
  tri_status status = tri_alloc("units", (size_t)units, sizeof *numbers, &numbers);
  if (status == TRI_OK) status = tri_alloc("n-grams", (size_t)count, sizeof *ngrams, &ngrams);
  if (status == TRI_OK && of_words) status = number_words(completion, units, numbers);
  if (status == TRI_OK) {
    for (int64_t i = 0; i < units && !of_words; i++) numbers[i] = completion->ids[i];
    for (int64_t i = 0; i < count; i++) ngrams[i] = (ngram){.numbers = numbers + i, .count = n};
    const int64_t distinct = count_distinct(ngrams, count);
    if (distinct < count) *out = (1 - (double)distinct / (double)count) * reward->settings.max_penalty;
  }
  tri_free(numbers);
  tri_free(ngrams);
  return status;
}

const tri_reward_kind tri_reward_repetition = {
    .name = "repetition",
    .keys = TRI_REWARD_NGRAM | TRI_REWARD_MAX_PENALTY | TRI_REWARD_UNIT,
    .create = repetition_create,
    .score = repetition_score,
};
