#include "reward/number_text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MOST_EXPONENT = 100000 };

static const char *const minuses[] = {"-", "\xE2\x88\x92", NULL};

/* A position in a text. */
typedef struct reader {
  const char *at, *end;
} reader;

static bool has(const reader *r, const char *word) {
  const size_t bytes = strlen(word);
  return (size_t)(r->end - r->at) >= bytes && memcmp(r->at, word, bytes) == 0;
}

static bool skip(reader *r, const char *word) {
  if (!has(r, word)) return false;
  r->at += strlen(word);
  return true;
}

/* Skips the first of the words with which the text continues. Returns false if the text continues with none of them. */
static bool skip_one(reader *r, const char *const *words) {
  for (; *words != NULL; words++) {
    if (skip(r, *words)) return true;
  }
  return false;
}

static bool is_digit(const reader *r, size_t ahead) {
  return (size_t)(r->end - r->at) > ahead && isdigit((unsigned char)r->at[ahead]) != 0;
}

/* ---- rationals --------------------------------------------------------------------------------------------------- */

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void reduce(tri_number *n) {
  const uint64_t size = n->numerator < 0 ? -(uint64_t)n->numerator : (uint64_t)n->numerator;
  const int64_t common = (int64_t)gcd(size, (uint64_t)n->denominator); /* at most the denominator */
  n->numerator /= common;
  n->denominator /= common;
}

/* Returns a / b of numbers that are not negative; b is not 0. */
static tri_number divide(const tri_number *a, const tri_number *b) {
  tri_number out = {.exact = a->exact && b->exact && b->numerator > 0, .value = a->value / b->value};
  if (!out.exact) return out;
  out.exact = !__builtin_mul_overflow(a->numerator, b->denominator, &out.numerator) &&
              !__builtin_mul_overflow(a->denominator, b->numerator, &out.denominator);
  if (out.exact) reduce(&out);
  return out;
}

static tri_number add(const tri_number *a, const tri_number *b) {
  int64_t left = 0, right = 0;
  tri_number out = {.exact = a->exact && b->exact, .value = a->value + b->value};
  if (!out.exact) return out;
  out.exact = !__builtin_mul_overflow(a->numerator, b->denominator, &left) &&
              !__builtin_mul_overflow(b->numerator, a->denominator, &right) &&
              !__builtin_add_overflow(left, right, &out.numerator) &&
              !__builtin_mul_overflow(a->denominator, b->denominator, &out.denominator);
  if (out.exact) reduce(&out);
  return out;
}

/* Multiplies by 10^exponent. */
static void scale(tri_number *n, int64_t exponent) {
  const double factor = pow(10, fabs((double)exponent));
  if (n->value != 0) n->value = exponent < 0 ? n->value / factor : n->value * factor;
  for (; n->exact && n->numerator != 0 && exponent != 0; exponent += exponent < 0 ? 1 : -1) {
    int64_t *changed = exponent < 0 ? &n->denominator : &n->numerator;
    n->exact = !__builtin_mul_overflow(*changed, (int64_t)10, changed);
  }
  if (n->exact) reduce(n);
}

