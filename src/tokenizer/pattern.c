/* Patterns in tokenizer files are written for Oniguruma with Ruby's syntax, which Hugging Face uses. PCRE2 has nearly
 * the same syntax, but its own version of Unicode, and the ids of a corpus must not depend on the machine's PCRE2. So
 * PCRE2 never sees a character beyond ASCII: a pattern has an alphabet (alphabet.h), text is matched with stand-ins for
 * the alphabet's classes, and each set of the pattern is rewritten here as a set of ASCII and of stand-ins. A pattern
 * is read twice: first for the characters beyond ASCII that it names, which with the table of unicode_classes.h
 * determine the alphabet, then to write PCRE2's pattern.
 *
 * Also rewritten, because PCRE2 gives it another meaning:
 *
 *   \s \w \h  Unicode's White_Space; letters, marks, connectors, numbers (few of category No); a hexadecimal digit
 *   \b \B     by this \w
 *   (?i)      s and k have a third form each
 *   ^ $ .     lines end at \n, everywhere in the text: options of PCRE2
 *
 * These are refused: sets within sets and && in a class; back references (\1), which would compare stand-ins instead of
 * characters; scripts and [:alpha:], whose tables this program does not have. */
#include "base/memory.h"
#include "tokenizer/alphabet.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum {
  MAX_PATTERN_BYTES = 65536,
  DEEPEST = 200, /* maximum depth of nested groups */
  MOST_RANGES =
      4096, /* maximum number of ranges beyond ASCII; the time to make an alphabet is quadratic in this number */
  MOST_FOLDED = 10000000, /* maximum number of characters whose case variants are searched */
  ALL = TRI_ASCII + TRI_MOST_CLASSES
};

/* A set of characters: has[c] for each ASCII character c, then for each class of the alphabet. */
typedef struct set {
  bool has[ALL];
} set;

/* A property of characters: membership in one of these categories, or one of these facts. */
typedef struct property {
  uint32_t categories, facts;
  bool negated;
} property;

typedef struct translation {
  const char *where, *pattern;
  size_t bytes, at;
  tri_alphabet *alphabet; /* NULL during the first reading */
  tri_named_range *ranges;
  size_t num_ranges, ranges_room;
  int64_t num_folded;
  int num_named;        /* named sets so far; the same in both readings */
  bool asks_categories; /* whether matches depend on the version of Unicode */
  bool folds[DEEPEST];  /* whether (?i) is on, at each depth of groups */
  int depth;
  char *out;
  size_t length, room;
} translation;

static char peek(const translation *t, size_t ahead) {
  return t->at + ahead < t->bytes ? t->pattern[t->at + ahead] : '\0';
}

static tri_status append_pattern_bytes(translation *t, const char *text, size_t bytes) {
  if (t->alphabet == NULL) return TRI_OK;
  TRI_TRY(tri_reserve("a pattern", 1, t->length + bytes, &t->room, &t->out));
  memcpy(t->out + t->length, text, bytes);
  t->length += bytes;
  return TRI_OK;
}

static tri_status append_pattern_text(translation *t, const char *text) {
  return append_pattern_bytes(t, text, strlen(text));
}

