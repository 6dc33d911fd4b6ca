#include "options/options.h"

#include "base/whole_number.h"
#include "config/name_answers.h"
#include "config/nearest_word.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out) {
  int64_t value = 0;
  if (!tri_whole_number(text, &value)) {
    return tri_fail(TRI_BAD_USAGE, "%s takes a whole number, not `%s`", option, text);
  }
  if (value < low || value > high) {
    return tri_fail(TRI_BAD_USAGE, "%s must be from %" PRId64 " to %" PRId64 ", not %s", option, low, high, text);
  }
  *out = value;
  return TRI_OK;
}

tri_status tri_option_length(const char *option, const char *text, int64_t low, int64_t high, int64_t *out) {
  int64_t value = 0;
  if (!tri_whole_length(text, &value))
    return tri_fail(TRI_BAD_USAGE, "%s takes a number of tokens, as 4096 or 4k, not `%s`", option, text);
  if (value < low || value > high)
    return tri_fail(TRI_BAD_USAGE, "%s must be from %" PRId64 " to %" PRId64 ", not %s", option, low, high, text);
  *out = value;
  return TRI_OK;
}

tri_status tri_option_hours(const char *option, const char *text, double low, double high, double *out) {
  char *end = NULL;
  double value = strtod(text, &end);
  const bool days = *end == 'd', unit = days || *end == 'h';
  if (end == text || end[unit] != '\0' || !isfinite(value))
    return tri_fail(TRI_BAD_USAGE, "%s takes a number of hours, as 2400, or of days, as 100d, not `%s`", option, text);
  if (days) value *= 24;
  if (value < low || value > high)
    return tri_fail(TRI_BAD_USAGE, "%s must be from %g to %g hours, not %s", option, low, high, text);
  *out = value;
  return TRI_OK;
}

tri_status tri_option_bytes(const char *option, const char *text, size_t *out) {
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"", 1},       {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
               {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30},   {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9}};
  char *end = NULL;
  const double number = strtod(text, &end);
  while (end != text && *end == ' ') end++;
  for (size_t i = 0; i < sizeof units / sizeof *units && end != text; i++) {
    if (strcmp(end, units[i].name) != 0) continue;
    const double bytes = number * units[i].bytes;
    if (!(bytes >= 1)) return tri_fail(TRI_BAD_USAGE, "%s must be at least a byte, not %s", option, text);
    if (!(bytes < 0x1p60)) return tri_fail(TRI_BAD_USAGE, "%s: %s is more than any memory", option, text);
    *out = (size_t)bytes;
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_USAGE, "%s takes a number of bytes, as 512MiB or 4GiB, not `%s`", option, text);
}

tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value)) {
    return tri_fail(TRI_BAD_USAGE, "%s takes a number, not `%s`", option, text);
  }
  if (value < low || value > high) {
    return tri_fail(TRI_BAD_USAGE, "%s must be from %g to %g, not %s", option, low, high, text);
  }
  *out = value;
  return TRI_OK;
}

tri_status tri_option_word(const char *option, const char *text, const char *const *words, int count, int *out) {
  char list[512] = "";
  size_t held = 0;
  for (int i = 0; i < count; i++) {
    if (strcmp(text, words[i]) == 0) {
      *out = i;
      return TRI_OK;
    }
    const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
    if (held < sizeof list) held += (size_t)snprintf(list + held, sizeof list - held, "%s%s", between, words[i]);
  }
  const char *nearest = tri_nearest_word(text, words, (size_t)count);
  return tri_fail(TRI_BAD_USAGE, "%s is %s, not `%.60s`%s%s%s", option, list, text,
                  nearest == NULL ? "" : "; did you mean `", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "`?");
}

/* ---- errors of getopt_long --------------------------------------------------------------------------------------- */

enum { MOST_OPTIONS = 96, LONGEST_OPTION = 64 };

static tri_status unknown(const char *command, const char *word, const char *meant) {
  const char *answer = tri_option_answer(command, word);
  if (answer == NULL) answer = tri_key_answer(word);
  if (answer != NULL) return tri_fail(TRI_BAD_USAGE, "%s: %s is not an option; %s", command, word, answer);
  if (meant == NULL) {
    return tri_fail(TRI_BAD_USAGE, "%s: %s is not an option; see trireme %s --help", command, word, command);
  }
  return tri_fail(TRI_BAD_USAGE, "%s: %s is not an option; did you mean --%s? See trireme %s --help", command, word,
                  meant, command);
}