bool tri_number_equals(const tri_number *a, const tri_number *b) {
  if (a->exact && b->exact) return a->numerator == b->numerator && a->denominator == b->denominator;
  return fabs(a->value - b->value) <= 1e-9 * fmax(fabs(a->value), fabs(b->value));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The digits of a decimal. Zeros are counted until another digit follows them, so that zeros at the end take no place
 * in the numerator. */
typedef struct digits {
  tri_number number; /* value of the digits without the zeros at the end */
  int64_t zeros;     /* zeros at the end */
} digits;

static void append_digit(digits *d, int digit) {
  d->zeros++;
  if (digit == 0) return;
  for (; d->zeros > 0; d->zeros--) {
    const int next = d->zeros == 1 ? digit : 0;
    tri_number *n = &d->number;
    n->value = n->value * 10 + next;
    n->exact = n->exact && !__builtin_mul_overflow(n->numerator, (int64_t)10, &n->numerator) &&
               !__builtin_add_overflow(n->numerator, (int64_t)next, &n->numerator);
  }
}

static int64_t append_digits(reader *r, digits *d) {
  int64_t count = 0;
  for (; is_digit(r, 0); r->at++, count++) append_digit(d, *r->at - '0');
  return count;
}

/* Skips a comma between thousands, which exactly three digits follow. Returns false if there is no such comma. */
static bool skip_comma(reader *r) {
  static const char *const commas[] = {",", "{,}", NULL};
  reader after = *r;
  if (!skip_one(&after, commas)) return false;
  if (!is_digit(&after, 0) || !is_digit(&after, 1) || !is_digit(&after, 2) || is_digit(&after, 3)) return false;
  *r = after;
  return true;
}

/* Reads digits with an optional sign. Returns false if there are no digits. A larger exponent than MOST_EXPONENT may
 * lose its last digits. */
static bool read_exponent_digits(reader *r, int64_t *out) {
  reader after = *r;
  const bool negative = skip_one(&after, minuses);
  if (!negative) skip(&after, "+");
  if (!is_digit(&after, 0)) return false;
  int64_t value = 0;
  for (; is_digit(&after, 0); after.at++) {
    if (value < MOST_EXPONENT) value = value * 10 + (*after.at - '0');
  }
  *out = negative ? -value : value;
  *r = after;
  return true;
}

/* Skips blanks and tabs, but at most 8, so that the time is linear in the text. */
static void skip_spaces(reader *r) {
  for (int i = 0; i < 8 && (skip(r, " ") || skip(r, "\t")); i++) {
  }
}

/* Reads and returns the exponent of 1e5 or 1 \times 10^{5}. Returns 0 if the number has no exponent. */
static int64_t read_exponent(reader *r) {
  static const char *const times[] = {"\\times", "\\cdot", "*", "\xC3\x97", NULL};
  reader after = *r;
  int64_t exponent = 0;
  if ((skip(&after, "e") || skip(&after, "E")) && read_exponent_digits(&after, &exponent)) {
    *r = after;
    return exponent;
  }
  after = *r;
  skip_spaces(&after);
  if (!skip_one(&after, times)) return 0;
  skip_spaces(&after);
  if (!skip(&after, "10^")) return 0;
  const bool braces = skip(&after, "{");
  if (!read_exponent_digits(&after, &exponent) || (braces && !skip(&after, "}"))) return 0;
  *r = after;
  return exponent;
}

/* Reads digits with commas, a point and an exponent. Returns false if no such number begins at the position. */
static bool read_decimal(reader *r, tri_number *out) {
  digits d = {.number = {.exact = true, .denominator = 1}};
  int64_t decimals = 0;
  if (!is_digit(r, 0) && !(has(r, ".") && is_digit(r, 1))) return false;
  if (append_digits(r, &d) <= 3) {
    while (skip_comma(r)) append_digits(r, &d);
  }
  if (has(r, ".") && is_digit(r, 1)) {
    r->at++;
    decimals = append_digits(r, &d);
  }
  *out = d.number;
  scale(out, d.zeros - decimals + read_exponent(r));
  return true;
}

/* Reads {1.5}, {-1.5} or a single digit. A minus inverts *negative; *out itself is never negative. Returns false if the
 * text does not continue in this way. */
static bool read_argument(reader *r, tri_number *out, bool *negative) {
  if (is_digit(r, 0)) {
    *out = (tri_number){.exact = true, .numerator = *r->at - '0', .denominator = 1, .value = *r->at - '0'};
    r->at++;
    return true;
  }
  if (!skip(r, "{")) return false;
  if (skip_one(r, minuses)) *negative = !*negative;
  return read_decimal(r, out) && skip(r, "}");
}

/* Reads \frac{a}{b}. Each minus inverts *negative; *out is never negative. Returns false if there is no such fraction,
 * or if b is 0. */
static bool read_latex_fraction(reader *r, tri_number *out, bool *negative) {
  static const char *const names[] = {"\\frac", "\\dfrac", "\\tfrac", NULL};
  reader after = *r;
  tri_number above, below;
  bool changed = *negative;
  if (!skip_one(&after, names)) return false;
  if (!read_argument(&after, &above, &changed) || !read_argument(&after, &below, &changed)) return false;
  if (below.value == 0) return false;
  *negative = changed;
  *out = divide(&above, &below);
  *r = after;
  return true;
}

/* Reads the /b of a/b, and divides the number, which is a, by b. The number is unchanged if there is no /b, or if b is
 * 0. */
static void read_divisor(reader *r, tri_number *number) {
  reader after = *r;
  tri_number below;
  skip_spaces(&after);
  if (!skip(&after, "/")) return;
  skip_spaces(&after);
  if (!read_decimal(&after, &below) || below.value == 0) return;
  *number = divide(number, &below);
  *r = after;
}

static void read_percent(reader *r, tri_number *number) {
  static const char *const percents[] = {"%", "\\%", " %", " \\%", NULL};
  if (skip_one(r, percents)) scale(number, -2);
}

/* Reads the number that begins at the position; does not look at the bytes before it. Returns false if no number begins
 * there. */
static bool read_number(reader *r, tri_number *out) {
  static const char *const currencies[] = {"$", "\\$", "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5", "\xE2\x82\xB9", NULL};
  reader after = *r;
  tri_number fraction;
  const bool paid = skip_one(&after, currencies);
  bool negative = skip_one(&after, minuses), inner = false;
  if (!negative) skip(&after, "+");
  if (!paid) skip_one(&after, currencies);
  if (read_decimal(&after, out)) {
    reader mixed = after;
    if (read_latex_fraction(&mixed, &fraction, &inner) && !inner) {
      after = mixed;
      *out = add(out, &fraction);
    } else {
      read_divisor(&after, out);
    }
  } else if (!read_latex_fraction(&after, out, &negative)) {
    return false;
  }
  read_percent(&after, out);
  if (negative) {
    out->numerator = -out->numerator;
    out->value = -out->value;
  }
  *r = after;
  return true;
}

/* Returns whether a sign or a point at a position cannot begin a number, because of the byte before it. */
static bool joins(const char *begin, const char *at) {
  if (at == begin) return false;
  const unsigned char before = (unsigned char)at[-1];
  return isalnum(before) != 0 || before == ')' || before == ']' || before == '}';
}

/* Finds the next number, and moves past it. Returns false if no number follows. */
static bool next_number(const char *begin, reader *r, tri_number *out) {
  for (; r->at < r->end; r->at++) {
    const bool sign = strchr("+-.\xE2", *r->at) != NULL;
    if (sign && *r->at != '\0' && joins(begin, r->at)) continue;
    if (read_number(r, out)) return true;
  }
  return false;
}

static bool find_number(const char *text, size_t bytes, bool last, tri_number *out) {
  reader r = {.at = text, .end = text + bytes};
  tri_number number;
  bool found = false;
  while ((!found || last) && next_number(text, &r, &number)) {
    if (!isfinite(number.value)) continue;
    *out = number;
    found = true;
  }
  return found;
}

bool tri_number_first(const char *text, size_t bytes, tri_number *out) { return find_number(text, bytes, false, out); }

bool tri_number_last(const char *text, size_t bytes, tri_number *out) { return find_number(text, bytes, true, out); }