static tri_status refuse(const translation *t, const char *what, size_t at) {
  return tri_fail(TRI_UNSUPPORTED, "%s: the pattern has %s at byte %zu, which is not supported", t->where, what, at);
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

static bool is_folding(const translation *t) { return t->folds[t->depth]; }

static int num_all(const translation *t) { return TRI_ASCII + t->alphabet->num_classes; }

static uint32_t facts_of(const translation *t, int i) {
  return i < TRI_ASCII ? tri_code_facts((uint32_t)i) : t->alphabet->classes[i - TRI_ASCII].facts;
}

static void add_property(translation *t, const property *p, set *out) {
  const uint32_t versions = TRI_IS_WORD | TRI_IS_NUMERIC | TRI_IS_PUNCTUATION;
  t->asks_categories |= p->categories != 0 || (p->facts & versions) != 0;
  for (int i = 0; t->alphabet != NULL && i < num_all(t); i++) {
    const uint32_t facts = facts_of(t, i);
    const bool has = (p->categories >> (facts & TRI_UNICODE_CATEGORY) & 1) != 0 || (p->facts & facts) != 0;
    if (has != p->negated) out->has[i] = true;
  }
}

static bool is_cased(uint32_t facts) { return (facts & TRI_UNICODE_CATEGORY) <= TRI_UNICODE_LL; }

/* Adds a property to a class that ignores case. Fails with TRI_UNSUPPORTED for a property that only some of the letters
 * with case have, because their case variants would be needed one by one. */
static tri_status fold_property(const translation *t, size_t at, const set *added, set *out) {
  int with = 0, without = 0;
  if (t->alphabet == NULL) return TRI_OK;
  for (int i = 0; i < num_all(t); i++) {
    out->has[i] |= added->has[i];
    if (!is_cased(facts_of(t, i))) continue;
    with += added->has[i];
    without += !added->has[i];
  }
  if (with > 0 && without > 0)
    return refuse(t, "a part of the letters inside of [...], where case does not count,", at);
  for (int i = 0; i < num_all(t); i++) out->has[i] |= with > 0 && (facts_of(t, i) & TRI_IS_IOTA) != 0;
  return TRI_OK;
}

static void add_facts(const translation *t, uint32_t facts, set *out) {
  for (int i = TRI_ASCII; t->alphabet != NULL && i < num_all(t); i++) {
    if ((t->alphabet->classes[i - TRI_ASCII].facts & facts) != 0) out->has[i] = true;
  }
}

static void complement(const translation *t, set *s) {
  for (int i = 0; t->alphabet != NULL && i < num_all(t); i++) s->has[i] = !s->has[i];
}

static tri_status append_run(translation *t, int first, int last) {
  char text[96];
  int length = 0;
  if (first < TRI_ASCII) {
    length = snprintf(text, sizeof text, "\\x%02x-\\x%02x", (unsigned)first, (unsigned)last);
    return append_pattern_bytes(t, text, (size_t)length);
  }
  for (int bytes = 2; bytes <= 4; bytes++) {
    length += snprintf(text + length, sizeof text - (size_t)length, "\\x{%" PRIx32 "}-\\x{%" PRIx32 "}",
                       tri_alphabet_stand_in(first - TRI_ASCII, bytes), tri_alphabet_stand_in(last - TRI_ASCII, bytes));
  }
  return append_pattern_bytes(t, text, (size_t)length);
}

static tri_status append_set(translation *t, const set *s) {
  int runs = 0;
  bool even = true; /* whether the set has both cases or neither case of each ASCII letter */
  if (t->alphabet == NULL) return TRI_OK;
  for (int c = 'A'; c <= 'Z'; c++) even &= s->has[c] == s->has[c - 'A' + 'a'];
  if (!even && is_folding(t)) TRI_TRY(append_pattern_text(t, "(?-i:"));
  for (int i = 0; i < num_all(t); i++) {
    if (!s->has[i]) continue;
    int last = i;
    while (last + 1 < num_all(t) && last + 1 != TRI_ASCII && s->has[last + 1]) last++;
    if (runs++ == 0) TRI_TRY(append_pattern_text(t, "["));
    TRI_TRY(append_run(t, i, last));
    i = last;
  }
  TRI_TRY(append_pattern_text(t, runs == 0 ? "(?!)" : "]"));
  return append_pattern_text(t, !even && is_folding(t) ? ")" : "");
}

static tri_status append_property(translation *t, const property *p) {
  set s = {0};
  add_property(t, p, &s);
  return append_set(t, &s);
}

/* ---- characters that the pattern names --------------------------------------------------------------------------- */

static tri_status name_range(translation *t, uint32_t first, uint32_t last) {
  if (t->alphabet != NULL) return TRI_OK;
  if (t->num_ranges == MOST_RANGES) {
    return tri_fail(TRI_UNSUPPORTED, "%s: the pattern names more than %d ranges of characters beyond ASCII", t->where,
                    MOST_RANGES);
  }
  TRI_TRY(tri_reserve("a pattern", sizeof *t->ranges, t->num_ranges + 1, &t->ranges_room, &t->ranges));
  t->ranges[t->num_ranges++] = (tri_named_range){first, last, t->num_named};
  return TRI_OK;
}

/* Adds one code point to a set; beyond ASCII it is added to the set's named ranges. */
static tri_status add_form(translation *t, uint32_t code, set *out) {
  if (code >= TRI_ASCII) return name_range(t, code, code);
  out->has[code] = true;
  return TRI_OK;
}

/* Adds a range, with case variants if case is ignored. In ASCII only s and k have variants beyond ASCII. */
static tri_status add_range(translation *t, uint32_t first, uint32_t last, set *out) {
  enum { LAST_WITH_CASE = 0x1E943 };
  for (uint32_t code = first; code <= last && code < TRI_ASCII; code++) out->has[code] = true;
  if (last >= TRI_ASCII) TRI_TRY(name_range(t, first < TRI_ASCII ? TRI_ASCII : first, last));
  if (!is_folding(t)) return TRI_OK;
  t->num_folded += (int64_t)last - first + 1;
  if (t->num_folded > MOST_FOLDED) return refuse(t, "too large ranges where case does not count,", t->at);
  for (uint32_t code = first; code <= last && code <= LAST_WITH_CASE; code++) {
    const uint32_t upper = (uint32_t)utf8proc_toupper((utf8proc_int32_t)code);
    const uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    if (upper < first || upper > last) TRI_TRY(add_form(t, upper, out));
    if (lower < first || lower > last) TRI_TRY(add_form(t, lower, out));
    if (code == 's' || code == 'S') add_facts(t, TRI_IS_LONG_S, out);
    if (code == 'k' || code == 'K') add_facts(t, TRI_IS_KELVIN, out);
  }
  return TRI_OK;
}

/* Adds the classes that the current set names to `out`, and increments the number of named sets. `any`: whether the set
 * names characters beyond ASCII; if not, this function does nothing. Fails with TRI_UNSUPPORTED after TRI_MOST_NAMED
 * sets. */
static tri_status add_named(translation *t, bool any, set *out) {
  if (!any) return TRI_OK;
  for (int i = TRI_ASCII; t->alphabet != NULL && i < num_all(t); i++) {
    if ((t->alphabet->classes[i - TRI_ASCII].named >> t->num_named & 1) != 0) out->has[i] = true;
  }
  if (++t->num_named <= TRI_MOST_NAMED) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the pattern names characters beyond ASCII in more than %d places; put them into "
                  "fewer [...]",
                  t->where, TRI_MOST_NAMED);
}

