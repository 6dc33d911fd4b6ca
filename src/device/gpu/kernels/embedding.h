/* Look-up in tables, and its gradients: kernels/embedding.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_EMBEDDING_H
#define TRI_DEVICE_GPU_KERNELS_EMBEDDING_H

#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_embedding(K)                                                                                   \
  K(embedding_forward, 256)                                                                                            \
  K(embedding_sort, 256)                                                                                               \
  K(embedding_merge, 256)                                                                                              \
  K(embedding_sum, 128)                                                                                                \
  K(embedding_join, 256)
enum { TRI_GPU_KERNELS_embedding(TRI_GPU_THREADS) };

enum {
  EMBEDDING_TILE = 1024,     /* keys that a block sorts at once, a power of two */
  EMBEDDING_TILE_BITS = 10,  /* log2 of EMBEDDING_TILE */
  EMBEDDING_WAYS = 8,        /* number of sorted runs that a merge combines, a power of two */
  EMBEDDING_WAYS_BITS = 3,   /* log2 of EMBEDDING_WAYS */
  EMBEDDING_WINDOW = 64,     /* keys per block of the sum */
  EMBEDDING_JOIN_LANES = 32, /* threads of a group in embedding_join: they share columns, the groups share windows */
  EMBEDDING_PAD = 8          /* the width of partial sums is a multiple of this */
};

/* out[capacity, width] = table[ids - first_id] + position_table[positions]; rows without an id in the table get the
 * position alone. */
typedef struct embedding_forward_arguments {
  const int32_t *ids;
  const void *table, *position_table; /* position_table may be NULL */
  const int32_t *positions;
  void *out;
  int64_t capacity, width, first_id, table_rows;
  const int32_t *count;
  int32_t narrow; /* whether the table has elements instead of wide numbers */
  int32_t no_padding;
} embedding_forward_arguments;

/* The rows first .. first + piece - 1, limited to the existing rows. One round of kernels adds the gradients of these
 * rows to the table. */
typedef struct embedding_piece {
  int64_t capacity, first, piece;
  const int32_t *count;
} embedding_piece;

/* `ids` points to the first row of the piece. keys[piece]: the id minus first_id in the upper half, the row of the
 * piece in the lower one. */
typedef struct embedding_sort_arguments {
  embedding_piece rows;
  const int32_t *ids;
  uint64_t *keys;
  int64_t first_id, table_rows;
} embedding_sort_arguments;

/* Merges sorted runs of `in`, each of 2^run_bits keys, into runs of EMBEDDING_WAYS times that length. */
typedef struct embedding_merge_arguments {
  embedding_piece rows;
  const uint64_t *in;
  uint64_t *out;
  int64_t run_bits;
} embedding_merge_arguments;

/* `gradient` points to the first row of the piece. partial[windows, 2, stride] is wide. */
typedef struct embedding_sum_arguments {
  embedding_piece rows;
  const uint64_t *keys;
  const void *gradient;
  void *table, *partial;
  int64_t width, stride;
} embedding_sum_arguments;

/* table += the partial sums of ids that cross edges of windows; partial is wide, as in embedding_sum_arguments. */
typedef struct embedding_join_arguments {
  embedding_piece rows;
  const uint64_t *keys;
  const void *partial;
  void *table;
  int64_t width, stride;
} embedding_join_arguments;

#endif
