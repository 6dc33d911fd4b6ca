/* The lengths of a corpus's documents, counted in buckets. */
#ifndef TRI_DATA_LENGTHS_H
#define TRI_DATA_LENGTHS_H

#include "data/documents.h"

/* Number of buckets. From 32 on, the lengths from one power of two to the next share TRI_LENGTH_PARTS buckets; each
 * length up to 31 has its own bucket. */
enum { TRI_LENGTH_POWERS = 63, TRI_LENGTH_PARTS = 16, TRI_LENGTH_BUCKETS = TRI_LENGTH_POWERS * TRI_LENGTH_PARTS };

/* The documents whose length is in one bucket. */
typedef struct tri_length_bucket {
  int64_t documents, tokens;
} tri_length_bucket;

typedef struct tri_lengths {
  int64_t documents, tokens, shortest, longest;
  tri_length_bucket buckets[TRI_LENGTH_BUCKETS];
} tri_lengths;

/* Returns the shortest length of a bucket; for a bucket to which no length belongs, the next power of two; for
 * TRI_LENGTH_BUCKETS, INT64_MAX. */
int64_t tri_length_bucket_from(int bucket);

/* Counts the lengths of all documents. */
tri_status tri_lengths_count(const tri_documents *documents, tri_lengths *out);

#endif
