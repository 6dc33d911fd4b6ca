/* `trireme help KEY`: prints a single key, the keys of a section, or all keys of a file. */
#ifndef TRI_CLI_HELP_KEYS_H
#define TRI_CLI_HELP_KEYS_H

#include "cli/topics.h"

#include <stdbool.h>
#include <stdio.h>

/* Prints the keys that a word means, in every kind of file that has them. They are the key with this full name
 * ("optimizer.lr"), or the section with this name and its keys ("optimizer"). If no file has such a key or section,
 * they are the keys whose names end in the word ("lr" for "optimizer.lr"). Returns the number of printed keys. */
int tri_help_keys(const char *word, FILE *to);

/* Prints all keys of a kind of file. On a terminal each key is a paragraph of the terminal's width; elsewhere each key
 * is one line. */
void tri_help_topic(const tri_topic *topic, FILE *to);

/* Finds the key that is nearest to a word, among the keys of all kinds of files, and sets name[128] to its name. Sets
 * `name` to "" and returns false if no key is near. */
bool tri_help_nearest_key(const char *word, char name[128]);

#endif
