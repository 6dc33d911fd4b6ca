/* Quotes words of commands that a message proposes, so that a shell reads each as one word without changes. */
#ifndef TRI_FILES_SHELL_WORD_H
#define TRI_FILES_SHELL_WORD_H

#include "files/file.h"

/* Bytes of the longest quoted path: two quotes, four bytes for each quote in the path, and the NUL. */
enum { TRI_SHELL_WORD_BYTES = 4 * TRI_PATH_BYTES + 3 };

/* Returns `word` if no shell interprets its characters, else the word in single quotes, in `out`. A word that is
 * longer than a path is returned as it is. */
const char *tri_shell_word(const char *word, char out[TRI_SHELL_WORD_BYTES]);

#endif
