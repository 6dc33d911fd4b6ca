#include "config/config_value.h"

#include "base/count_list.h"
#include "base/whole_number.h"
#include "config/name_answers.h"
#include "config/nearest_word.h"
#include "files/home.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char *tri_config_format_double(double value, char buffer[32]) {
  if (value == floor(value) && fabs(value) < 1e7) {
    snprintf(buffer, 32, "%.1f", value); /* 10000.0, not 1.0e+04 */
    return buffer;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buffer, 32, "%.*g", digits, value);
    if (strtod(buffer, NULL) == value) break;
  }
  /* YAML 1.1 readers read 1e-05 as a word and 1.0e-05 as a number. */
  if (!isfinite(value) || strchr(buffer, '.') != NULL) return buffer;
  char exponent[32] = "";
  char *e = strchr(buffer, 'e');
  if (e != NULL) {
    snprintf(exponent, sizeof exponent, "%s", e);
    *e = '\0';
  }
  size_t held = strlen(buffer);
  snprintf(buffer + held, 32 - held, ".0%.8s", exponent);
  return buffer;
}

enum { MAX_WORDS = 32 };

/* ---- descriptions of legal values -------------------------------------------------------------------------------- */

static size_t list_words(const tri_config_word *words, const char *names[MAX_WORDS]) {
  size_t count = 0;
  while (words[count].name != NULL && count < MAX_WORDS) {
    names[count] = words[count].name;
    count++;
  }
  return count;
}

char *tri_config_value_kind(const tri_config_key *key, char buffer[TRI_CONFIG_FAULT_BYTES]) {
  const char *kind = "";
  switch (key->type) {
    case TRI_CONFIG_INT: kind = key->is_length ? "a number of tokens, as 4096 or 4k" : "a whole number"; break;
    case TRI_CONFIG_SEED: kind = "a whole number from 0 to 18446744073709551615"; break;
    case TRI_CONFIG_AUTO: kind = "a whole number or `auto`"; break;
    case TRI_CONFIG_DOUBLE: kind = "a number"; break;
    case TRI_CONFIG_PAIR: kind = "two numbers in brackets, `[a, b]`"; break;
    case TRI_CONFIG_NUMBERS: kind = "numbers in brackets, `[a, b, ...]`"; break;
    case TRI_CONFIG_COUNTS: kind = "whole numbers in brackets, `[a, b, ...]`"; break;
    case TRI_CONFIG_BOOL: kind = "`true` or `false`"; break;
    case TRI_CONFIG_STRING: kind = "a text"; break;
    case TRI_CONFIG_PATH: kind = "a path"; break;
    case TRI_CONFIG_LIST:
      if (key->keyed != NULL)
        kind = "a mapping";
      else
        kind = key->plain == NULL ? "a list of mappings of keys" : "a text or a list of mappings of keys";
      break;
    case TRI_CONFIG_SECTION: kind = key->expand == NULL ? "a mapping of keys" : "a name or a mapping of keys"; break;
    case TRI_CONFIG_CHOICE: {
      const char *names[MAX_WORDS];
      size_t count = list_words(key->words, names);
      int held = snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "one of");
      for (size_t i = 0; i < count && held < TRI_CONFIG_FAULT_BYTES; i++) {
        held += snprintf(buffer + held, (size_t)(TRI_CONFIG_FAULT_BYTES - held), "%s %s", i == 0 ? "" : ",", names[i]);
      }
      return buffer;
    }
  }
  snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "%s", kind);
  return buffer;
}

/* Formats a bound of a range to `buffer`, and returns it: whole numbers in full, others as short as possible. */
static char *format_bound(double bound, char buffer[32]) {
  snprintf(buffer, 32, bound == floor(bound) && fabs(bound) <= TRI_CONFIG_MOST ? "%.0f" : "%g", bound);
  return buffer;
}