/* Writes a character outside of a class. */
static tri_status append_code(translation *t, uint32_t code) {
  char text[16];
  const bool third_form = is_folding(t) && code < TRI_ASCII && strchr("sSkK", (int)code) != NULL && code != 0;
  if (code < TRI_ASCII && !third_form) {
    return append_pattern_bytes(t, text, (size_t)snprintf(text, sizeof text, "\\x%02x", (unsigned)code));
  }
  set s = {0};
  TRI_TRY(add_range(t, code, code, &s));
  TRI_TRY(add_named(t, code >= TRI_ASCII, &s));
  return append_set(t, &s);
}

/* ---- escapes ----------------------------------------------------------------------------------------------------- */

typedef struct escape {
  bool is_set;
  property set;
  uint32_t code;
} escape;

static const struct {
  const char *name;
  property set;
} names[] = {
    {"Any", {.categories = UINT32_MAX}},
    {"Assigned", {.categories = UINT32_MAX >> 3}},
    {"ASCII", {.facts = TRI_IS_ASCII}},
    {"Space", {.facts = TRI_IS_SPACE}},
    {"White_Space", {.facts = TRI_IS_SPACE}},
    {"Rust_numeric", {.facts = TRI_IS_NUMERIC}},
    {"Rust_punctuation", {.facts = TRI_IS_PUNCTUATION}},
};

/* Reads Name or ^Name of \p{Name}, up to the character `end`. Fails with TRI_BAD_FILE if the name does not end, with
 * TRI_UNSUPPORTED if it is unknown. */
static tri_status read_property(translation *t, size_t begin, char end, property *out) {
  char name[64];
  size_t length = 0;
  bool negated = false;
  if (peek(t, 0) == '^') {
    negated = true;
    t->at++;
  }
  while (t->at < t->bytes && peek(t, 0) != end && length + 1 < sizeof name) name[length++] = t->pattern[t->at++];
  name[length] = '\0';
  if (peek(t, 0) != end || length == 0) {
    return tri_fail(TRI_BAD_FILE, "%s: the pattern's name of a property at byte %zu does not end", t->where, begin);
  }
  *out = (property){.categories = tri_unicode_categories(name)};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i].name, name) == 0) *out = names[i].set;
  }
  out->negated ^= negated;
  if (out->categories != 0 || out->facts != 0) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the pattern has the property %s at byte %zu, which is not supported; only general categories "
                  "such as L, Lu and N are",
                  t->where, name, begin);
}

