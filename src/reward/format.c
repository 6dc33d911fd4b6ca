/* `format`: 1 if the pattern matches the whole completion and each tag of the pattern occurs exactly once in the
 * completion, else 0. `.` matches line breaks. The number is 0 if the match exceeds a limit, as for `regex`.
 *
 * The tags of a pattern are the texts <name>, </name> and <name/> in it, also as <\/name> or \<name\>. Tags in sets,
 * comments and negative look-arounds are not counted. Without this rule about tags, `<think>.*</think>.*` would match a
 * completion that thinks twice. */
#include "reward/kind.h"
#include "reward/pattern.h"

#include <ctype.h>
#include <string.h>

enum { TAG_BYTES = TRI_REWARD_TEXT_BYTES };

/* A position in a pattern. */
typedef struct cursor {
  const char *at;
  int depth;    /* open groups */
  int negative; /* depth of the outermost negative look-around; 0: outside */
} cursor;

static bool is_name(char c, bool first) {
  return isalpha((unsigned char)c) != 0 || c == '_' || (!first && (isdigit((unsigned char)c) != 0 || strchr("-.:", c)));
}

/* Copies the tag that begins at `at` into `tag`, without escapes, and returns its end; NULL if no tag begins there. */
static const char *read_tag(const char *at, char tag[TAG_BYTES]) {
  size_t length = 0;
  if (*at == '\\') at++;
  if (*at++ != '<') return NULL;
  tag[length++] = '<';
  if (at[0] == '\\' && at[1] == '/') at++;
  if (*at == '/') tag[length++] = *at++;
  if (!is_name(*at, true)) return NULL;
  while (*at != '\0' && is_name(*at, false)) tag[length++] = *at++;
  if (at[0] == '\\' && at[1] == '/') at++;
  if (*at == '/') tag[length++] = *at++;
  if (at[0] == '\\' && at[1] == '>') at++;
  if (*at != '>') return NULL;
  tag[length++] = '>';
  tag[length] = '\0';
  return at + 1;
}

/* Returns the position after the next `end`; the end of the pattern if it does not occur. */
static const char *skip_past(const char *at, char end) {
  const char *found = strchr(at, end);
  return found == NULL ? at + strlen(at) : found + 1;
}

static const char *skip_set(const char *at) {
  at++;
  if (*at == '^') at++;
  if (*at == ']') at++;
  while (*at != '\0' && *at != ']') at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
  return *at == '\0' ? at : at + 1;
}

/* Moves past the beginning of a group, with its name, or past a comment. */
static void enter_group(cursor *c) {
  const char *at = c->at;
  if (at[1] == '?' && at[2] == '#') {
    c->at = skip_past(at, ')');
    return;
  }
  c->depth++;
  c->at = at + 1;
  if (at[1] != '?') return;
  const bool behind = at[2] == '<' && (at[3] == '=' || at[3] == '!');
  const bool negative = at[2] == '!' || (behind && at[3] == '!');
  if (negative && c->negative == 0) c->negative = c->depth;
  c->at = at + (behind ? 4 : 2);
  if ((at[2] == '<' && !behind) || (at[2] == 'P' && at[3] == '<')) c->at = skip_past(at, '>');
  if (at[2] == '(' && at[3] == '<') c->at = skip_past(at, ')');
}

static void leave_group(cursor *c) {
  if (c->depth == c->negative) c->negative = 0;
  if (c->depth > 0) c->depth--;
  c->at++;
}

/* Copies the next tag of the pattern into `tag`. Returns false if the pattern has no further tag. */
static bool next_tag(cursor *c, char tag[TAG_BYTES]) {
  while (*c->at != '\0') {
    const char *end = read_tag(c->at, tag);
    if (end != NULL) {
      c->at = end;
      if (c->negative == 0) return true;
    } else if (*c->at == '\\' && c->at[1] != '\0') {
      const bool named = (c->at[1] == 'k' || c->at[1] == 'g') && c->at[2] == '<';
      c->at = named ? skip_past(c->at, '>') : c->at + 2;
    } else if (*c->at == '[') {
      c->at = skip_set(c->at);
    } else if (*c->at == '(') {
      enter_group(c);
    } else if (*c->at == ')') {
      leave_group(c);
    } else {
      c->at++;
    }
  }
  return false;
}

static bool occurs_once(const tri_scored_completion *completion, const char *tag) {
  const char *at = completion->text;
  size_t bytes = completion->text_bytes;
  const char *first = bytes == 0 ? NULL : memmem(at, bytes, tag, strlen(tag));
  if (first == NULL) return false;
  bytes -= (size_t)(first - at) + 1;
  return memmem(first + 1, bytes, tag, strlen(tag)) == NULL;
}

static tri_status format_create(tri_reward *reward) {
  return tri_reward_pattern_compile(reward->kind->name, reward->settings.pattern, true, &reward->pattern);
}

static tri_status format_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  char tag[TAG_BYTES];
  bool matches = false;
  *out = 0;
  for (cursor c = {.at = reward->settings.pattern}; next_tag(&c, tag);) {
    if (!occurs_once(completion, tag)) return TRI_OK;
  }
  TRI_TRY(tri_reward_pattern_match(reward->pattern, completion->text, completion->text_bytes, &matches));
  *out = matches;
  return TRI_OK;
}

const tri_reward_kind tri_reward_format = {
    .name = "format",
    .keys = TRI_REWARD_PATTERN,
    .required = TRI_REWARD_PATTERN,
    .create = format_create,
    .score = format_score,
};
