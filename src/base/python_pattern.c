/* Whether a name matches does not depend on greediness, so POSIX patterns are sufficient, except for features that they
 * lack. */
#include "base/python_pattern.h"

#include <ctype.h>
#include <regex.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { PATTERN_BYTES = 4096, MOST_BRACES = 2 };

static bool append_posix_text(char *out, size_t *used, const char *text) {
  const size_t length = strlen(text);
  if (*used + length + 1 > PATTERN_BYTES) return false;
  memcpy(out + *used, text, length + 1);
  *used += length;
  return true;
}

/* Translates the next part of a pattern to POSIX; returns the number of the part's characters, 0 if it cannot be
 * translated. */
static size_t translate_part(const char *at, bool in_brackets, char out[8]) {
  snprintf(out, 8, "%c", *at);
  if (*at == '\\' && at[1] == 'd') {
    snprintf(out, 8, "%s", in_brackets ? "0-9" : "[0-9]");
    return 2;
  }
  if (*at == '\\' && !in_brackets && ispunct((unsigned char)at[1])) {
    snprintf(out, 8, "\\%c", at[1]);
    return 2;
  }
  if (strncmp(at, "\\w", 2) == 0 && !in_brackets) {
    snprintf(out, 8, "\\w");
    return 2;
  }
  if (*at == '\\' || (*at == '[' && in_brackets)) return 0;
  if (in_brackets || *at != '(' || at[1] != '?') return 1;
  return at[2] == ':' ? 3 : 0;
}

/* Returns whether the numbers of a repeat "{...}" have at most two digits, and the repeat is one of the first
 * MOST_BRACES of its pattern. Counts it in *braces. Nested repeats multiply, so both limits bound the memory. */
static bool is_short_repeat(const char *brace, int *braces) {
  const size_t length = strcspn(brace, "}");
  for (size_t i = 1, digits = 0; i < length; i++) {
    digits = isdigit((unsigned char)brace[i]) ? digits + 1 : 0;
    if (digits > 2) return false;
  }
  return ++*braces <= MOST_BRACES;
}

static bool translate(const char *before, const char *pattern, const char *behind, char out[PATTERN_BYTES]) {
  bool in_brackets = false, repeatable = false; /* repeatable: whether a repeat may follow */
  size_t used = 0;
  int braces = 0, open = 0;
  if (!append_posix_text(out, &used, before)) return false;
  for (const char *at = pattern; *at != '\0';) {
    char part[8];
    const size_t taken = translate_part(at, in_brackets, part);
    if (taken == 0 || !append_posix_text(out, &used, part)) return false;
    if (taken == 1 && *at == '{' && !in_brackets && !is_short_repeat(at, &braces)) return false;
    if (taken == 1 && (*at == '[' || (*at == ']' && in_brackets))) in_brackets = *at == '[';
    if (!in_brackets && *at == '(') open++;
    if (!in_brackets && taken == 1 && *at == ')' && --open < 0) return false; /* would close the caller's group */
    const bool repeats = taken == 1 && !in_brackets && strchr("*+?}", *at) != NULL;
    if (repeats && !repeatable) return false;
    repeatable = in_brackets || !((taken == 1 && strchr("(|", *at) != NULL) || taken == 3);
    at += taken;
    if (repeats && *at == '?') at++;
    if (repeats && *at != '\0' && strchr("*+?{", *at) != NULL) return false;
  }
  return append_posix_text(out, &used, behind);
}

/* An entry of a cache of compiled patterns: a model's names are compared with a few patterns in turn, and compiling
 * takes longest. */
typedef struct kept_pattern {
  char translated[PATTERN_BYTES]; /* "": unused entry */
  regex_t compiled;
} kept_pattern;
enum { KEPT = 4 };
static _Thread_local kept_pattern kept[KEPT];
static _Thread_local int next_kept;

/* Compiles a pattern between the texts `before` and `behind`, or finds it in the cache; NULL: the pattern is not
 * supported. */
static const regex_t *compile(const char *before, const char *pattern, const char *behind) {
  char translated[PATTERN_BYTES];
  if (!translate(before, pattern, behind, translated)) return NULL;
  for (int k = 0; k < KEPT; k++) {
    if (strcmp(kept[k].translated, translated) == 0) return &kept[k].compiled;
  }
  kept_pattern *to = &kept[next_kept];
  if (to->translated[0] != '\0') regfree(&to->compiled);
  to->translated[0] = '\0';
  if (regcomp(&to->compiled, translated, REG_EXTENDED | REG_NOSUB) != 0) return NULL;
  memcpy(to->translated, translated, strlen(translated) + 1);
  next_kept = (next_kept + 1) % KEPT;
  return &to->compiled;
}

/* Returns whether a text matches; `otherwise` if the pattern is not supported. */
static bool matches(const char *before, const char *pattern, const char *behind, const char *text, bool otherwise) {
  const regex_t *compiled = compile(before, pattern, behind);
  return compiled == NULL ? otherwise : regexec(compiled, text, 0, NULL, 0) == 0;
}

/* Returns whether a pattern has only letters, digits, _ and dots, so that no compilation is needed. */
static bool is_plain(const char *pattern) {
  for (const char *at = pattern; *at != '\0'; at++) {
    if (!isalnum((unsigned char)*at) && *at != '_' && *at != '.') return false;
  }
  return true;
}

static bool ends_plainly(const char *pattern, const char *text) {
  const size_t length = strlen(pattern), all = strlen(text);
  if (length > all || (length < all && text[all - length - 1] != '.')) return false;
  for (size_t i = 0; i < length; i++) {
    if (pattern[i] != '.' && pattern[i] != text[all - length + i]) return false;
  }
  return true;
}

bool tri_python_pattern_is_known(const char *pattern) {
  return is_plain(pattern) || compile("^(.*\\.)?(", pattern, ")$") != NULL;
}

bool tri_python_pattern_matches(const char *pattern, const char *text, bool otherwise) {
  return matches("^(", pattern, ")$", text, otherwise);
}

bool tri_python_pattern_ends(const char *pattern, const char *text) {
  return is_plain(pattern) ? ends_plainly(pattern, text) : matches("^(.*\\.)?(", pattern, ")$", text, false);
}