/* Formats a range: "at least 1", "between 0 and 3", "at least 0 and below 1". A high end of TRI_CONFIG_MOST or more is
 * left out, unless `too_high` says that the value exceeds it. Returns `buffer`. */
static char *format_range(const tri_config_range *range, bool too_high, char buffer[96]) {
  char low[32];
  char high[32];
  format_bound(range->low, low);
  format_bound(range->high, high);
  if (range->high >= TRI_CONFIG_MOST && !too_high) {
    snprintf(buffer, 96, "%s %s", range->open_low ? "above" : "at least", low);
  } else if (!range->open_low && !range->open_high) {
    snprintf(buffer, 96, "between %s and %s", low, high);
  } else {
    snprintf(buffer, 96, "%s %s and %s %s", range->open_low ? "above" : "at least", low,
             range->open_high ? "below" : "at most", high);
  }
  return buffer;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static bool in_range(const tri_config_range *range, double value) {
  bool low = range->open_low ? value > range->low : value >= range->low;
  bool high = range->open_high ? value < range->high : value <= range->high;
  return low && high && isfinite(value);
}

static const char *number_fault(const tri_config_key *key, double value, const char *shown, char *buffer) {
  char range[96];
  const char *or_auto = "";
  if (in_range(&key->range, value)) return NULL;
  if (key->type == TRI_CONFIG_AUTO) or_auto = " or `auto`";
  snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "must be %s%s, not %s",
           format_range(&key->range, value > key->range.high, range), or_auto, shown);
  return buffer;
}

/* Returns the fault of an integer, or NULL. `written`: the user's text; NULL: not from a file. */
static const char *int_fault(const tri_config_key *key, int64_t value, const char *written, char *buffer) {
  char shown[32];
  if (key->type == TRI_CONFIG_AUTO && value == 0) return NULL;
  snprintf(shown, sizeof shown, "%" PRId64, value);
  return number_fault(key, (double)value, written == NULL ? shown : written, buffer);
}

static const char *double_fault(const tri_config_key *key, double value, const char *written, char *buffer) {
  char shown[32];
  tri_config_format_double(value, shown);
  return number_fault(key, value, written == NULL ? shown : written, buffer);
}

/* Returns whether a text is printable, apart from line breaks and tabs, which some keys may have. */
static bool is_printable(const tri_config_key *key, const char *text) {
  char *copy = strdup(text);
  if (copy == NULL) return false;
  for (char *at = copy; key->breaks && (at = strpbrk(at, "\n\r\t")) != NULL;) *at = ' ';
  const bool out = tri_yaml_is_printable(copy);
  free(copy);
  return out;
}

static const char *string_fault(const tri_config_key *key, const char *text, char *buffer) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  if (memchr(text, '\0', key->bytes) == NULL) {
    snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "may have at most %zu bytes", key->bytes - 1);
    return buffer;
  }
  bool may_be_empty = key->fallback != NULL && key->fallback[0] == '\0';
  if (text[0] == '\0' && !may_be_empty) return "must not be empty";
  if (is_printable(key, text)) return NULL;
  snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "must be one line of printable UTF-8 text, not `%s`",
           tri_yaml_excerpt(text, excerpt));
  return buffer;
}

/* Returns the fault of a list of at most `most` numbers, or NULL. `written`: the first of the nodes from which they
 * were read, or NULL. */
static const char *numbers_fault(const tri_config_key *key, const void *at, size_t most, const tri_yaml *written,
                                 char *buffer) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  for (size_t i = 0; i < most; i++) {
    double number = 0;
    memcpy(&number, (const char *)at + i * sizeof number, sizeof number);
    if (key->type == TRI_CONFIG_NUMBERS && number == 0 && written == NULL) return NULL; /* a 0 ends the array */
    const char *wrong =
        double_fault(key, number, written == NULL ? NULL : tri_yaml_excerpt(written->text, excerpt), buffer);
    if (wrong != NULL) return wrong;
    if (written == NULL) continue;
    written = written->next;
    if (written == NULL) return NULL;
  }
  return NULL;
}

