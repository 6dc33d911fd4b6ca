/* The help of a command: its usage, the lines of its options, and its examples. */
#ifndef TRI_CLI_COMMAND_HELP_H
#define TRI_CLI_COMMAND_HELP_H

#include "cli/cli.h"

#include <stdio.h>

/* tri_command_help lists the parts of a command's help, which are whole lines, and returns the number of parts.
 * tri_command_print_help prints the parts. */
enum { TRI_HELP_PARTS = TRI_MOST_OPTIONS + 2 };
int tri_command_help(const tri_command *command, const char *parts[TRI_HELP_PARTS]);
void tri_command_print_help(const tri_command *command, FILE *to);

#endif
