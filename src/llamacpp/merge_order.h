/* The order of merges in llama.cpp for a vocabulary of characters ("llama"), which has a score for each token in place
 * of a list of merges.
 *
 * llama.cpp merges two adjacent parts of a text if any token spells both together. It begins with the token of the
 * highest score, and of equal ones with the leftmost. A tokenizer.json merges only the pairs of its list, in its order.
 *
 * A token is *made* if the merges of the file make one token of its characters. The last of these merges is the only
 * one that makes it in any text: before it, the same merges happen inside of the token's text as in that text alone,
 * since no merge reaches across the ends of a part. Therefore the rank of this merge gives the score, and llama.cpp's
 * ids equal those of the file for all texts if it makes the same tokens of the texts of all tokens. */
#ifndef TRI_LLAMACPP_MERGE_ORDER_H
#define TRI_LLAMACPP_MERGE_ORDER_H

#include "base/status.h"
#include "tokenizer/vocabulary.h"

#include <jansson.h>
#include <stdbool.h>

/* LOCAL. Reads tokens, as they are spelled in the file, and merges of the "model" of a tokenizer.json, which the
 * tokenizer's own reader has checked. Release *out with tri_vocabulary_release, also after a failure. */
tri_status tri_llamacpp_read_merges(const json_t *model, int64_t size, tri_vocabulary *out);

/* The tokens of a GGUF file and their scores. */
typedef struct tri_llamacpp_scored {
  tri_vocabulary texts; /* without merges */
  const float *scores;  /* by id */
} tri_llamacpp_scored;

/* The result of merging the characters of a text as far as possible. */
typedef struct tri_llamacpp_merging {
  bool made;         /* whether one token remains */
  float score;       /* score of the last merge, if there was one: -1 - its rank, or the token's score */
  size_t left_bytes; /* bytes of the left part of the last merge */
} tri_llamacpp_merging;

/* LOCAL. Merge the characters of a text (UTF-8, bytes > 0) with the merges of a file, and as llama.cpp does. Fail with
 * TRI_UNSUPPORTED for a text of more than 1024 characters. */
tri_status tri_llamacpp_merge_by_list(const tri_vocabulary *file, const char *text, size_t bytes,
                                      tri_llamacpp_merging *out);
tri_status tri_llamacpp_merge_by_score(const tri_llamacpp_scored *scored, const char *text, size_t bytes,
                                       tri_llamacpp_merging *out);

#endif