static const char *counts_fault(const tri_config_key *key, const void *at, const tri_yaml *written, char *buffer) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  const tri_count_list *list = NULL;
  memcpy(&list, at, sizeof list);
  for (int64_t i = 0; list != NULL && i < list->count; i++) {
    const char *text = written == NULL ? NULL : tri_yaml_excerpt(written->text, excerpt);
    const char *wrong = int_fault(key, list->numbers[i], text, buffer);
    if (wrong != NULL) return wrong;
    if (written != NULL) written = written->next;
  }
  return NULL;
}

const char *tri_config_value_fault(const tri_config_key *key, const void *at, const tri_yaml *node,
                                   char buffer[TRI_CONFIG_FAULT_BYTES]) {
  int64_t whole = 0;
  double number = 0;
  int word = 0;
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  const tri_yaml *elements = node == NULL ? NULL : node->first;
  const char *written = node == NULL || node->kind != TRI_YAML_SCALAR ? NULL : tri_yaml_excerpt(node->text, excerpt);
  switch (key->type) {
    case TRI_CONFIG_INT:
    case TRI_CONFIG_AUTO: memcpy(&whole, at, sizeof whole); return int_fault(key, whole, written, buffer);
    case TRI_CONFIG_DOUBLE: memcpy(&number, at, sizeof number); return double_fault(key, number, written, buffer);
    case TRI_CONFIG_PAIR: return numbers_fault(key, at, 2, elements, buffer);
    case TRI_CONFIG_NUMBERS: return numbers_fault(key, at, key->bytes / sizeof number, elements, buffer);
    case TRI_CONFIG_COUNTS: return counts_fault(key, at, elements, buffer);
    case TRI_CONFIG_STRING:
    case TRI_CONFIG_PATH: return string_fault(key, at, buffer);
    case TRI_CONFIG_CHOICE:
      memcpy(&word, at, sizeof word);
      for (const tri_config_word *legal = key->words; legal->name != NULL; legal++) {
        if (legal->value == word) return NULL;
      }
      snprintf(buffer, TRI_CONFIG_FAULT_BYTES, "holds %d, which stands for no word", word);
      return buffer;
    case TRI_CONFIG_SEED:
    case TRI_CONFIG_BOOL:
    case TRI_CONFIG_LIST:
    case TRI_CONFIG_SECTION: return NULL;
  }
  return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

tri_status tri_config_value_wrong(const tri_config_key *key, const tri_yaml *node, const char *subject) {
  char kind[TRI_CONFIG_FAULT_BYTES];
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  tri_config_value_kind(key, kind);
  if (node->kind == TRI_YAML_LIST && tri_config_is_numbers(key))
    return tri_yaml_fail(node, subject, " must be %s", kind);
  if (node->kind == TRI_YAML_LIST) return tri_yaml_fail(node, subject, " must be %s, not a list", kind);
  if (node->kind == TRI_YAML_MAPPING) return tri_yaml_fail(node, subject, " must be %s, not a mapping", kind);
  if (tri_yaml_is_null(node)) return tri_yaml_fail(node, subject, " has no value; it must be %s", kind);
  const char *quote = node->quoted ? "\"" : "";
  tri_yaml_excerpt(node->text, excerpt);
  if (key->type == TRI_CONFIG_CHOICE) {
    const char *names[MAX_WORDS];
    const char *answer = tri_value_answer(node->text);
    if (answer != NULL) return tri_yaml_fail(node, subject, " must be %s, not `%s`; %s", kind, excerpt, answer);
    const char *nearest = tri_nearest_word(node->text, names, list_words(key->words, names));
    if (nearest != NULL) {
      return tri_yaml_fail(node, subject, " must be %s, not `%s`; did you mean `%s`?", kind, excerpt, nearest);
    }
  }
  return tri_yaml_fail(node, subject, " must be %s, not `%s%s%s`", kind, quote, excerpt, quote);
}

static bool has_digits_only(const char *text) { return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0'; }

static bool scan_seed(const char *text, uint64_t *out) {
  if (!has_digits_only(text)) return false;
  errno = 0;
  *out = strtoull(text, NULL, 10);
  return errno == 0;
}

/* Parses a double like strtod, but without hexadecimal numbers, infinities and leading blanks. Returns false if the
 * text is not a number. A number that is too large becomes infinite, which is outside of every range. */
static bool scan_double(const char *text, double *out) {
  if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0') return false;
  char *end = NULL;
  *out = strtod(text, &end);
  return *end == '\0' && end != text;
}

static bool scan_bool(const char *text, bool *out) {
  *out = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "TRUE") == 0;
  return *out || strcmp(text, "false") == 0 || strcmp(text, "False") == 0 || strcmp(text, "FALSE") == 0;
}

bool tri_config_find_word(const tri_config_word *words, const char *name, int *out) {
  for (; words->name != NULL; words++) {
    if (strcmp(words->name, name) != 0) continue;
    *out = words->value;
    return true;
  }
  return false;
}

/* Parses a list of up to `most` numbers to out[most], and sets the rest of the array to 0. Sets *count to the number of
 * numbers. Returns false if the node is not a list, or has another element or too many. */
static bool scan_numbers(const tri_yaml *node, size_t most, double *out, size_t *count) {
  *count = 0;
  memset(out, 0, most * sizeof *out);
  if (node->kind != TRI_YAML_LIST) return false;
  for (const tri_yaml *element = node->first; element != NULL; element = element->next) {
    if (*count == most || element->kind != TRI_YAML_SCALAR || element->quoted) return false;
    if (!scan_double(element->text, &out[(*count)++])) return false;
  }
  return true;
}

static tri_status read_counts(const tri_config_key *key, const tri_yaml *node, const char *subject, void *at) {
  int64_t numbers[TRI_CONFIG_MOST_COUNTS], count = 0;
  const tri_count_list *list = NULL;
  if (node->kind != TRI_YAML_LIST) return tri_config_value_wrong(key, node, subject);
  for (const tri_yaml *element = node->first; element != NULL; element = element->next) {
    if (count == TRI_CONFIG_MOST_COUNTS)
      return tri_yaml_fail(node, subject, " may have at most %d numbers", TRI_CONFIG_MOST_COUNTS);
    if (element->kind != TRI_YAML_SCALAR || element->quoted || !tri_whole_number(element->text, &numbers[count++]))
      return tri_config_value_wrong(key, node, subject);
  }
  TRI_TRY(tri_count_list_keep(numbers, count, &list));
  memcpy(at, &list, sizeof list);
  return TRI_OK;
}

static bool scan_list(const tri_config_key *key, const tri_yaml *node, double *out) {
  size_t count = 0;
  if (key->type == TRI_CONFIG_NUMBERS) return scan_numbers(node, key->bytes / sizeof *out, out, &count);
  return scan_numbers(node, 2, out, &count) && count == 2;
}

/* Copies a text that fits. A text that is too long fills the buffer without a NUL, which string_fault then reports. */
static void copy_string(const tri_config_key *key, const char *text, char *out) {
  size_t bytes = strlen(text) + 1;
  memset(out, 0, key->bytes);
  memcpy(out, text, bytes <= key->bytes ? bytes : key->bytes);
}

static bool scan_scalar(const tri_config_key *key, const tri_yaml *node, void *at) {
  bool quoted = node->quoted;
  switch (key->type) {
    case TRI_CONFIG_AUTO:
      if (!quoted && strcmp(node->text, "auto") == 0) {
        memset(at, 0, sizeof(int64_t));
        return true;
      }
      return !quoted && tri_whole_number(node->text, at);
    case TRI_CONFIG_INT:
      return !quoted && (key->is_length ? tri_whole_length(node->text, at) : tri_whole_number(node->text, at));
    case TRI_CONFIG_SEED: return !quoted && scan_seed(node->text, at);
    case TRI_CONFIG_DOUBLE: return !quoted && scan_double(node->text, at);
    case TRI_CONFIG_BOOL: return !quoted && scan_bool(node->text, at);
    case TRI_CONFIG_CHOICE: return tri_config_find_word(key->words, node->text, at);
    case TRI_CONFIG_STRING:
    case TRI_CONFIG_PATH: copy_string(key, node->text, at); return true;
    case TRI_CONFIG_PAIR:
    case TRI_CONFIG_NUMBERS:
    case TRI_CONFIG_COUNTS:
    case TRI_CONFIG_LIST:
    case TRI_CONFIG_SECTION: return false;
  }
  return false;
}

/* Returns whether 0 was written for an `auto` key whose range does not have it. The check of the value in memory would
 * accept it, because 0 means `auto` there. */
static bool is_zero_for_auto(const tri_config_key *key, const tri_yaml *node, const void *at) {
  int64_t value = 0;
  if (key->type != TRI_CONFIG_AUTO || strcmp(node->text, "auto") == 0) return false;
  memcpy(&value, at, sizeof value);
  return value == 0 && !in_range(&key->range, 0);
}

static tri_status check_length(const tri_config_key *key, const tri_yaml *node, const char *subject) {
  const size_t most = key->bytes / sizeof(double);
  size_t count = 0;
  if (key->type != TRI_CONFIG_NUMBERS || node->kind != TRI_YAML_LIST) return TRI_OK;
  for (const tri_yaml *element = node->first; element != NULL; element = element->next) count++;
  if (count <= most) return TRI_OK;
  return tri_yaml_fail(node, subject, " may have at most %zu numbers, not %zu", most, count);
}

/* Replaces `~` by the home folder in *at if it is a path. Fails with TRI_BAD_CONFIG if that folder is unknown. */
static tri_status go_home(const tri_config_key *key, const tri_yaml *node, const char *subject, void *at) {
  char path[TRI_PATH_BYTES], fault[TRI_HOME_FAULT_BYTES];
  if (key->type != TRI_CONFIG_PATH || !tri_home_begins(node->text)) return TRI_OK;
  const char *wrong = tri_home_path(node->text, path, fault);
  if (wrong != NULL) return tri_yaml_fail(node, subject, ": %s", wrong);
  copy_string(key, path, at);
  return TRI_OK;
}

tri_status tri_config_value_read(const tri_config_key *key, const tri_yaml *node, const char *subject, void *at) {
  char fault[TRI_CONFIG_FAULT_BYTES];
  char range[96];
  if (tri_yaml_is_null(node) && tri_config_is_text(key) && key->fallback != NULL && key->fallback[0] == '\0') {
    memset(at, 0, key->bytes);
    return TRI_OK;
  }
  bool read = false;
  if (key->type == TRI_CONFIG_COUNTS) {
    TRI_TRY(read_counts(key, node, subject, at));
    read = true;
  } else if (tri_config_is_numbers(key)) {
    TRI_TRY(check_length(key, node, subject));
    read = scan_list(key, node, at);
  } else if (node->kind == TRI_YAML_SCALAR && !tri_yaml_is_null(node)) {
    read = scan_scalar(key, node, at);
  }
  if (!read) return tri_config_value_wrong(key, node, subject);
  TRI_TRY(go_home(key, node, subject, at));
  if (is_zero_for_auto(key, node, at)) {
    return tri_yaml_fail(node, subject, " must be %s or `auto`, not 0", format_range(&key->range, false, range));
  }
  const char *wrong = tri_config_value_fault(key, at, node, fault);
  return wrong == NULL ? TRI_OK : tri_yaml_fail(node, subject, " %s", wrong);
}
