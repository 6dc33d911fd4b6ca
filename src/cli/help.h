/* `trireme help`: help about commands and about the keys of files, and manual pages. */
#ifndef TRI_CLI_HELP_H
#define TRI_CLI_HELP_H

#include "cli/cli.h"

#include <stdio.h>

/* All commands of the program. */
typedef struct tri_commands {
  const tri_command *const *list;
  int count;
} tri_commands;

/* Returns the command with a name; NULL if there is none. */
const tri_command *tri_command_find(const tri_commands *commands, const char *name);
/* Fails with TRI_BAD_USAGE because no command has this name. The message suggests the nearest command or, for a name
 * that begins with a dash, the nearest option of the program. For a name that only other programs have, it describes
 * what to use instead (config/name_answers.h). */
tri_status tri_command_unknown(const tri_commands *commands, const char *name);

/* Prints the usage of the program, with a line for each command. */
void tri_help_usage(const tri_commands *commands, FILE *to);

#define TRI_HELP_SUMMARY "describe a command, or the keys of a file"
extern const char tri_help_usage_text[], tri_help_examples[];
extern const tri_option tri_help_options[];
/* Runs `trireme help`; arguments[0] is `help`. Fails with TRI_BAD_USAGE for wrong arguments or an unknown name, and
 * with TRI_IO_FAILED if a manual page cannot be written. */
tri_status tri_help_run(const tri_commands *commands, int count, char **arguments);

#endif
