#include "reward/pattern.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <string.h>

enum {
  MOST_STEPS = 1 << 22, /* in one match: items of the pattern that are tried, plus characters that are passed */
  MOST_CALLS = 1 << 24, /* PCRE2's match limit */
  MOST_DEPTH = 1 << 20, /* PCRE2's depth limit: nested backtracking points */
  HEAP_KIB = 1 << 16,   /* memory for backtracking */
  MOST_NESTED = 100,    /* nested parentheses of a pattern */
};

struct tri_reward_pattern {
  pcre2_code *code;
  atomic_int_fast64_t limits; /* number of matches that exceeded a limit */
};

tri_status tri_reward_pattern_compile(const char *kind, const char *pattern, bool whole, tri_reward_pattern **out) {
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT |
                           (whole ? PCRE2_DOTALL | PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0);
  tri_reward_pattern *made = NULL;
  int error = 0;
  size_t offset = 0;
  if (pattern[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG, "reward %s: pattern is empty; write a regular expression", kind);
  }
  TRI_TRY(tri_alloc("a pattern", 1, sizeof *made, &made));
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context != NULL) {
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, MOST_NESTED);
    made->code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), options, &error, &offset, context);
    pcre2_compile_context_free(context);
  }
  if (made->code != NULL) {
    *out = made;
    return TRI_OK;
  }
  tri_free(made);
  if (context == NULL)
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot compile the pattern of reward %s", kind);
  PCRE2_UCHAR reason[256];
  pcre2_get_error_message(error, reason, sizeof reason);
  return tri_fail(TRI_BAD_CONFIG, "reward %s: pattern is not a regular expression: %s at byte %zu; correct it", kind,
                  (const char *)reason, offset);
}

void tri_reward_pattern_destroy(tri_reward_pattern *pattern) {
  if (pattern == NULL) return;
  pcre2_code_free(pattern->code);
  tri_free(pattern);
}

typedef struct progress {
  size_t at; /* offset of the last callout */
  int64_t steps;
} progress;

static int count_steps(pcre2_callout_block *block, void *context) {
  progress *p = context;
  const size_t at = block->current_position;
  p->steps += 1 + (at > p->at ? (int64_t)(at - p->at) : 0);
  p->at = at;
  return p->steps > MOST_STEPS ? PCRE2_ERROR_CALLOUT : 0;
}

static tri_status read_result(tri_reward_pattern *pattern, int result, bool *out) {
  PCRE2_UCHAR reason[256];
  switch (result) {
    case PCRE2_ERROR_NOMATCH: return TRI_OK;
    case PCRE2_ERROR_CALLOUT:
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_RECURSELOOP: atomic_fetch_add(&pattern->limits, 1); return TRI_OK;
    case PCRE2_ERROR_NOMEMORY: return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot match a reward's pattern");
    default: *out = result >= 0;
  }
  if (*out) return TRI_OK;
  pcre2_get_error_message(result, reason, sizeof reason);
  return tri_fail(TRI_BAD_CONFIG, "the pattern of a reward cannot be matched: %s; write another one",
                  (const char *)reason);
}

static tri_status match_utf8(tri_reward_pattern *pattern, const char *text, size_t bytes, bool *out) {
  progress steps = {0};
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  int result = PCRE2_ERROR_NOMEMORY;
  if (data != NULL && context != NULL) {
    pcre2_set_match_limit(context, MOST_CALLS);
    pcre2_set_depth_limit(context, MOST_DEPTH);
    pcre2_set_heap_limit(context, HEAP_KIB);
    pcre2_set_callout(context, count_steps, &steps);
    result = pcre2_match(pattern->code, (PCRE2_SPTR)text, bytes, 0, PCRE2_NO_UTF_CHECK, data, context);
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(data);
  return read_result(pattern, result, out);
}

/* Copies a text, and returns the number of bytes of the copy. Each sequence of bytes that are not UTF-8 becomes one
 * U+FFFD. */
static size_t copy_utf8(const char *text, size_t bytes, char *to) {
  size_t length = 0;
  for (size_t at = 0; at < bytes;) {
    const size_t valid = tri_utf8_valid_bytes(text + at, bytes - at);
    memcpy(to + length, text + at, valid);
    length += valid;
    at += valid;
    if (at == bytes) return length;
    memcpy(to + length, "\xEF\xBF\xBD", 3);
    length += 3;
    at += tri_utf8_invalid_bytes(text + at, bytes - at);
  }
  return length;
}

tri_status tri_reward_pattern_match(tri_reward_pattern *pattern, const char *text, size_t bytes, bool *out) {
  char *copy = NULL;
  *out = false;
  if (bytes == 0) return match_utf8(pattern, "", 0, out);
  if (tri_utf8_valid_bytes(text, bytes) == bytes) return match_utf8(pattern, text, bytes, out);
  TRI_TRY(tri_alloc("a text", 3 * bytes, 1, &copy));
  const tri_status status = match_utf8(pattern, copy, copy_utf8(text, bytes, copy), out);
  tri_free(copy);
  return status;
}

int64_t tri_reward_pattern_limits(const tri_reward_pattern *pattern) { return atomic_load(&pattern->limits); }
