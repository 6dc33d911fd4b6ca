/* Comparison of a text with a right answer: lm-evaluation-harness's exact_match. Used by `trireme eval --answers` and
 * by the reward `exact`. */
#ifndef TRI_REWARD_EXACT_MATCH_H
#define TRI_REWARD_EXACT_MATCH_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Differences that the comparison ignores: a member is true if the difference that its comment names is ignored. */
typedef struct tri_match_rule {
  bool strip;                                           /* ASCII white space at both ends */
  bool ignore_case, ignore_punctuation, ignore_numbers; /* case of all letters; ASCII punctuation; ASCII digits */
} tri_match_rule;

/* Sets *out to a copy of the text without the differences that `rule` ignores. Release *out with tri_free; *out is not
 * NUL-terminated. Bytes that are not UTF-8 are kept. */
tri_status tri_match_normalise(const tri_match_rule *rule, const char *text, size_t bytes, char **out,
                               size_t *out_bytes);

#endif
