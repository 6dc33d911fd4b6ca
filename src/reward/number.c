/* `number`: 1 if the number of the completion equals the number of the answer, else 0. The number of a text is the
 * first of these that exists:
 *
 *   1. in the last \boxed{...}: the first number, after the last = if the box has one
 *   2. after the last ####: the first number (GSM8K's form)
 *   3. the last number of the text
 *
 * number_text.h defines numbers and their equality: 0.5, 1/2 and 50% are equal. An answer without a number is refused.
 */
#include "reward/boxed.h"
#include "reward/kind.h"
#include "reward/number_text.h"

#include <string.h>

/* Returns the position after the last occurrence of `mark`; NULL if the text does not contain it. */
static const char *after_last(const char *text, size_t bytes, const char *mark) {
  const size_t length = strlen(mark);
  for (size_t end = bytes; end >= length; end--) {
    if (memcmp(text + end - length, mark, length) == 0) return text + end;
  }
  return NULL;
}

static bool number_of(const char *text, size_t bytes, tri_number *out) {
  const char *box = NULL;
  size_t box_bytes = 0;
  if (tri_reward_boxed(text, bytes, &box, &box_bytes)) {
    const char *end = box + box_bytes, *equals = after_last(box, box_bytes, "=");
    const char *begin = equals == NULL ? box : equals;
    if (tri_number_first(begin, (size_t)(end - begin), out)) return true;
  }
  const char *marked = after_last(text, bytes, "####");
  if (marked != NULL && tri_number_first(marked, bytes - (size_t)(marked - text), out)) return true;
  return tri_number_last(text, bytes, out);
}

static tri_status number_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  tri_number right, given;
  if (!number_of(completion->answer, completion->answer_bytes, &right)) {
    return tri_reward_refuse_answer(reward, completion,
                                    "has no number; write one, or use `exact`, which compares texts");
  }
  *out = number_of(completion->text, completion->text_bytes, &given) && tri_number_equals(&given, &right);
  return TRI_OK;
}

const tri_reward_kind tri_reward_number = {.name = "number", .needs_answer = true, .score = number_score};
