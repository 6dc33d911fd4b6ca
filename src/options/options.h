/* Numbers and words in command-line options, with messages that name the option and the one that was meant. */
#ifndef TRI_OPTIONS_OPTIONS_H
#define TRI_OPTIONS_OPTIONS_H

#include "base/status.h"
#include "config/config.h"

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* A whole number in [low, high]. `option` is as the user writes it ("--tokens"). */
tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* A size in memory: a whole number of bytes, or of KiB, MiB or GiB ("512MiB"; also KB, MB, GB of 1000), above 0. */
tri_status tri_option_bytes(const char *option, const char *text, size_t *out);
tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out);

/* The number of `text` among the words; which there are, and the one that was probably meant, if it is not among them.
 */
tri_status tri_option_word(const char *option, const char *text, const char *const *words, int count, int *out);

/* What getopt_long left to say after it returned '?' or ':': the option that is unknown, with the nearest of its table,
 * or lacks its value, or has one that it does not take. */
tri_status tri_option_fault(const char *command, int result, char **arguments, const struct option *options);
/* The same for a command that takes keys of a table by one of its options ("--set"): a key in the place of an option is
 * told from a misspelt one. */
tri_status tri_option_fault_or_key(const char *command, int result, char **arguments, const struct option *options,
                                   const tri_config_table *table, const char *given_by);
/* The same for a command that looks through a few words ("--json") itself. */
tri_status tri_option_unknown(const char *command, const char *word, const char *const *names, int count);

#endif
