/* Replaces a leading `~/` of paths on the command line that no shell has replaced: after `=`, in quotes, or from a
 * program that starts this one. */
#ifndef TRI_CLI_PATHS_H
#define TRI_CLI_PATHS_H

#include "cli/cli.h"

/* *out: a copy of a command's words, arguments[0] its name, followed by NULL. tri_home_path (base/home.h) is applied to
 * the values of options that are paths, and to words that are not options. Release *out with tri_free. */
tri_status tri_paths_go_home(const tri_command *command, int count, char **arguments, char ***out);

#endif
