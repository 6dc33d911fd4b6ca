/* Parses numbers and words in command-line options. Error messages name the option, and the one that was probably
 * meant. */
#ifndef TRI_OPTIONS_OPTIONS_H
#define TRI_OPTIONS_OPTIONS_H

#include "base/status.h"
#include "config/config.h"

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* Parses an integer in [low, high]. `option`: as the user types it ("--tokens"). */
tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* Parses a memory size of at least a byte: a number of bytes, of KiB, MiB, GiB or TiB ("512MiB"; K, M and G mean KiB,
 * MiB and GiB), or of KB, MB or GB (powers of 1000). */
tri_status tri_option_bytes(const char *option, const char *text, size_t *out);
tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out);

/* Sets *out to the index of `text` among the words. The error message lists them, and names the one that was probably
 * meant. */
tri_status tri_option_word(const char *option, const char *text, const char *const *words, int count, int *out);

/* Makes the error message after getopt_long returned '?' or ':': an unknown option, with the nearest one in the table;
 * a missing value; or a value for an option that does not take one. */
tri_status tri_option_fault(const char *command, int result, char **arguments, const struct option *options);
/* The same for a command that takes keys of a table by one of its options ("--set"): a key that was given as an option
 * is recognised. */
tri_status tri_option_fault_or_key(const char *command, int result, char **arguments, const struct option *options,
                                   const tri_config_table *table, const char *given_by);
/* The same for a command that looks for a few words ("--json") itself. */
tri_status tri_option_unknown(const char *command, const char *word, const char *const *names, int count);

#endif
