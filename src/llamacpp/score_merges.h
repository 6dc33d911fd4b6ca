/* The merges of a SentencePiece vocabulary whose file has a score for each token in place of a list of merges.
 *
 * llama.cpp merges two adjacent parts of a text if a token spells both together; it begins with the highest score, and
 * of equal ones with the leftmost pair. The list with the same result has all pairs of tokens that spell a token, by
 * falling score of this token. */
#ifndef TRI_LLAMACPP_SCORE_MERGES_H
#define TRI_LLAMACPP_SCORE_MERGES_H

#include "base/status.h"
#include "tokenizer/vocabulary.h"

/* A list of more merges is refused, since it would need gigabytes; Gemma's 256,000 tokens have 0.6 million. */
enum { TRI_LLAMACPP_MOST_MERGES = 1 << 22 };

/* LOCAL. Adds the merges to a vocabulary, whose tokens with `learnt` can be parts and results. `scores`: by id, numbers
 * and not NaN; of tokens with equal scores the one with the lower id comes first. `name`: file, for messages. Fails
 * with TRI_UNSUPPORTED for a token of more than 1024 bytes and for too many merges. */
tri_status tri_llamacpp_add_score_merges(const char *name, const double *scores, tri_vocabulary *vocabulary);

#endif
