#include "board/metrics_line.h"

#include <math.h>
#include <string.h>

#define COLUMN_NAME(VALUE, key, noisy) #key,
#define COLUMN_NOISE(VALUE, key, noisy) noisy,
static const char *const names[TRI_BOARD_COLUMNS] = {TRI_BOARD_COLUMN_ROWS(COLUMN_NAME)};
static const bool noisy_ones[TRI_BOARD_COLUMNS] = {TRI_BOARD_COLUMN_ROWS(COLUMN_NOISE)};

const char *tri_board_column_name(tri_board_column column) { return names[column]; }

bool tri_board_column_is_noisy(tri_board_column column) { return noisy_ones[column]; }

/* The part of a line that is not read yet. The functions that read from it return false if the line is not valid JSON
 * there. */
typedef struct rest {
  const char *at, *end;
} rest;

static void pass_spaces(rest *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool is_next(rest *r, char wanted) {
  pass_spaces(r);
  if (r->at == r->end || *r->at != wanted) return false;
  r->at++;
  return true;
}

/* Reads a string from after its opening quote to after its closing quote. Escapes are not decoded. Returns false if the
 * line ends before. */
static bool read_string(rest *r, const char **text, size_t *bytes) {
  *text = r->at;
  for (; r->at < r->end && *r->at != '"'; r->at++) {
    if (*r->at == '\\') r->at++;
  }
  if (r->at >= r->end) return false;
  *bytes = (size_t)(r->at++ - *text);
  return true;
}

/* Skips from after an opening bracket to after the matching closing bracket. Brackets and braces are counted together.
 * Returns false if the line ends before. */
static bool pass_nested(rest *r) {
  const char *text = NULL;
  size_t bytes = 0;
  for (int64_t depth = 1; depth > 0;) {
    if (r->at == r->end) return false;
    char c = *r->at++;
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c == '"' && !read_string(r, &text, &bytes)) return false;
  }
  return true;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

typedef struct number {
  double value;
  int64_t whole; /* the value as an integer, if is_whole */
  bool is_whole;
} number;

static double power_of_ten(int exponent) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  return exponent <= 22 ? powers[exponent] : pow(10, exponent);
}

static bool is_digit(const rest *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

/* Adds digits to the mantissa as long as they fit. *held counts these digits, *left counts the others. */
static void read_digits(rest *r, uint64_t *mantissa, int *held, int *left) {
  for (; is_digit(r); r->at++) {
    if (*mantissa < UINT64_MAX / 10 - 1) {
      *mantissa = *mantissa * 10 + (uint64_t)(*r->at - '0');
      ++*held;
    } else {
      ++*left;
    }
  }
}

static bool read_exponent(rest *r, int *exponent) {
  uint64_t digits = 0;
  int held = 0, left = 0;
  r->at++;
  bool negative = r->at < r->end && *r->at == '-';
  r->at += r->at < r->end && (*r->at == '-' || *r->at == '+');
  if (!is_digit(r)) return false;
  read_digits(r, &digits, &held, &left);
  int most = digits > 100000 ? 100000 : (int)digits;
  *exponent += negative ? -most : most;
  return true;
}

static bool read_number(rest *r, number *out) {
  uint64_t mantissa = 0;
  int whole = 0, over = 0, part = 0, beyond = 0;
  bool negative = *r->at == '-';
  r->at += negative;
  if (!is_digit(r)) return false;
  read_digits(r, &mantissa, &whole, &over);
  int exponent = over;
  out->is_whole = over == 0 && mantissa <= INT64_MAX;
  if (r->at < r->end && *r->at == '.') {
    r->at++;
    if (!is_digit(r)) return false;
    read_digits(r, &mantissa, &part, &beyond);
    exponent -= part;
    out->is_whole = false;
  }
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    out->is_whole = false;
    if (!read_exponent(r, &exponent)) return false;
  }
  out->whole = out->is_whole ? (int64_t)mantissa : 0;
  if (negative) out->whole = -out->whole;
  double value = (double)mantissa;
  /* The division is done in two steps, because a single power of ten could be infinite. */
  if (exponent < -290) value /= 1e20, exponent += 20;
  if (mantissa > 0) value = exponent < 0 ? value / power_of_ten(-exponent) : value * power_of_ten(exponent);
  if (!isfinite(value)) value = NAN;
  out->value = negative ? -value : value;
  return true;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool pass_word(rest *r) {
  static const char *const words[] = {"null", "true", "false"};
  for (int i = 0; i < 3; i++) {
    size_t bytes = strlen(words[i]);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, words[i], bytes) != 0) continue;
    r->at += bytes;
    return true;
  }
  return false;
}

/* Reads a value of any kind. Sets *is_number to whether it is a number; only then is *out set. Returns false if the
 * value is not valid. */
static bool read_value(rest *r, number *out, bool *is_number) {
  const char *text = NULL;
  size_t bytes = 0;
  *is_number = false;
  if (is_next(r, '"')) return read_string(r, &text, &bytes);
  if (is_next(r, '{') || is_next(r, '[')) return pass_nested(r);
  if (r->at == r->end) return false;
  if (*r->at != '-' && !is_digit(r)) return pass_word(r);
  *is_number = true;
  return read_number(r, out);
}

static bool is_key(const char *text, size_t bytes, const char *key) {
  return strlen(key) == bytes && memcmp(text, key, bytes) == 0;
}

/* ---- lists of objects -------------------------------------------------------------------------------------------- */

/* Takes a number of an object in a list, the member `key` of the object with the index `object`. Called for each such
 * number. */
typedef void (*read_member)(tri_board_line *out, int64_t object, const char *key, size_t bytes, double value);