static uint32_t read_digits_of(translation *t, int base, int most) {
  uint32_t value = 0;
  for (int i = 0; i < most; i++) {
    const char c = peek(t, 0);
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    if (digit >= base) break;
    value = value * (uint32_t)base + (uint32_t)digit;
    t->at++;
  }
  return value;
}

static tri_status check_code(const translation *t, uint32_t code, size_t begin) {
  if (code < 0xD800 || (code > 0xDFFF && code < 0x110000)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: the pattern has U+%04" PRIX32 " at byte %zu, which is not a character", t->where,
                  code, begin);
}

/* Reads the number of \xHH, \x{H...}, \uHHHH or \OOO, after the letter. Fails with TRI_BAD_FILE if the } is missing, or
 * the number is not a character. */
static tri_status read_number(translation *t, char letter, size_t begin, uint32_t *out) {
  if (letter == 'x' && peek(t, 0) == '{') {
    t->at++;
    *out = read_digits_of(t, 16, 7);
    if (peek(t, 0) != '}') {
      return tri_fail(TRI_BAD_FILE, "%s: the pattern's \\x{ at byte %zu is never closed", t->where, begin);
    }
    t->at++;
  } else if (letter == 'x') {
    *out = read_digits_of(t, 16, 2);
  } else if (letter == 'u') {
    *out = read_digits_of(t, 16, 4);
  } else {
    t->at--;
    *out = read_digits_of(t, 8, 3);
  }
  return check_code(t, *out, begin);
}

static const struct {
  char letter;
  property set;
} letters[] = {
    {'s', {.facts = TRI_IS_SPACE}},
    {'S', {.facts = TRI_IS_SPACE, .negated = true}},
    {'w', {.facts = TRI_IS_WORD | TRI_IS_LATIN_NUMBER}},
    {'W', {.facts = TRI_IS_WORD | TRI_IS_LATIN_NUMBER, .negated = true}},
    {'h', {.facts = TRI_IS_HEX}},
    {'H', {.facts = TRI_IS_HEX, .negated = true}},
};

static const struct {
  char letter;
  uint32_t code;
} controls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}};

/* Reads the escape at t->at, which stands for a character or a set, and moves t->at to its end. Fails with TRI_BAD_FILE
 * or TRI_UNSUPPORTED for other escapes. */
static tri_status read_escape(translation *t, bool in_class, escape *out) {
  const size_t begin = t->at;
  const char letter = peek(t, 1);
  *out = (escape){0};
  if (t->at + 1 >= t->bytes) return tri_fail(TRI_BAD_FILE, "%s: the pattern ends with a \\", t->where);
  t->at++;
  if ((uint8_t)letter >= 0x80) { /* a literal character */
    const size_t length = tri_utf8_decode(t->pattern + t->at, t->bytes - t->at, &out->code);
    t->at += length;
    return length > 0 ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s: the pattern is not UTF-8 at byte %zu", t->where, t->at);
  }
  t->at++;
  for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
    if (letters[i].letter != letter) continue;
    *out = (escape){.is_set = true, .set = letters[i].set};
    if (in_class) out->set.facts &= ~(uint32_t)TRI_IS_LATIN_NUMBER;
    return TRI_OK;
  }
  for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
    if (controls[i].letter != letter) continue;
    out->code = controls[i].code;
    return TRI_OK;
  }
  if (letter == 'd' || letter == 'D') {
    *out = (escape){.is_set = true, .set = {.categories = tri_unicode_categories("Nd"), .negated = letter == 'D'}};
    return TRI_OK;
  }
  if ((letter == 'p' || letter == 'P') && peek(t, 0) == '{') {
    t->at++;
    TRI_TRY(read_property(t, begin, '}', &out->set));
    t->at++;
    out->is_set = true;
    out->set.negated ^= letter == 'P';
    return TRI_OK;
  }
  if (letter == 'x' || letter == 'u' || letter == '0' || (in_class && letter >= '1' && letter <= '7')) {
    return read_number(t, letter, begin, &out->code);
  }
  if (in_class && letter == 'b') {
    out->code = '\b';
    return TRI_OK;
  }
  if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '1' && letter <= '9')) {
    char what[40];
    snprintf(what, sizeof what, "\\%c%s", letter, in_class ? " inside of [...]" : "");
    return refuse(t, what, begin);
  }
  out->code = (uint8_t)letter;
  return TRI_OK;
}

