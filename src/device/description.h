/* The memory that a device needs for a call in addition to its operands: scratch memory, and packed weights. Plans use
 * it for devices that this machine does not have, so it works without a device. */
#ifndef TRI_DEVICE_DESCRIPTION_H
#define TRI_DEVICE_DESCRIPTION_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A GEMM: c[m,n] (+)= a[m,k] * b[k,n] (+ bias[n]), accumulated in fp32 or better. a is stored [m,k] with leading
 * dimension lda, or, if a_transposed, [k,m]; b is stored [k,n], or, if b_transposed, [n,k]. `bias` is wide. With
 * b_packed, b is a buffer that matmul_pack filled and ldb is ignored. */
typedef struct tri_matmul {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  tri_dtype a_type, b_type, c_type;
  bool a_transposed, b_transposed;
  bool b_packed;
  bool b_unpacked; /* whether b is never packed before the GEMM, since b does not stay in memory; the kernel matmul
                      ignores this member */
  bool generating; /* whether the GEMM is in a list for generation: it usually has few rows, and the result of a row
                      should not depend on their number. A device may use other kernels and another packed form of b */
  bool accumulate; /* whether the result is added to c; never together with bias */
  bool bias;
} tri_matmul;

/* GEMMs of groups of rows, each with its own matrix: the rows of an expert with the expert's matrix. Rows [begins[g],
 * begins[g + 1]) belong to group g; begins[groups + 1] ascends from 0 and is in device memory. Rows from begins[groups]
 * on are neither read nor written.
 *
 * As a product, for each g: c[its rows, n] = a[its rows, k] b_g. As a gradient: c_g (+)= a[its rows, m]^T b[its rows,
 * n]; a group without rows gives zeros unless accumulating.
 *
 * The result of a row depends only on the row and on b_g, not on the row's index or on other rows. The order of the sum
 * over the rows of a group depends on their number, not on their position. So other groups do not change any bit. */
typedef struct tri_grouped_matmul {
  tri_matmul product; /* GEMM of one group, without bias. m, in a gradient k, is the maximum number of rows of all
                         groups together; a_transposed is set in a gradient */
  int64_t groups;
  int64_t stride; /* distance between the matrices of two groups, b in a product and c in a gradient, in elements; in
                     bytes if b is packed */
} tri_grouped_matmul;

/* Some queries, and the band of keys to which they attend: query i of the slice attends to the slice's keys i + from
 * .. i + to, if they exist. first_query and first_key are rows of the arrays of the call. A slice without queries or
 * keys is ignored. */
typedef struct tri_attention_slice {
  int32_t first_query, queries, first_key, keys;
  int32_t from, to; /* from <= to; from <= -queries or to >= keys: no limit on that side */
} tri_attention_slice;

/* Returns a slice in which each query attends to each key. */
static inline tri_attention_slice tri_slice_full(int64_t first_query, int64_t queries, int64_t first_key,
                                                 int64_t keys) {
  return (tri_attention_slice){(int32_t)first_query, (int32_t)queries,  (int32_t)first_key,
                               (int32_t)keys,        (int32_t)-queries, (int32_t)keys};
}

/* Returns a slice in which the last query attends to all keys, and each other query to one key less than the next. If
 * there are fewer keys than queries, the first queries have no keys. */
static inline tri_attention_slice tri_slice_causal(int64_t first_query, int64_t queries, int64_t first_key,
                                                   int64_t keys) {
  tri_attention_slice slice = tri_slice_full(first_query, queries, first_key, keys);
  slice.to = (int32_t)(keys - queries);
  return slice;
}

/* Returns a causal slice in which each query attends only to the last `window` of its keys; `window` may be more than
 * `keys`. */
static inline tri_attention_slice tri_slice_window(int64_t first_query, int64_t queries, int64_t first_key,
                                                   int64_t keys, int64_t window) {
  tri_attention_slice slice = tri_slice_causal(first_query, queries, first_key, keys);
  if (window < keys) slice.from = (int32_t)(slice.to - window + 1);
  return slice;
}

/* How logits are computed from the products of the output projection: scale product; with a soft cap, soft_cap
 * tanh(scale product / soft_cap), whose magnitude is below soft_cap (Gemma 2, arXiv 2408.00118, section 2). soft_cap 0:
 * no cap. */
typedef struct tri_logit_form {
  double scale, soft_cap;
} tri_logit_form;

