/* Exact attention that never stores all scores [queries, keys] (kernels/attention.c). */
#ifndef TRI_DEVICE_GPU_KERNELS_ATTENTION_H
#define TRI_DEVICE_GPU_KERNELS_ATTENTION_H

#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_attention(K)                                                                                   \
  K(attention_forward_narrow, 128)                                                                                     \
  K(attention_forward_wide, 128)                                                                                       \
  K(attention_row_sums, 256)                                                                                           \
  K(attention_queries_narrow, 128)                                                                                     \
  K(attention_queries_wide, 128)                                                                                       \
  K(attention_keys_narrow, 128)                                                                                        \
  K(attention_keys_wide, 128)
enum { TRI_GPU_KERNELS_attention(TRI_GPU_THREADS) };

/* ATTENTION_OWN: rows of a block's own tile (queries; keys in attention_keys). ATTENTION_KEYS: keys of a tile in the
 * forward; with fp64 a tile has half as many. ATTENTION_OTHERS: rows of a tile of the other side in the backward.
 * ATTENTION_PAGE: rows of a page. */
enum { ATTENTION_OWN = 64, ATTENTION_KEYS = 64, ATTENTION_OTHERS = 16, ATTENTION_PAGE = 64 };
/* Bytes of a row of a tile, for the narrow and the wide kernels. A longer head is processed in several chunks. */
enum { ATTENTION_NARROW = 128, ATTENTION_WIDE = 256 };
/* A block's shared memory has three parts: the tiles; ATTENTION_FOUND_BYTES for finding slices; and a fragment_scratch
 * (fragment.h) for every 16 own rows, which bf16 with warps of 32 does not need. ATTENTION_FORWARD_ROWS and
 * ATTENTION_BACKWARD_ROWS: number of rows of all tiles together; each row is padded by 16 bytes. */
enum {
  ATTENTION_FORWARD_ROWS = ATTENTION_OWN + 2 * ATTENTION_KEYS,
  ATTENTION_BACKWARD_ROWS = 2 * ATTENTION_OWN + 4 * ATTENTION_OTHERS,
  ATTENTION_FOUND_BYTES = 64
};

/* The same as tri_attention_slice. */
typedef struct attention_slice {
  int32_t first_query, queries, first_key, keys;
  int32_t from, to;
} attention_slice;

/* Arguments of all attention kernels except attention_row_sums; tri_attention (device/description.h) explains them. */
typedef struct attention_arguments {
  const attention_slice *slices;
  const int32_t *pages; /* pages of keys and values, ATTENTION_PAGE rows each; NULL: rows are contiguous */
  const void *q, *k, *v;
  void *out, *log_sum_exp;         /* log_sum_exp [heads, query_rows]; may be NULL in a forward without merge */
  const void *gradient_out, *sums; /* backward only, like the next three members; sums [heads, query_rows]: D of
                                      attention_backward.h */
  void *gradient_q, *gradient_k, *gradient_v;
  int64_t q_row, q_head, k_row, k_head, v_row, v_head, out_row, out_head; /* strides of rows and heads, in elements */
  double scale;       /* scale of scores, and so of gradients of q and k */
  double unit, share; /* without a soft cap: score = unit q k, and share is 0. With a soft cap: score = unit tanh(share
                       * q k) */
  int32_t num_slices, query_rows, key_rows, heads, group, head_dim; /* group: query heads per key/value head */
  int32_t out_is_wide, gradient_is_wide, merge, accumulate;
} attention_arguments;

typedef attention_arguments attention_forward_narrow_arguments;
typedef attention_arguments attention_forward_wide_arguments;
typedef attention_arguments attention_queries_narrow_arguments;
typedef attention_arguments attention_queries_wide_arguments;
typedef attention_arguments attention_keys_narrow_arguments;
typedef attention_arguments attention_keys_wide_arguments;

/* sums[h, row] = sum over d of out[row, h, d] * gradient_out[row, h, d], wide. */
typedef struct attention_row_sums_arguments {
  const void *out, *gradient_out;
  void *sums;
  int64_t rows, heads, row, head, head_dim; /* row and head: strides */
  int32_t out_is_wide;
  int32_t no_padding;
} attention_row_sums_arguments;

#endif
