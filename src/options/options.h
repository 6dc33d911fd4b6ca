/* Parsers of numbers and words in command-line options. An error message names the option, and the option that was
 * probably meant. */
#ifndef TRI_OPTIONS_OPTIONS_H
#define TRI_OPTIONS_OPTIONS_H

#include "base/status.h"
#include "config/config.h"

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* Parses an integer in [low, high]. `option` is the option's name in messages, as the user types it ("--tokens"). Fails
 * with TRI_BAD_USAGE if the text is not such a number, as the functions below do. */
tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* Parses a number of tokens in [low, high], such as "4096" or "4k" (4096). */
tri_status tri_option_length(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* Parses a number of hours in [low, high], such as "2400" or "2400h", or of days, such as "100d" (2400). */
tri_status tri_option_hours(const char *option, const char *text, double low, double high, double *out);
/* Parses a memory size of at least one byte. The text is a number of bytes, of KiB, MiB, GiB or TiB ("512MiB"; K, M and
 * G mean KiB, MiB and GiB), or of KB, MB or GB (powers of 1000). */
tri_status tri_option_bytes(const char *option, const char *text, size_t *out);
/* Parses a finite number in [low, high]. */
tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out);

/* Sets *out to the index of `text` in words[count]. Fails with TRI_BAD_USAGE if the text is not one of them; the
 * message lists the words, and suggests the nearest one. */
tri_status tri_option_word(const char *option, const char *text, const char *const *words, int count, int *out);

/* Fails with the error message for `result`, '?' or ':', which getopt_long has returned. The fault is an unknown option
 * (the message names the nearest option of the table), a missing value, or a value for an option that takes none. */
tri_status tri_option_fault(const char *command, int result, char **arguments, const struct option *options);
/* Fails like tri_option_fault, for a command that takes keys of a table by one of its options (`given_by`, such as
 * "--set"). If the user gave such a key as an option, the message suggests this option. */
tri_status tri_option_fault_or_key(const char *command, int result, char **arguments, const struct option *options,
                                   const tri_config_table *table, const char *given_by);
/* Fails like tri_option_fault, for a command that looks for its few options, names[count] ("--json"), itself. */
tri_status tri_option_unknown(const char *command, const char *word, const char *const *names, int count);

#endif