/* Writes a pattern for \b (one side belongs to a word, and the other does not), or for \B if `is` is false. */
static tri_status append_boundary(translation *t, bool is) {
  const property word = {.facts = TRI_IS_WORD | TRI_IS_LATIN_NUMBER};
  TRI_TRY(append_pattern_text(t, "(?:(?<="));
  TRI_TRY(append_property(t, &word));
  TRI_TRY(append_pattern_text(t, is ? ")(?!" : ")(?="));
  TRI_TRY(append_property(t, &word));
  TRI_TRY(append_pattern_text(t, ")|(?<!"));
  TRI_TRY(append_property(t, &word));
  TRI_TRY(append_pattern_text(t, is ? ")(?=" : ")(?!"));
  TRI_TRY(append_property(t, &word));
  return append_pattern_text(t, "))");
}

static tri_status append_escape(translation *t) {
  escape e;
  const char letter = peek(t, 1);
  if (letter == 'b' || letter == 'B') {
    t->at += 2;
    return append_boundary(t, letter == 'b');
  }
  if (letter != '\0' && strchr("AzZGK", letter) != NULL) {
    TRI_TRY(append_pattern_bytes(t, t->pattern + t->at, 2));
    t->at += 2;
    return TRI_OK;
  }
  TRI_TRY(read_escape(t, false, &e));
  return e.is_set ? append_property(t, &e.set) : append_code(t, e.code);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  const char *categories[8];
  uint32_t facts;
} posix[] = {
    {"digit", {"Nd"}, 0},
    {"space", {NULL}, TRI_IS_SPACE},
    {"blank", {"Zs"}, TRI_IS_TAB},
    {"cntrl", {"Cc"}, 0},
    {"punct", {"P", "S"}, 0},
    {"word", {NULL}, TRI_IS_WORD},
    {"xdigit", {NULL}, TRI_IS_HEX},
    {"ascii", {NULL}, TRI_IS_ASCII},
    {"graph", {"L", "M", "N", "P", "S", "Cf", "Co"}, 0},
    {"print", {"L", "M", "N", "P", "S", "Cf", "Co", "Zs"}, 0},
};

