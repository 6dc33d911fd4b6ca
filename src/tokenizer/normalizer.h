/* Unicode's normalization form C, the first step of some vocabularies (Qwen 2). */
#ifndef TRI_TOKENIZER_NORMALIZER_H
#define TRI_TOKENIZER_NORMALIZER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* A changed part of a text: bytes [from, to) of the source became bytes [begin, end) of the result. */
typedef struct tri_normal_part {
  size_t from, to, begin, end;
} tri_normal_part;

/* Scratch memory of one thread. Starts as {0}. */
typedef struct tri_normalizer {
  char *text; /* the normalized text */
  size_t length, room;
  int32_t *codes; /* two halves: code points, and space to sort them */
  size_t codes_room;
  tri_normal_part *parts; /* changed parts of the last text, in order; the text between them was copied */
  size_t num_parts, parts_room;
} tri_normalizer;

/* Sets *out to the text in normal form. It is the text itself if that is normal already, otherwise memory of the
 * normalizer that is valid until the next call. Bytes that are not UTF-8 do not change. */
tri_status tri_normalize(tri_normalizer *normalizer, const char *text, size_t bytes, const char **out,
                         size_t *out_bytes);
void tri_normalizer_release(tri_normalizer *normalizer);

#endif
