/* Completion of command lines, for shells: `trireme complete WORD...`. */
#ifndef TRI_CLI_COMPLETE_H
#define TRI_CLI_COMPLETE_H

#include "cli/help.h"

/* Prints the candidates for the last of `words`, which are the words after the program's name up to the cursor; the
 * last one may be incomplete or empty. Each line has a word, followed by a tab and a description if it has one. The
 * line `:files` means that names of files are possible, too. */
tri_status tri_complete_run(const tri_commands *commands, int count, char **words);

#endif