static size_t names_of(const struct option *options, const char *names[MOST_OPTIONS + 1]) {
  size_t count = 0;
  for (; options[count].name != NULL && count < MOST_OPTIONS; count++) names[count] = options[count].name;
  names[count++] = "help"; /* every command has this option, although no table has it */
  return count;
}

/* Returns the name of the option that is nearest to `name`, which has no dashes; NULL if none is near. */
static const char *nearest_option(const char *name, const struct option *options) {
  const char *names[MOST_OPTIONS + 1];
  return tri_nearest_word(name, names, names_of(options, names));
}

/* Returns the option that other programs call `name`; NULL if there is none. */
static const char *known_option(const char *name, const struct option *options) {
  const char *names[MOST_OPTIONS + 1];
  return tri_known_word(name, names, names_of(options, names));
}

/* Lists the options that begin with `name`, such as --tokens and --tokenizer for "--to". Returns false if at most one
 * option begins so. */
static bool list_beginnings(const char *name, const struct option *options, char *out, size_t out_bytes) {
  int found = 0;
  size_t held = 0;
  for (int i = 0; options[i].name != NULL; i++) {
    if (strncmp(name, options[i].name, strlen(name)) != 0) continue;
    if (held < out_bytes) {
      held += (size_t)snprintf(out + held, out_bytes - held, "%s--%s", found == 0 ? "" : ", ", options[i].name);
    }
    found++;
  }
  return found > 1;
}

static tri_status fault_of_long(const char *command, const char *word, const struct option *options) {
  char name[LONGEST_OPTION], all[512];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  if (list_beginnings(name, options, all, sizeof all)) {
    return tri_fail(TRI_BAD_USAGE, "%s: --%s can be %s; see trireme %s --help", command, name, all, command);
  }
  return unknown(command, word, nearest_option(name, options));
}

/* Fails with TRI_BAD_USAGE because of an unknown letter. getopt_long reads "-top-k 5" as the letter t and further
 * letters, so a word of several letters was probably meant as a long option. */
static tri_status fault_of_letter(const char *command, int letter, char **arguments, const struct option *options) {
  const char *word = arguments[optind - 1], *meant = NULL;
  const char shown[3] = {'-', (char)letter, '\0'};
  if (word[0] != '-' || word[1] != letter) word = arguments[optind];
  if (word == NULL || word[0] != '-' || word[1] != letter) return unknown(command, shown, NULL);
  if (strlen(word) == 2) meant = known_option(word, options);
  if (strlen(word) > 2) {
    char name[LONGEST_OPTION];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 1, "="), word + 1);
    meant = nearest_option(name, options);
  }
  return unknown(command, meant == NULL ? shown : word, meant);
}

tri_status tri_option_fault(const char *command, int result, char **arguments, const struct option *options) {
  const char *word = arguments[optind - 1];
  if (result == ':') {
    return tri_fail(TRI_BAD_USAGE, "%s: %s needs a value; see trireme %s --help", command, word, command);
  }
  if (optopt > UCHAR_MAX) {
    return tri_fail(TRI_BAD_USAGE, "%s: %.*s takes no value; see trireme %s --help", command, (int)strcspn(word, "="),
                    word, command);
  }
  if (optopt > 0) return fault_of_letter(command, optopt, arguments, options);
  return fault_of_long(command, word, options);
}

tri_status tri_option_fault_or_key(const char *command, int result, char **arguments, const struct option *options,
                                   const tri_config_table *table, const char *given_by) {
  const char *word = arguments[optind - 1];
  char name[LONGEST_OPTION], key[LONGEST_OPTION];
  bool is_word = result == '?' && optopt == 0 && strncmp(word, "--", 2) == 0;
  snprintf(name, sizeof name, "%.*s", is_word ? (int)strcspn(word + 2, "=") : 0, is_word ? word + 2 : "");
  const bool answered = tri_option_answer(command, name) != NULL;
  if (is_word && !answered && known_option(name, options) == NULL && tri_config_meant(table, name, key, sizeof key)) {
    return tri_fail(TRI_BAD_USAGE, "%s: --%s is not an option; did you mean %s %s=VALUE? See trireme %s --help",
                    command, name, given_by, key, command);
  }
  return tri_option_fault(command, result, arguments, options);
}

tri_status tri_option_unknown(const char *command, const char *word, const char *const *names, int count) {
  const char *nearest = tri_nearest_word(word, names, (size_t)count);
  return unknown(command, word, nearest == NULL ? NULL : nearest + 2);
}
