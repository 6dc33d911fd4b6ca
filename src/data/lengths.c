#include "data/lengths.h"

/* Returns the number of buckets of a power of two. */
static int parts_of(int power) { return power < 4 ? 1 << power : TRI_LENGTH_PARTS; }

static int bucket_of(int64_t length) {
  int power = 63 - __builtin_clzll((uint64_t)length);
  int64_t behind = length - (INT64_C(1) << power);
  return power * TRI_LENGTH_PARTS + (int)(behind >> (power < 4 ? 0 : power - 4));
}

int64_t tri_length_bucket_from(int bucket) {
  int power = bucket / TRI_LENGTH_PARTS, part = bucket % TRI_LENGTH_PARTS;
  if (power == TRI_LENGTH_POWERS) return INT64_MAX;
  if (part >= parts_of(power)) return tri_length_bucket_from((power + 1) * TRI_LENGTH_PARTS);
  return (INT64_C(1) << power) + ((int64_t)part << (power < 4 ? 0 : power - 4));
}

static tri_status count_length(void *context, int64_t first, int64_t length) {
  (void)first;
  tri_lengths *to = context;
  tri_length_bucket *bucket = &to->buckets[bucket_of(length)];
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
