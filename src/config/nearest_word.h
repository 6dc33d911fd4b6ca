/* Suggestions for a word that is not one of the known ones. */
#ifndef TRI_CONFIG_NEAREST_WORD_H
#define TRI_CONFIG_NEAREST_WORD_H

#include <stddef.h>

/* The candidate that was probably meant by an unknown word: the one that another program calls so (name_aliases.h),
 * else the nearest in spelling; NULL if none is near enough. */
const char *tri_nearest_word(const char *word, const char *const *candidates, size_t count);
/* Only what another program calls so; NULL if there is none. */
const char *tri_known_word(const char *word, const char *const *candidates, size_t count);

#endif
