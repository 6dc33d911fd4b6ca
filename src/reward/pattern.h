/* Regular expressions of rewards: PCRE2's syntax with Unicode's classes, so that \d, \w and \b mean the same as in
 * Python. `$` matches at the end and before a last line break; `.` matches any character but a line break.
 *
 * A model writes the text, so a match must end in bounded time and memory. PCRE2's own limits hold for each position at
 * which a match may begin. A callout before each item of the pattern counts items and the characters between them for
 * all positions together. PCRE2's JIT is not used: its limits count differently, and a reward must not depend on
 * whether the machine has it. */
#ifndef TRI_REWARD_PATTERN_H
#define TRI_REWARD_PATTERN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_reward_pattern tri_reward_pattern;

/* Compiles a pattern. If `whole` is true, the pattern must match the whole text, and `.` matches line breaks. Fails
 * with TRI_BAD_CONFIG; the message begins with "reward KIND: pattern". Release with tri_reward_pattern_destroy. */
tri_status tri_reward_pattern_compile(const char *kind, const char *pattern, bool whole, tri_reward_pattern **out);
void tri_reward_pattern_destroy(tri_reward_pattern *pattern);

/* Sets *out to whether the pattern matches. Bytes that are not UTF-8 are matched as U+FFFD. A match that exceeds a
 * limit is counted, and *out is false. */
tri_status tri_reward_pattern_match(tri_reward_pattern *pattern, const char *text, size_t bytes, bool *out);
/* Returns the number of matches that exceeded a limit. */
int64_t tri_reward_pattern_limits(const tri_reward_pattern *pattern);

#endif
