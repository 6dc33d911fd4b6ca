/* Interface between rewards and their kinds. A new kind needs a file that defines its tri_reward_kind, and an entry in
 * TRI_REWARD_KINDS. */
#ifndef TRI_REWARD_KIND_H
#define TRI_REWARD_KIND_H

#include "reward/reward.h"

typedef struct tri_reward_pattern tri_reward_pattern;

typedef struct tri_reward_kind {
  const char *name;
  uint32_t keys;     /* bits (tri_reward_settings.given) of the keys that the kind takes besides `weight` */
  uint32_t required; /* bits of the keys that must be given */
  bool needs_answer; /* initial value of tri_reward.needs_answer */
  tri_status (*create)(tri_reward *reward); /* checks the values of the keys, and compiles the pattern if the kind has
                                               one; NULL: there is nothing to check */
  /* Sets *out to the reward of a completion. *out is NaN on entry. The completion has an answer if needs_answer is
   * true. */
  tri_status (*score)(const tri_reward *reward, const tri_scored_completion *completion, double *out);
} tri_reward_kind;

struct tri_reward {
  const tri_reward_kind *kind;
  tri_reward_settings settings; /* defaults included */
  bool needs_answer;
  tri_reward_pattern *pattern; /* compiled pattern; NULL: the kind has no pattern */
};

/* The kinds in the order of messages. tri_reward_NAME is defined in NAME.c. */
#define TRI_REWARD_KINDS(KIND)                                                                                         \
  KIND(exact) KIND(number) KIND(choice) KIND(regex) KIND(format) KIND(contains) KIND(length) KIND(repetition)
#define TRI_REWARD_DECLARE(NAME) extern const tri_reward_kind tri_reward_##NAME;
TRI_REWARD_KINDS(TRI_REWARD_DECLARE)

/* Reports that a kind cannot compare with the answer: "reward NAME: answer: TEXT REASON". A long text is cut, and
 * control characters become spaces. Returns TRI_BAD_FILE. */
tri_status tri_reward_refuse_answer(const tri_reward *reward, const tri_scored_completion *completion,
                                    const char *reason);

#endif
