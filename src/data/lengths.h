/* How long the documents of a corpus are. */
#ifndef TRI_DATA_LENGTHS_H
#define TRI_DATA_LENGTHS_H

#include "data/documents.h"

enum { TRI_LENGTH_BUCKETS = 63 };

/* Those of 2^i to 2^(i + 1) - 1 tokens are in bucket i. */
typedef struct tri_length_bucket {
  int64_t documents, tokens;
} tri_length_bucket;

typedef struct tri_lengths {
  int64_t documents, tokens, shortest, longest;
  tri_length_bucket buckets[TRI_LENGTH_BUCKETS];
} tri_lengths;

tri_status tri_lengths_count(const tri_documents *documents, tri_lengths *out);

#endif
