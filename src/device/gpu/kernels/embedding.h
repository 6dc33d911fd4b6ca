/* Rows of tables, and sums over the rows that name one: kernels/embedding.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_EMBEDDING_H
#define TRI_DEVICE_GPU_KERNELS_EMBEDDING_H

#include <stdint.h>

#define TRI_GPU_KERNELS_embedding(K)                                                                                   \
  K(embedding_forward, 256)                                                                                            \
  K(embedding_sort, 256)                                                                                               \
  K(embedding_merge, 256)                                                                                              \
  K(embedding_sum, 128)                                                                                                \
  K(embedding_join, 256)

enum {
  embedding_forward_threads = 256,
  embedding_sort_threads = 256,
  embedding_merge_threads = 256,
  embedding_sum_threads = 128,
  embedding_join_threads = 256
};

enum {
  EMBEDDING_TILE = 1024,     /* keys that a block sorts at once, a power of two */
  EMBEDDING_TILE_BITS = 10,  /* its logarithm */
  EMBEDDING_WAYS = 8,        /* sorted stretches that become one in a merge, a power of two */
  EMBEDDING_WAYS_BITS = 3,   /* its logarithm */
  EMBEDDING_WINDOW = 64,     /* keys whose rows a block sums */
  EMBEDDING_JOIN_LANES = 32, /* threads side by side on the columns of a join; several such groups share the rows */
  EMBEDDING_PAD = 8          /* partial sums are a multiple of this many columns wide */
};

typedef struct embedding_forward_arguments {
  const int32_t *ids;
  const void *table, *position_table; /* the latter or NULL */
  const int32_t *positions;
  void *out;
  int64_t capacity, width, first_id, table_rows;
  const int32_t *count;
  int32_t narrow; /* the table is of elements, and not wide */
  int32_t no_padding;
} embedding_forward_arguments;

/* Rows first .. first + piece - 1 of those that are there: what one round of kernels adds to the table. */
typedef struct embedding_piece {
  int64_t capacity, first, piece;
  const int32_t *count;
} embedding_piece;

/* `ids` begins at the first row of the piece. */
typedef struct embedding_sort_arguments {
  embedding_piece rows;
  const int32_t *ids;
  uint64_t *keys;
  int64_t first_id, table_rows;
} embedding_sort_arguments;

/* Stretches of 2^run_bits keys are sorted. */
typedef struct embedding_merge_arguments {
  embedding_piece rows;
  const uint64_t *in;
  uint64_t *out;
  int64_t run_bits;
} embedding_merge_arguments;

/* `gradient` begins at the first row of the piece. partial[windows, 2, stride] is wide. */
typedef struct embedding_sum_arguments {
  embedding_piece rows;
  const uint64_t *keys;
  const void *gradient;
  void *table, *partial;
  int64_t width, stride;
} embedding_sum_arguments;

typedef struct embedding_join_arguments {
  embedding_piece rows;
  const uint64_t *keys;
  const void *partial;
  void *table;
  int64_t width, stride;
} embedding_join_arguments;

#endif