/* Exact attention over a list of slices. A query attends to the keys of all slices that contain it, but no key may be
 * in two of them. Slices express masks of documents, parts of a sequence, blocks of keys that are processed one after
 * the other, windows, and caches of unequal length. A query without keys has out 0 and log_sum_exp -infinity.
 *
 * The list is in device memory, since it differs from batch to batch; this struct has what memory plans need. Element d
 * of head h of row r of q is q[r * q_row + h * q_head + d]; k and v, of key/value head h / (heads / kv_heads), and out
 * have their own strides. Gradients have the strides of their arrays. log_sum_exp is [heads, query_rows].
 *
 * The terms of a query from several slices are summed in the order of the list; the terms of a key, in an order that
 * depends only on the call and the list. Both sums are in the wide type or better, and rounded once. With `merge` or
 * `accumulate`, the partial sums between calls are stored in out and the gradients; hence these have types of their
 * own. */
typedef struct tri_attention {
  tri_dtype type;                    /* type of q, k, v and the gradient of out */
  tri_dtype out_type, gradient_type; /* type of out, and of the gradients of q, k and v: `type` or wide */
  int64_t heads, kv_heads, head_dim;
  double scale;                 /* score = scale q k; usually 1 / sqrt(head_dim) */
  double soft_cap;              /* if not 0: score = soft_cap tanh(scale q k / soft_cap) */
  int64_t query_rows, key_rows; /* rows of q and out; rows of k and v */
  int64_t q_row, q_head, k_row, k_head, v_row, v_head, out_row, out_head; /* strides in elements */

  /* Maximum number of slices of a list, and of queries and keys of a slice. A workspace for these numbers also serves a
   * call with fewer slices, and in the forward also a call with smaller slices. */
  int64_t num_slices, most_queries, most_keys;
  /* Whether a query, or a key, may be in several slices. If not, slices that are not empty must be in ascending order;
   * they run in parallel, which is faster. */
  bool shares_queries, shares_keys;

  /* Whether the queries have keys in other calls, too. The forward then updates out and log_sum_exp, which have the
   * results of earlier calls (0 and -infinity if there were no keys so far); queries in no slice are not changed. In
   * the backward, out and log_sum_exp are the results over the keys of all calls. */
  bool merge;
  bool accumulate; /* whether the backward adds to the gradients of q, k and v; false: it overwrites all of their
                      rows */

  /* Whether keys are in pages (kernels.def), only for attention_pages and append_keys. key_rows and first_key then
   * count the rows of the table of pages, and k_row ... v_head are the strides of the rows that are appended. */
  bool paged;
} tri_attention;

/* Number of rows of a page of keys and values. */
enum { TRI_PAGE_ROWS = 64 };

/* Checks the numbers of a call. Fails with TRI_INTERNAL if they are not legal. */
tri_status tri_attention_check(const tri_attention *call);
/* Checks a call and its list, slices[call->num_slices], which the host can read. Fails with TRI_INTERNAL if they are
 * not legal. Sets *live to the number of slices up to the last one that is not empty. */
tri_status tri_attention_slices_check(const tri_attention *call, const tri_attention_slice *slices, int64_t *live);

typedef struct tri_device_description tri_device_description;
struct tri_device_description {
  void *facts;      /* data of the kind of device, which owns it */
  int threads;      /* number of threads, if the device divides its work over threads, else 1 */
  bool packs_plain; /* whether a packed b differs from the dense one only in its type, b_type, and not in its layout, so
                       that one packed b serves all GEMMs of a weight */

  size_t queue_bytes; /* device memory that the queue of kernels holds as long as the device exists */

  /* Computes the bytes of scratch memory of a GEMM (often 0). */
  tri_status (*matmul_workspace)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* Computes the bytes of a packed b for this GEMM (its lda, ldc and m influence the layout); 0 if packing is not
   * supported or not useful: then matmul_pack must not be called, and matmul reads b unpacked, in b_type or wide. */
  tri_status (*matmul_packed)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* Computes the bytes of scratch memory of GEMMs in groups. For packing call matmul_packed for the b of one group,
   * with m the maximum number of rows of a group. */
  tri_status (*grouped_workspace)(const tri_device_description *of, const tri_grouped_matmul *product, size_t *bytes);
  /* Computes the bytes of scratch memory for both forward and backward. They do not grow with queries * keys. */
  tri_status (*attention_workspace)(const tri_device_description *of, const tri_attention *call, size_t *bytes);
};

/* Rough descriptions for planning without the device (description.c): an accelerator with its own memory and a library
 * of GEMMs, and a CPU. */
extern const tri_device_description tri_description_accelerator, tri_description_cpu;

#endif
