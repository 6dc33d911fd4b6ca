/* What could follow on a command line, for the shells: `trireme complete WORD...`. */
#ifndef TRI_CLI_COMPLETE_H
#define TRI_CLI_COMPLETE_H

#include "cli/help.h"

/* words are those behind the program's name, up to where the cursor is: the last may be begun or empty. Prints a line
 * for each word that could stand there, with a tab and some words about it behind it where there are any; the line
 * `:files` says that a file's name could, too. */
tri_status tri_complete_run(const tri_commands *commands, int count, char **words);

#endif
