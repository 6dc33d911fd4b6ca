/* Python's regular expressions in PEFT's keys, for names of modules: `target_modules: ".*q_proj"`,
 * `rank_pattern: {"layers.0..*v_proj": 4}`. */
#ifndef TRI_BASE_PYTHON_PATTERN_H
#define TRI_BASE_PYTHON_PATTERN_H

#include <stdbool.h>

/* Returns whether the pattern is supported. Characters, escapes, sets, groups, | and repeats are supported;
 * look-around, word boundaries, back references (`(?!...)`, `\b`, `\1`) and long repeats (`{100}`) are not. */
bool tri_python_pattern_is_known(const char *pattern);

/* Returns re.fullmatch(pattern, text); `otherwise` if the pattern is not supported. */
bool tri_python_pattern_matches(const char *pattern, const char *text, bool otherwise);

/* Returns whether re.match(rf"(.*\.)?({pattern})$", text) matches: the whole text, or its end after a dot. False if the
 * pattern is not supported. */
bool tri_python_pattern_ends(const char *pattern, const char *text);

#endif
