/* How long the documents of a corpus are. */
#ifndef TRI_DATA_LENGTHS_H
#define TRI_DATA_LENGTHS_H

#include "data/documents.h"

/* Buckets of each power of two, or as many as it has lengths. */
enum { TRI_LENGTH_POWERS = 63, TRI_LENGTH_PARTS = 16, TRI_LENGTH_BUCKETS = TRI_LENGTH_POWERS * TRI_LENGTH_PARTS };

/* Those of one power of two lie side by side. */
typedef struct tri_length_bucket {
  int64_t documents, tokens;
} tri_length_bucket;

typedef struct tri_lengths {
  int64_t documents, tokens, shortest, longest;
  tri_length_bucket buckets[TRI_LENGTH_BUCKETS];
} tri_lengths;

/* The shortest length of a bucket; that of the next power of two for a bucket of no length. */
int64_t tri_length_bucket_from(int bucket);

tri_status tri_lengths_count(const tri_documents *documents, tri_lengths *out);

#endif
