/* A leading `~/` of paths on the command line, where no shell has put the home folder in: behind `=`, in quotes, or
 * from a program that starts this one. */
#ifndef TRI_CLI_PATHS_H
#define TRI_CLI_PATHS_H

#include "cli/cli.h"

/* A copy of a command's words, arguments[0] its name, with a NULL behind them, in which the values of its options that
 * are paths and all words that belong to no option are as base/home.h has them. Release *out with tri_free. */
tri_status tri_paths_go_home(const tri_command *command, int count, char **arguments, char ***out);

#endif
