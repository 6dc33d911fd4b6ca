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
/* Fails with TRI_BAD_USAGE because no command has this name. The message suggests the command with the nearest name. */
tri_status tri_command_unknown(const tri_commands *commands, const char *name);

void tri_help_usage(const tri_commands *commands, FILE *to);

#define TRI_HELP_SUMMARY "describe a command, or the keys of a file"
extern const char tri_help_usage_text[], tri_help_examples[];
extern const tri_option tri_help_options[];
/* Runs `trireme help`; arguments[0] is `help`. */
tri_status tri_help_run(const tri_commands *commands, int count, char **arguments);

#endif
