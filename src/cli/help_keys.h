/* `trireme help KEY`: prints one key of a file, a section, or all keys of a file. */
#ifndef TRI_CLI_HELP_KEYS_H
#define TRI_CLI_HELP_KEYS_H

#include "cli/topics.h"

#include <stdbool.h>
#include <stdio.h>

/* Prints the keys that a word means, in every kind of file that has them: the key of that full name ("optimizer.lr"),
 * the keys of that section ("optimizer"), or the keys of that last name ("lr"). Returns how many were printed. */
int tri_help_keys(const char *word, FILE *to);

/* Prints all keys of a kind of file: on a terminal as paragraphs of its width, elsewhere each in one line. */
void tri_help_topic(const tri_topic *topic, FILE *to);

/* Finds the key of any kind of file whose name is nearest to a word that is not a key, and sets name[128] to its name.
 * Returns false if none is near. */
bool tri_help_nearest_key(const char *word, char name[128]);

#endif
