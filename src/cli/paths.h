/* Replaces a leading `~/` in paths on the command line. The shell does not replace it after `=` or in quotes, and there
 * is no shell if another program starts this one directly. */
#ifndef TRI_CLI_PATHS_H
#define TRI_CLI_PATHS_H

#include "cli/cli.h"

/* Copies arguments[count] to the list *out, and ends the list with NULL. arguments[0] is the command's name. Applies
 * tri_home_path (files/home.h) to the values of options that are paths, and to words that are not options. A failure of
 * tri_home_path is TRI_BAD_USAGE. Release *out with tri_free. */
tri_status tri_paths_go_home(const tri_command *command, int count, char **arguments, char ***out);

#endif