/* Adds [:name:] or [:^name:]. Fails with TRI_UNSUPPORTED for an unknown name. */
static tri_status add_posix(translation *t, set *out) {
  const size_t begin = t->at;
  char name[16];
  size_t length = 0;
  property p = {0};
  t->at += 2;
  if (peek(t, 0) == '^') {
    p.negated = true;
    t->at++;
  }
  while (peek(t, 0) >= 'a' && peek(t, 0) <= 'z' && length + 1 < sizeof name) name[length++] = t->pattern[t->at++];
  name[length] = '\0';
  for (size_t i = 0; i < sizeof posix / sizeof posix[0]; i++) {
    if (strcmp(posix[i].name, name) != 0 || peek(t, 0) != ':' || peek(t, 1) != ']') continue;
    for (int k = 0; k < 8 && posix[i].categories[k] != NULL; k++) {
      p.categories |= tri_unicode_categories(posix[i].categories[k]);
    }
    p.facts = posix[i].facts;
    t->at += 2;
    add_property(t, &p, out);
    return TRI_OK;
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: the pattern has [:%s at byte %zu, which is not supported; \\p{L}, \\p{Lu} and their like are",
                  t->where, name, begin);
}

/* Reads a member of a class: a character, whose code point is stored in *code, or a set, which is added to `out`.
 * *is_code: whether it is a character. Fails with TRI_BAD_FILE if the character is not UTF-8. */
static tri_status read_member(translation *t, set *out, bool *is_code, uint32_t *code) {
  const size_t begin = t->at;
  const char c = peek(t, 0);
  escape e = {0};
  *is_code = true;
  if (c == '\\') {
    TRI_TRY(read_escape(t, true, &e));
    *code = e.code;
    *is_code = !e.is_set;
    if (!e.is_set) return TRI_OK;
    set added = {0};
    add_property(t, &e.set, is_folding(t) ? &added : out);
    return is_folding(t) ? fold_property(t, begin, &added, out) : TRI_OK;
  }
  const size_t length = tri_utf8_decode(t->pattern + t->at, t->bytes - t->at, code);
  if (length == 0) return tri_fail(TRI_BAD_FILE, "%s: the pattern is not UTF-8 at byte %zu", t->where, t->at);
  t->at += length;
  return TRI_OK;
}

/* Adds one member of a class, or a range. Sets *named if it names a character beyond ASCII. Fails with TRI_BAD_FILE if
 * the range ends before it begins. */
static tri_status add_member(translation *t, set *out, bool *named) {
  const size_t begin = t->at;
  bool is_code = false, last_is_code = false;
  uint32_t first = 0, last = 0;
  TRI_TRY(read_member(t, out, &is_code, &first));
  if (!is_code) return TRI_OK;
  last = first;
  const bool range = peek(t, 0) == '-' && peek(t, 1) != ']' && t->at + 1 < t->bytes;
  if (range) {
    t->at++;
    TRI_TRY(read_member(t, out, &last_is_code, &last));
    if (!last_is_code) { /* [a-\d]: a literal hyphen */
      TRI_TRY(add_range(t, '-', '-', out));
      last = first;
    }
  }
  if (last < first) {
    return tri_fail(TRI_BAD_FILE, "%s: the pattern's range at byte %zu ends before it begins", t->where, begin);
  }
  TRI_TRY(add_range(t, first, last, out));
  *named |= last >= TRI_ASCII;
  return TRI_OK;
}

static tri_status append_class(translation *t) {
  const size_t begin = t->at++;
  set s = {0};
  bool negated = false, named = false;
  if (peek(t, 0) == '^') {
    negated = true;
    t->at++;
  }
  for (bool first = true; t->at < t->bytes; first = false) {
    const char c = peek(t, 0);
    if (c == ']' && !first) {
      t->at++;
      TRI_TRY(add_named(t, named, &s));
      if (negated) complement(t, &s);
      return append_set(t, &s);
    }
    if (c == '[' && peek(t, 1) == ':') {
      TRI_TRY(add_posix(t, &s));
      continue;
    }
    if (c == '[' || (c == '&' && peek(t, 1) == '&')) {
      return tri_fail(TRI_UNSUPPORTED,
                      "%s: the pattern combines sets inside of [...] at byte %zu, which is not supported", t->where,
                      t->at);
    }
    TRI_TRY(add_member(t, &s, &named));
  }
  return tri_fail(TRI_BAD_FILE, "%s: the pattern's [ at byte %zu is never closed", t->where, begin);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Copies the pattern up to and including the next character `end`, or to the pattern's end. */
static tri_status append_until(translation *t, char end) {
  const size_t begin = t->at;
  while (t->at < t->bytes && t->pattern[t->at] != end) t->at++;
  if (t->at < t->bytes) t->at++;
  return append_pattern_bytes(t, t->pattern + begin, t->at - begin);
}

/* Copies flags like (?i) or (?i: and sets *folds to whether case is ignored, if there is a flag i, and *opens to
 * whether the flags open a group. */
static tri_status append_flags(translation *t, bool *folds, bool *opens) {
  bool on = true;
  TRI_TRY(append_pattern_text(t, "(?"));
  for (t->at += 2; t->at < t->bytes && peek(t, 0) != ')' && peek(t, 0) != ':'; t->at++) {
    if (peek(t, 0) == '-') on = false;
    if (peek(t, 0) == 'i') *folds = on;
    TRI_TRY(append_pattern_bytes(t, peek(t, 0) == 'm' ? "s" : t->pattern + t->at,
                                 1)); /* Ruby's m: a dot is a line break too */
  }
  *opens = peek(t, 0) == ':';
  TRI_TRY(append_pattern_bytes(t, t->pattern + t->at, t->at < t->bytes ? 1 : 0));
  t->at++;
  return TRI_OK;
}

static tri_status append_group(translation *t) {
  bool folds = is_folding(t), opens = true;
  const char kind = peek(t, 1) == '?' ? peek(t, 2) : '\0', next = peek(t, 3);
  if (peek(t, 1) == '*') return refuse(t, "(*", t->at); /* a directive to PCRE2 */
  if (kind == '#') return append_until(t, ')');
  if (kind == '-' || (kind >= 'a' && kind <= 'z')) {
    TRI_TRY(append_flags(t, &folds, &opens));
  } else if ((kind == '<' && next != '=' && next != '!')) {
    TRI_TRY(append_until(t, '>'));
  } else {
    const size_t length = kind == '\0' ? 1 : kind == '<' ? 4 : 3;
    if (kind != '\0' && strchr(":=!><", kind) == NULL) return refuse(t, "a group of an unknown kind", t->at);
    TRI_TRY(append_pattern_bytes(t, t->pattern + t->at, length < t->bytes - t->at ? length : t->bytes - t->at));
    t->at += length;
  }
  if (opens && ++t->depth == DEEPEST) return refuse(t, "too many groups within groups", t->at);
  t->folds[t->depth] = folds;
  return TRI_OK;
}

static tri_status translate(translation *t) {
  t->at = 0;
  t->depth = t->num_named = 0;
  t->folds[0] = false;
  while (t->at < t->bytes) {
    const char c = t->pattern[t->at];
    uint32_t code = 0;
    if (c == '\\') {
      TRI_TRY(append_escape(t));
    } else if (c == '[') {
      TRI_TRY(append_class(t));
    } else if (c == '(') {
      TRI_TRY(append_group(t));
    } else if ((uint8_t)c >= 0x80 || (is_folding(t) && c != '\0' && strchr("sSkK", c) != NULL)) {
      const size_t length = tri_utf8_decode(t->pattern + t->at, t->bytes - t->at, &code);
      if (length == 0) return tri_fail(TRI_BAD_FILE, "%s: the pattern is not UTF-8 at byte %zu", t->where, t->at);
      t->at += length;
      TRI_TRY(append_code(t, code));
    } else {
      if (c == ')' && t->depth > 0) t->depth--;
      TRI_TRY(append_pattern_bytes(t, &c, 1));
      if (c == '{' && peek(t, 1) == ',')
        TRI_TRY(append_pattern_text(t, "0")); /* {,3} becomes {0,3}, because older PCRE2 do not support it */
      t->at++;
    }
  }
  return TRI_OK;
}

/* ---- PCRE2 ------------------------------------------------------------------------------------------------------- */

static tri_status compile(const char *where, const char *text, size_t bytes, uint32_t options, pcre2_code **out) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: cannot compile the pattern of %s", where);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code = 0;
  size_t offset = 0;
  pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)text, bytes, PCRE2_UTF | options, &code, &offset, context);
  pcre2_compile_context_free(context);
  if (compiled == NULL) {
    PCRE2_UCHAR reason[256];
    pcre2_get_error_message(code, reason, sizeof reason);
    return tri_fail(TRI_BAD_FILE, "%s: the pattern cannot be compiled: %s", where, (const char *)reason);
  }
  /* If PCRE2 has no JIT, or refuses this pattern, matching is interpreted. */
  (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  *out = compiled;
  return TRI_OK;
}

