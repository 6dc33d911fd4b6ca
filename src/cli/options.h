/* Numbers in command-line options, with messages that name the option. */
#ifndef TRI_CLI_OPTIONS_H
#define TRI_CLI_OPTIONS_H

#include "base/status.h"

#include <stdint.h>

/* A whole number in [low, high]. `option` is as the user writes it ("--tokens"). */
tri_status tri_option_int(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
tri_status tri_option_double(const char *option, const char *text, double low, double high, double *out);

/* What getopt_long left to say after it returned '?' or ':': the option that is unknown or lacks its value. */
tri_status tri_option_fault(const char *command, int result, char **arguments);

#endif
