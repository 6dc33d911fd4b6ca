/* Prompt lookup: the guess is what followed the last time that a sequence's last tokens stood in it. */
#ifndef TRI_GENERATION_LOOKUP_H
#define TRI_GENERATION_LOOKUP_H

#include "generation/guess.h"

extern const tri_guesser tri_lookup_guesser;

/* Up to `most` tokens behind the newest earlier place of the last 4 tokens, or else 3, or 2. Returns how many. */
int64_t tri_lookup(const int32_t *ids, int64_t count, int64_t most, int32_t *out);

#endif
