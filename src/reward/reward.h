/* Rewards by rules: numbers that a completion of a prompt earns in reinforcement learning.
 *
 * A reward is a kind with settings (TRI_REWARD_KINDS in kind.h; each kind is a file of this folder, whose head comment
 * defines its number). A completion is scored without the model, and the number depends only on the completion, its
 * prompt's answer and the settings. A reward has *no verdict* about a completion if it compares with the answer and the
 * prompt has none.
 *
 * Before a run, score an empty completion for each prompt: an answer that a kind cannot compare with is an error then.
 * All calls are LOCAL. Several threads may score with one reward. */
#ifndef TRI_REWARD_REWARD_H
#define TRI_REWARD_REWARD_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys of rewards, as bits of tri_reward_settings.given. Each kind takes `weight` and some of the others. */
enum {
  TRI_REWARD_WEIGHT = 1 << 0,
  TRI_REWARD_PATTERN = 1 << 1,
  TRI_REWARD_TEXT = 1 << 2,
  TRI_REWARD_STRIP = 1 << 3,
  TRI_REWARD_IGNORE_CASE = 1 << 4,
  TRI_REWARD_IGNORE_PUNCTUATION = 1 << 5,
  TRI_REWARD_IGNORE_NUMBERS = 1 << 6,
  TRI_REWARD_MAX = 1 << 7,
  TRI_REWARD_BUFFER = 1 << 8,
  TRI_REWARD_NGRAM = 1 << 9,
  TRI_REWARD_MAX_PENALTY = 1 << 10,
  TRI_REWARD_UNIT = 1 << 11,
};

enum { TRI_REWARD_TEXT_BYTES = 1024 };

/* The elements of the n-grams of `repetition`. */
typedef enum tri_reward_unit { TRI_REWARD_WORDS, TRI_REWARD_TOKENS } tri_reward_unit;

typedef struct tri_reward_settings {
  char name[64];                       /* the kind's name */
  uint32_t given;                      /* TRI_REWARD_* bits of the keys that are set; the others have their defaults */
  double weight;                       /* factor of the reward in the sum of all rewards; default 1 */
  char pattern[TRI_REWARD_TEXT_BYTES]; /* regex, format: pattern in PCRE2's syntax */
  char text[TRI_REWARD_TEXT_BYTES];    /* contains: text to find; default: the answer */
  bool strip;                          /* exact: whether white space at both ends is ignored; default true */
  bool ignore_case, ignore_punctuation, ignore_numbers; /* exact: differences that are ignored (tri_match_rule);
                                                           default false */
  int64_t max;          /* length: largest number of tokens; 0, the default: tri_scored_completion.max_tokens */
  int64_t buffer;       /* length: number of tokens below the maximum over which the reward falls from 0 to -1 */
  int64_t ngram;        /* repetition: number of units of an n-gram; default 3 */
  double max_penalty;   /* repetition: reward of a text that only repeats, at most 0; default -1 */
  tri_reward_unit unit; /* repetition: default TRI_REWARD_WORDS */
} tri_reward_settings;

/* A completion with its prompt. `prompt` and `text` are not NULL. Texts may contain any bytes; patterns match bytes
 * that are not UTF-8 as U+FFFD. */
typedef struct tri_scored_completion {
  const char *prompt;
  size_t prompt_bytes;
  const char *text; /* the rewarded text: the completion up to its end token */
  size_t text_bytes;
  const char *answer; /* right answer of the prompt; NULL: the prompt's line has no answer */
  size_t answer_bytes;
  const int32_t *ids; /* [tokens]; NULL: unknown, and a reward that reads tokens takes the completion as empty */
  int64_t tokens;     /* number of tokens of the completion, its end token included */
  int64_t max_tokens; /* maximum of `tokens` (rollout.max_completion_length) */
  bool truncated;     /* whether the completion ended because it had max_tokens tokens */
} tri_scored_completion;

typedef struct tri_reward tri_reward;

/* Checks the settings and compiles the pattern. *out is NULL after a failure; release it with tri_reward_destroy. Fails
 * with TRI_BAD_CONFIG: the message begins with "reward NAME: KEY" for a key that is missing, not valid, or not taken by
 * the kind, and with "reward NAME" for an unknown kind. */
tri_status tri_reward_create(const tri_reward_settings *settings, tri_reward **out);
void tri_reward_destroy(tri_reward *reward);

/* Sets *out to the reward of a completion, without the weight; NaN: no verdict. Fails with TRI_BAD_FILE, whatever the
 * completion is, if the kind cannot compare with the answer (for `number`, a text without a number); the message has
 * the answer. Fails with TRI_BAD_CONFIG for `length` if its `max` is 0 and its `buffer` is above max_tokens, and for a
 * pattern that PCRE2 cannot match. */
tri_status tri_reward_score(const tri_reward *reward, const tri_scored_completion *completion, double *out);

/* Returns whether the reward has no verdict without an answer. */
bool tri_reward_needs_answer(const tri_reward *reward);
double tri_reward_weight(const tri_reward *reward);
/* Returns how many completions exceeded the limits of PCRE2 since the reward was created. Their reward is 0. */
int64_t tri_reward_limits(const tri_reward *reward);
/* Warns that `limits` of `count` completions exceeded the limits of PCRE2. label: name of the reward in metrics. */
void tri_reward_warn_of_limits(const char *label, int64_t limits, int64_t count);

/* Returns the names of the kinds, and sets *count. */
const char *const *tri_reward_names(size_t *count);

#endif
