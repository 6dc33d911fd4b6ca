/* Replaces a leading `~/` of paths on the command line that no shell has replaced: after `=`, in quotes, or if a
 * program starts this one without a shell. */
#ifndef TRI_CLI_PATHS_H
#define TRI_CLI_PATHS_H

#include "cli/cli.h"

/* Copies a command's words to *out, followed by NULL; arguments[0] is its name. tri_home_path (files/home.h) is applied
 * to the values of options that are paths, and to words that are not options. Release *out with tri_free. */
tri_status tri_paths_go_home(const tri_command *command, int count, char **arguments, char ***out);

#endif
