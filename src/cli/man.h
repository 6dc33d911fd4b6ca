/* Manual pages, which are made from the help of commands and from the tables of keys. */
#ifndef TRI_CLI_MAN_H
#define TRI_CLI_MAN_H

#include "cli/cli.h"
#include "cli/topics.h"

#include <stdio.h>

/* These functions print a whole page in the format of man(7). */
void tri_man_program(const tri_command *const *commands, int num_commands, FILE *to); /* trireme(1) */
void tri_man_command(const tri_command *command, FILE *to);                           /* trireme-NAME(1) */
void tri_man_topic(const tri_topic *topic, FILE *to);                                 /* trireme-NAME(5) */

#endif
