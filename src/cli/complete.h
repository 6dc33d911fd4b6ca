/* Completion of command lines, for shells: `trireme complete WORD...`. */
#ifndef TRI_CLI_COMPLETE_H
#define TRI_CLI_COMPLETE_H

#include "cli/help.h"

/* Prints the candidates for the last of words[count]. The words are those after the program's name up to the cursor;
 * the last word may be incomplete or empty. Each printed line has a candidate, and after it a tab and a description if
 * there is one. The line `:files` means that names of files are possible, too. */
tri_status tri_complete_run(const tri_commands *commands, int count, char **words);

#endif
