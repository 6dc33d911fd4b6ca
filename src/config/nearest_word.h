/* Suggestions for an unknown word. */
#ifndef TRI_CONFIG_NEAREST_WORD_H
#define TRI_CONFIG_NEAREST_WORD_H

#include <stddef.h>

/* Returns the candidate that an unknown word probably means: the one that another program calls by this word
 * (name_aliases.h), else the one that is nearest in spelling. Returns NULL if no candidate is near enough, or if the
 * word has more than 255 bytes. */
const char *tri_nearest_word(const char *word, const char *const *candidates, size_t count);
/* Returns the candidate that another program calls by this word; NULL if there is none. */
const char *tri_known_word(const char *word, const char *const *candidates, size_t count);

#endif
