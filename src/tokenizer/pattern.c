/* Patterns in tokenizer files are written for Oniguruma with Ruby's syntax, which is what Hugging Face runs them with.
 * PCRE2 reads nearly all of them the same way. What differs is rewritten here:
 *
 *   \s \S   Unicode's White_Space there; here also U+180E, which stopped being a space in Unicode 6.3
 *   \w \W   with marks and connectors there; of other numbers only those of Latin 1, such as a half
 *   \h \H   a hexadecimal digit there, a horizontal space here
 *   ^ $ .   lines end at \n, everywhere in the text: options of PCRE2
 *
 * Sets within sets and && in a class have no counterpart and are refused. */
#include "base/memory.h"
#include "tokenizer/pretokenizer.h"

#include <string.h>

#define SPACE_SET "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE_SET                                                                                                  \
  "\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"                  \
  "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD_SET                                                                                                       \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{" \
  "1f169}\\x{1f170}-\\x{"                                                                                              \
  "1f189}"

enum { MAX_PATTERN_BYTES = 65536, LONGEST_SET = 256 };

/* What an escape becomes outside of a class and inside of one; NULL inside: it cannot be said there. */
static const struct {
  char letter;
  const char *outside, *inside;
} rewritten[] = {
    {'s', "[" SPACE_SET "]", SPACE_SET}, {'S', "[^" SPACE_SET "]", NOT_SPACE_SET}, {'w', "[" WORD_SET "]", WORD_SET},
    {'W', "[^" WORD_SET "]", NULL},      {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},        {'H', "[^0-9A-Fa-f]", NULL},
};

typedef struct translation {
  const char *where, *pattern;
  size_t bytes, at;
  char *out;
  size_t length;
} translation;

static void put(translation *t, const char *text, size_t bytes) {
  memcpy(t->out + t->length, text, bytes);
  t->length += bytes;
}

/* Writes the escape at t->at and moves on behind it. */
static tri_status put_escape(translation *t, bool in_class) {
  char letter = t->at + 1 < t->bytes ? t->pattern[t->at + 1] : '\0';
  for (size_t i = 0; i < sizeof rewritten / sizeof rewritten[0]; i++) {
    if (rewritten[i].letter != letter) continue;
    const char *text = in_class ? rewritten[i].inside : rewritten[i].outside;
    if (text == NULL) {
      return tri_fail(TRI_UNSUPPORTED, "%s: the pattern has \\%c inside of [...] at byte %zu, which is not supported",
                      t->where, letter, t->at);
    }
    put(t, text, strlen(text));
    t->at += 2;
    return TRI_OK;
  }
  size_t take = t->at + 1 < t->bytes ? 2 : 1;
  put(t, t->pattern + t->at, take);
  t->at += take;
  return TRI_OK;
}

/* Copies a class from its bracket to its end. */
static tri_status put_class(translation *t) {
  size_t begin = t->at;
  put(t, "[", 1);
  t->at++;
  if (t->at < t->bytes && t->pattern[t->at] == '^') {
    put(t, "^", 1);
    t->at++;
  }
  for (bool first = true; t->at < t->bytes; first = false) {
    char c = t->pattern[t->at];
    char next = t->at + 1 < t->bytes ? t->pattern[t->at + 1] : '\0';
    if (c == '\\') {
      TRI_TRY(put_escape(t, true));
      continue;
    }
    if ((c == '[' && next != ':') || (c == '&' && next == '&')) {
      return tri_fail(TRI_UNSUPPORTED,
                      "%s: the pattern combines sets inside of [...] at byte %zu, which is not supported", t->where,
                      t->at);
    }
    size_t take = 1;
    if (c == '[') { /* [:name:] */
      while (t->at + take < t->bytes && t->pattern[t->at + take] != ']') take++;
      if (t->at + take < t->bytes) take++;
    }
    put(t, t->pattern + t->at, take);
    t->at += take;
    if (c == ']' && !first) return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE, "%s: the pattern's [ at byte %zu is never closed", t->where, begin);
}

static tri_status translate(translation *t) {
  while (t->at < t->bytes) {
    char c = t->pattern[t->at];
    if (c == '\\') {
      TRI_TRY(put_escape(t, false));
    } else if (c == '[') {
      TRI_TRY(put_class(t));
    } else {
      put(t, &c, 1);
      t->at++;
    }
  }
  return TRI_OK;
}

static tri_status compile(const translation *t, bool literal, pcre2_code **out) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot compile the pattern of %s", t->where);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  int code = 0;
  size_t offset = 0;
  pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)t->out, t->length, options, &code, &offset, context);
  pcre2_compile_context_free(context);
  if (compiled == NULL) {
    PCRE2_UCHAR reason[256];
    pcre2_get_error_message(code, reason, sizeof reason);
    return tri_fail(TRI_BAD_FILE, "%s: the pattern cannot be compiled: %s", t->where, (const char *)reason);
  }
  /* Where PCRE2 was built without a compiler to machine code, or refuses this pattern, matching is interpreted. */
  (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  *out = compiled;
  return TRI_OK;
}

tri_status tri_pattern_compile(const char *where, const char *pattern, size_t bytes, bool literal, pcre2_code **out) {
  if (bytes > MAX_PATTERN_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s: the pattern has %zu bytes; at most %d make sense", where, bytes,
                    MAX_PATTERN_BYTES);
  }
  translation t = {.where = where, .pattern = pattern, .bytes = bytes};
  TRI_TRY(tri_alloc("a pattern", bytes * LONGEST_SET + 1, 1, &t.out));
  tri_status status = TRI_OK;
  if (literal) {
    put(&t, pattern, bytes);
  } else {
    TRI_TRY_GOTO(translate(&t), free_text);
  }
  TRI_TRY_GOTO(compile(&t, literal, out), free_text);
free_text:
  tri_free(t.out);
  return status;
}
