/* `contains`: 1 if the completion contains the bytes of the key `text` or, if that key is not given, the bytes of the
 * answer; else 0. A text that is empty or only white space is refused, because nearly every completion contains it. */
#include "reward/kind.h"

#include <string.h>

static bool is_blank(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] == '\0' || strchr(" \t\n\v\f\r", text[i]) == NULL) return false;
  }
  return true;
}

static tri_status contains_create(tri_reward *reward) {
  const tri_reward_settings *s = &reward->settings;
  if ((s->given & TRI_REWARD_TEXT) == 0) return TRI_OK;
  reward->needs_answer = false;
  if (!is_blank(s->text, strlen(s->text))) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "reward contains: text is empty, and every completion contains it; write the text to "
                  "find, or leave the key out to look for the answer");
}

static tri_status contains_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  const char *part = reward->settings.text;
  size_t bytes = strlen(part);
  if (reward->needs_answer) {
    part = completion->answer;
    bytes = completion->answer_bytes;
    if (is_blank(part, bytes)) {
      return tri_reward_refuse_answer(reward, completion, "is empty, and every completion contains it; write a text");
    }
  }
  *out = completion->text_bytes >= bytes && memmem(completion->text, completion->text_bytes, part, bytes) != NULL;
  return TRI_OK;
}

const tri_reward_kind tri_reward_contains = {
    .name = "contains",
    .keys = TRI_REWARD_TEXT,
    .needs_answer = true,
    .create = contains_create,
    .score = contains_score,
};
