/* Regular expressions of Python's, as PEFT's keys have them for names of modules: `target_modules: ".*q_proj"`,
 * `rank_pattern: {"layers.0..*v_proj": 4}`. */
#ifndef TRI_BASE_PYTHON_PATTERN_H
#define TRI_BASE_PYTHON_PATTERN_H

#include <stdbool.h>

/* Whether the pattern can be read here. Names and backslashes, sets, groups, | and repeats can; what looks around or
 * back (`(?!...)`, `\b`, `\1`) and long repeats (`{100}`) cannot. */
bool tri_python_pattern_is_known(const char *pattern);

/* re.fullmatch(pattern, text); `otherwise` where the pattern is not known. */
bool tri_python_pattern_matches(const char *pattern, const char *text, bool otherwise);

/* re.match(rf"(.*\.)?({pattern})$", text): the end of a name, from a dot on. False where the pattern is not known. */
bool tri_python_pattern_ends(const char *pattern, const char *text);

#endif
