/* `exact`: 1 if the completion equals the answer up to the differences that the keys ignore, else 0. An answer
 * that is empty without these differences is refused, because an empty completion would equal it. */
#include "base/memory.h"
#include "reward/exact_match.h"
#include "reward/kind.h"

#include <string.h>

static tri_status compare_with(const tri_match_rule *rule, const tri_scored_completion *completion, const char *answer,
                               size_t bytes, double *out) {
  char *text = NULL;
  size_t text_bytes = 0;
  TRI_TRY(tri_match_normalise(rule, completion->text, completion->text_bytes, &text, &text_bytes));
  *out = text_bytes == bytes && memcmp(text, answer, bytes) == 0;
  tri_free(text);
  return TRI_OK;
}

static tri_status exact_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  const tri_reward_settings *s = &reward->settings;
  const tri_match_rule rule = {.strip = s->strip,
                               .ignore_case = s->ignore_case,
                               .ignore_punctuation = s->ignore_punctuation,
                               .ignore_numbers = s->ignore_numbers};
  char *answer = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_match_normalise(&rule, completion->answer, completion->answer_bytes, &answer, &bytes));
  const tri_status status =
      bytes > 0 ? compare_with(&rule, completion, answer, bytes, out)
                : tri_reward_refuse_answer(reward, completion, "has nothing to compare; write a text that is right");
  tri_free(answer);
  return status;
}

const tri_reward_kind tri_reward_exact = {
    .name = "exact",
    .keys = TRI_REWARD_STRIP | TRI_REWARD_IGNORE_CASE | TRI_REWARD_IGNORE_PUNCTUATION | TRI_REWARD_IGNORE_NUMBERS,
    .needs_answer = true,
    .score = exact_score,
};
