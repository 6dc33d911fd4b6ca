/* Prompt lookup: guesses the tokens that followed the most recent earlier occurrence of the sequence's last tokens. */
#ifndef TRI_GENERATION_LOOKUP_H
#define TRI_GENERATION_LOOKUP_H

#include "generation/guess.h"

extern const tri_proposer tri_lookup_proposer;

/* Finds the newest earlier occurrence of the last 4 tokens, else 3, else 2, and writes up to `most` tokens that follow
 * it. Returns their number. */
int64_t tri_lookup(const int32_t *ids, int64_t count, int64_t most, int32_t *out);

#endif
