/* `length`: soft overlong punishment (DAPO, arXiv:2503.14476, equation 13). With n tokens of the completion, M = `max`
 * and B = `buffer`: 0 if n <= M - B; (M - B - n) / B, which falls to -1 at n = M; -1 if n > M. */
#include "reward/kind.h"

#include <inttypes.h>

static tri_status check_buffer(int64_t buffer, int64_t max) {
  if (buffer <= max) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "reward length: buffer is %" PRId64 ", more than the maximum of %" PRId64
                  " tokens, so the shortest completion would be punished; write a smaller number",
                  buffer, max);
}

static tri_status length_create(tri_reward *reward) {
  const tri_reward_settings *s = &reward->settings;
  if (s->max < 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "reward length: max is %" PRId64 "; write a number of tokens, or 0 for the maximum of a completion",
                    s->max);
  }
  if (s->buffer < 0) {
    return tri_fail(TRI_BAD_CONFIG, "reward length: buffer is %" PRId64 "; write a number of tokens of at least 0",
                    s->buffer);
  }
  if (s->max == 0 && s->buffer == 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "reward length: buffer is 0, and no completion exceeds its own maximum; write a "
                    "number of tokens, or a smaller `max`");
  }
  return s->max == 0 ? TRI_OK : check_buffer(s->buffer, s->max);
}

static tri_status length_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  const int64_t buffer = reward->settings.buffer;
  const int64_t max = reward->settings.max > 0 ? reward->settings.max : completion->max_tokens;
  TRI_TRY(check_buffer(buffer, max));
  const int64_t over = completion->tokens - (max - buffer);
  *out = over <= 0 ? 0 : over > buffer ? -1 : -(double)over / (double)buffer;
  return TRI_OK;
}

const tri_reward_kind tri_reward_length = {
    .name = "length",
    .keys = TRI_REWARD_MAX | TRI_REWARD_BUFFER,
    .required = TRI_REWARD_BUFFER,
    .create = length_create,
    .score = length_score,
};
