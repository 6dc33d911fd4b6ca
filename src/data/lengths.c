#include "data/lengths.h"

static tri_status count_length(void *context, int64_t first, int64_t length) {
  (void)first;
  tri_lengths *to = context;
  tri_length_bucket *bucket = &to->buckets[63 - __builtin_clzll((uint64_t)length)];
  bucket->documents++;
  bucket->tokens += length;
  to->documents++;
  to->tokens += length;
  if (to->shortest == 0 || length < to->shortest) to->shortest = length;
  if (length > to->longest) to->longest = length;
  return TRI_OK;
}

tri_status tri_lengths_count(const tri_documents *documents, tri_lengths *out) {
  tri_lengths lengths = {0};
  TRI_TRY(tri_documents_walk(documents, count_length, &lengths));
  *out = lengths;
  return TRI_OK;
}