/* Reads the members of an object from after its opening brace, and passes each member with a number to `take`. Returns
 * false if the object is not valid. */
static bool read_members(rest *r, tri_board_line *out, int64_t object, read_member take) {
  if (is_next(r, '}')) return true;
  do {
    const char *key = NULL;
    size_t bytes = 0;
    number value = {0};
    bool is_number = false;
    if (!is_next(r, '"') || !read_string(r, &key, &bytes) || !is_next(r, ':')) return false;
    if (!read_value(r, &value, &is_number)) return false;
    if (is_number) take(out, object, key, bytes, value.value);
  } while (is_next(r, ','));
  return is_next(r, '}');
}

/* Reads a list from after its opening bracket. Skips elements that are not objects. Returns false if the list is not
 * valid. */
static bool read_list(rest *r, tri_board_line *out, read_member take) {
  int64_t object = 0;
  if (is_next(r, ']')) return true;
  do {
    number value = {0};
    bool is_number = false;
    if (!(is_next(r, '{') ? read_members(r, out, object, take) : read_value(r, &value, &is_number))) return false;
    object++;
  } while (is_next(r, ','));
  return is_next(r, ']');
}

/* Updates the mean of the first `before` objects with the value of the next object. */
static void add_to_mean(double *mean, int64_t before, double value) {
  *mean = before == 0 || isnan(*mean) ? value : *mean + (value - *mean) / (double)(before + 1);
}

static void add_expert_layer(tri_board_line *out, int64_t object, const char *key, size_t bytes, double value) {
  if (is_key(key, bytes, "max_over_mean")) add_to_mean(&out->values[TRI_BOARD_EXPERT_LOAD], object, value);
  if (is_key(key, bytes, "entropy")) add_to_mean(&out->values[TRI_BOARD_EXPERT_EVENNESS], object, value);
}

static void add_source(tri_board_line *out, int64_t object, const char *key, size_t bytes, double value) {
  if (object >= TRI_BOARD_SOURCES || !is_key(key, bytes, "share")) return;
  out->values[TRI_BOARD_SOURCE_1 + object] = value;
}

/* Returns the function that takes the numbers of a list with this key; NULL if the list is skipped. */
static read_member taker_of(const char *key, size_t bytes) {
  if (is_key(key, bytes, "experts")) return add_expert_layer;
  return is_key(key, bytes, "sources") ? add_source : NULL;
}

/* ---- line -------------------------------------------------------------------------------------------------------- */

/* Returns the column with a key; -1 if there is none. Lines have their keys in one order, so the key after the last one
 * found is tried first. */
static int column_of(const char *text, size_t bytes, int *next) {
  for (int i = 0; i < TRI_BOARD_OWN_COLUMNS; i++) {
    int column = (*next + i) % TRI_BOARD_OWN_COLUMNS;
    if (!is_key(text, bytes, names[column])) continue;
    *next = column + 1;
    return column;
  }
  return -1;
}

/* Returns whether a fixed member of a line or of a run's curves has this name, so that a named number cannot have it.
 */
static bool is_taken(const char *text, size_t bytes) {
  static const char *const others[] = {"step",    "tokens", "sources", "experts", "share", "id",
                                       "version", "range",  "x",       "steps",   "bad",   "checkpoints"};
  if (memchr(text, '/', bytes) != NULL) return false;
  bool taken = false;
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) taken = taken || is_key(text, bytes, others[i]);
  for (int i = TRI_BOARD_OWN_COLUMNS; i < TRI_BOARD_COLUMNS; i++) taken = taken || is_key(text, bytes, names[i]);
  return taken;
}

static void add_named(tri_board_line *out, const char *key, size_t bytes, double value) {
  if (out->num_named == TRI_MOST_NAMED_METRICS || !tri_metric_name_is_valid(key, bytes) || is_taken(key, bytes)) return;
  out->named[out->num_named++] = (tri_board_named){key, bytes, value};
}

bool tri_board_line_read(const char *line, size_t bytes, tri_board_line *out) {
  rest r = {line, line + bytes};
  int next = 0;
  bool has_step = false;
  out->step = out->tokens = 0;
  out->share = NULL;
  out->share_bytes = 0;
  out->num_named = 0;
  for (int i = 0; i < TRI_BOARD_COLUMNS; i++) out->values[i] = NAN;
  if (!is_next(&r, '{')) return false;
  do {
    const char *key = NULL;
    size_t key_bytes = 0;
    number value = {0};
    bool is_number = false;
    if (!is_next(&r, '"') || !read_string(&r, &key, &key_bytes) || !is_next(&r, ':')) return false;
    const read_member take = taker_of(key, key_bytes);
    pass_spaces(&r);
    const char *begin = r.at;
    if (!(take != NULL && is_next(&r, '[') ? read_list(&r, out, take) : read_value(&r, &value, &is_number))) {
      return false;
    }
    if (*begin == '{' && is_key(key, key_bytes, "share")) {
      out->share = begin;
      out->share_bytes = (size_t)(r.at - begin);
    }
    if (!is_number) continue;
    if (is_key(key, key_bytes, "step")) out->step = value.whole, has_step = value.is_whole && value.whole > 0;
    if (is_key(key, key_bytes, "tokens") && value.is_whole && value.whole > 0) out->tokens = value.whole;
    int column = column_of(key, key_bytes, &next);
    if (column >= 0) out->values[column] = value.value;
    if (column < 0) add_named(out, key, key_bytes, value.value);
  } while (is_next(&r, ','));
  if (!is_next(&r, '}')) return false;
  pass_spaces(&r);
  return r.at == r.end && has_step;
}