static tri_status compile_translated(translation *t, tri_compiled_pattern *out) {
  TRI_TRY(translate(t));
  TRI_TRY(tri_alphabet_create(t->where, t->ranges, t->num_ranges, &t->alphabet));
  TRI_TRY(translate(t));
  TRI_TRY(compile(t->where, t->out == NULL ? "" : t->out, t->length, PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                  &out->code));
  out->alphabet = t->alphabet;
  out->asks_categories = t->asks_categories;
  t->alphabet = NULL;
  return TRI_OK;
}

tri_status tri_pattern_compile(const char *where, const char *pattern, size_t bytes, bool literal,
                               tri_compiled_pattern *out) {
  *out = (tri_compiled_pattern){0};
  if (bytes > MAX_PATTERN_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s: the pattern has %zu bytes; at most %d make sense", where, bytes,
                    MAX_PATTERN_BYTES);
  }
  if (literal) return compile(where, pattern, bytes, PCRE2_LITERAL, &out->code);
  translation t = {.where = where, .pattern = pattern, .bytes = bytes};
  tri_status status = compile_translated(&t, out);
  tri_alphabet_destroy(t.alphabet);
  tri_free(t.ranges);
  tri_free(t.out);
  return status;
}

void tri_pattern_release(tri_compiled_pattern *pattern) {
  pcre2_code_free(pattern->code);
  tri_alphabet_destroy(pattern->alphabet);
  *pattern = (tri_compiled_pattern){0};
}
