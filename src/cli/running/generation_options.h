/* Options that `generate` and `serve` share. */
#ifndef TRI_CLI_RUNNING_GENERATION_OPTIONS_H
#define TRI_CLI_RUNNING_GENERATION_OPTIONS_H

#include "generation/generation.h"
#include "options/option_rows.h"

/* Rows of options whose values are in a tri_generation_request: guesses, and the choice of candidates. */
extern const tri_option tri_guess_option_rows[];
extern const tri_option tri_sampling_option_rows[];

/* Checks that at most one source of guesses is given, and --draft-tokens only with --draft. Fails with TRI_BAD_USAGE;
 * `command` begins the message. */
tri_status tri_check_guess_options(const char *command, const tri_generation_request *request);
/* Sets the number of tokens that a draft model guesses, if it is not given. */
void tri_default_guess_options(tri_generation_request *request);

#endif
