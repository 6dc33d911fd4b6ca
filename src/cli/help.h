/* `trireme help`: help about commands and the keys of files, and manual pages. */
#ifndef TRI_CLI_HELP_H
#define TRI_CLI_HELP_H

#include "cli/cli.h"

#include <stdio.h>

/* All commands of the program. */
typedef struct tri_commands {
  const tri_command *const *list;
  int count;
} tri_commands;

/* Returns the command with that name; NULL if there is none. */
const tri_command *tri_command_find(const tri_commands *commands, const char *name);
/* Returns TRI_BAD_USAGE for an unknown name; the message suggests the nearest known one. */
tri_status tri_command_unknown(const tri_commands *commands, const char *name);

void tri_help_usage(const tri_commands *commands, FILE *to);

#define TRI_HELP_SUMMARY "describe a command, or the keys of a file"
extern const char tri_help_usage_text[], tri_help_examples[];
extern const tri_option tri_help_options[];
/* Runs `trireme help`; arguments[0] is `help`. */
tri_status tri_help_run(const tri_commands *commands, int count, char **arguments);

#endif
