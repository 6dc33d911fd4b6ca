/* `regex`: 1 if the pattern matches somewhere in the completion, else 0; also 0 if the match exceeds a limit, which
 * tri_reward_limits counts. */
#include "reward/kind.h"
#include "reward/pattern.h"

static tri_status regex_create(tri_reward *reward) {
  return tri_reward_pattern_compile(reward->kind->name, reward->settings.pattern, false, &reward->pattern);
}

static tri_status regex_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  bool matches = false;
  TRI_TRY(tri_reward_pattern_match(reward->pattern, completion->text, completion->text_bytes, &matches));
  *out = matches;
  return TRI_OK;
}

const tri_reward_kind tri_reward_regex = {
    .name = "regex",
    .keys = TRI_REWARD_PATTERN,
    .required = TRI_REWARD_PATTERN,
    .create = regex_create,
    .score = regex_score,
};
