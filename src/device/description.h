/* What a device wants for a call beside its operands: scratch memory, weights in a layout of its own. A plan asks this
 * of a device that is not there, so it is answered without one. */
#ifndef TRI_DEVICE_DESCRIPTION_H
#define TRI_DEVICE_DESCRIPTION_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c[m,n] (+)= a[m,k] * b[k,n] (+ bias[n]), accumulated in fp32 or better.
 * a is stored [m,k] with leading dimension lda, or, if a_transposed, [k,m]; b is stored [k,n], or, if b_transposed,
 * [n,k]. `bias` is wide. With b_packed, b is a buffer that matmul_pack filled and ldb is ignored. */
typedef struct tri_matmul {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  tri_dtype a_type, b_type, c_type;
  bool a_transposed, b_transposed;
  bool b_packed;
  bool b_unpacked; /* b is there only at times, so it is never packed ahead; means nothing to matmul */
  bool generating; /* of a list that generates text: few rows, as a rule, and what becomes of one should not depend on
                      how many there are. A device may have other kernels and another packed b for that */
  bool accumulate; /* never together with bias */
  bool bias;
} tri_matmul;

/* Products of rows that lie in groups, each with a matrix of its own: the rows of an expert with the expert's. Rows
 * [begins[g], begins[g + 1]) are those of group g; begins[groups + 1] ascends from 0 and lies in device memory. Rows
 * from begins[groups] on are neither read nor written.
 *
 * As a product, for each g: c[its rows, n] = a[its rows, k] b_g. As a gradient: c_g (+)= a[its rows, m]^T b[its rows,
 * n], zeros for a group of no rows unless accumulating.
 *
 * What a row becomes depends on the row and on b_g alone, not on the row's number, nor on other rows; the sum over the
 * rows of a group is made in an order that depends on how many they are, not on where they lie. So it changes no bit
 * what other groups there are. */
typedef struct tri_grouped_matmul {
  tri_matmul product; /* of one group. As a product: m is the most rows of all groups together; as a gradient, k is, and
                         a_transposed is set. No bias */
  int64_t groups;
  int64_t stride; /* from one group's matrix to the next one's, in elements: of b in a product, of c in a gradient.
                     Packed (b_packed): in bytes */
} tri_grouped_matmul;

/* Some queries and the keys that they see: query i of the slice sees its keys i + from .. i + to, those of them that
 * there are: a band. Numbers of rows are of the arrays that a call is given; a slice of no queries or of no keys says
 * nothing. */
typedef struct tri_attention_slice {
  int32_t first_query, queries, first_key, keys;
  int32_t from, to; /* from <= to; what lies beyond -queries and keys is not an edge at all */
} tri_attention_slice;

/* Each query sees each key. */
static inline tri_attention_slice tri_slice_full(int64_t first_query, int64_t queries, int64_t first_key,
                                                 int64_t keys) {
  return (tri_attention_slice){(int32_t)first_query, (int32_t)queries,  (int32_t)first_key,
                               (int32_t)keys,        (int32_t)-queries, (int32_t)keys};
}

/* The last query sees each key, and every other one key less than the next: none, where there are fewer keys than
 * queries, the first of them. */
static inline tri_attention_slice tri_slice_causal(int64_t first_query, int64_t queries, int64_t first_key,
                                                   int64_t keys) {
  tri_attention_slice slice = tri_slice_full(first_query, queries, first_key, keys);
  slice.to = (int32_t)(keys - queries);
  return slice;
}

/* Of those the last `window`, which may be more than there are. */
static inline tri_attention_slice tri_slice_window(int64_t first_query, int64_t queries, int64_t first_key,
                                                   int64_t keys, int64_t window) {
  tri_attention_slice slice = tri_slice_causal(first_query, queries, first_key, keys);
  if (window < keys) slice.from = (int32_t)(slice.to - window + 1);
  return slice;
}

/* What logits are made of the products of the output: scale times them, and with a cap soft_cap tanh(scale product /
 * soft_cap), which never goes beyond it (Gemma 2, arXiv 2408.00118, section 2). scale 1 and soft_cap 0: the products.
 */
typedef struct tri_logit_form {
  double scale, soft_cap;
} tri_logit_form;

/* Exact attention over a list of slices. A query sees the keys of all slices that name it, no key through two of them:
 * so masks of documents, shares of a sequence, blocks of keys that come one after the other, windows, and caches of
 * unequal length are all said. A query that sees nothing has out 0 and log_sum_exp -infinity.
 *
 * The list lies in device memory, since it differs from batch to batch; what memory is planned by is here. The element
 * of row r of q, head h, component d is q[r * q_row + h * q_head + d]; the same for k and v, of key/value head h /
 * (heads / kv_heads), and out, each with its strides. Gradients have the strides of what they are of. log_sum_exp is
 * [heads, query_rows].
 *
 * What a query gets from the slices that name it is summed in the order of the list, and what a key gets in an order
 * that depends on the call and the list alone; both in the wide type or better, and rounded once. Where `merge` or
 * `accumulate` join several calls, that is done with what the call before had stored: hence the types of out and of the
 * gradients. */
typedef struct tri_attention {
  tri_dtype type;                    /* of q, k, v and the gradient of out                                       */
  tri_dtype out_type, gradient_type; /* of out, and of the gradients of q, k and v: `type` or wide               */
  int64_t heads, kv_heads, head_dim;
  double scale;                 /* score = scale q k, 1 / sqrt(head_dim) as a rule ...        */
  double soft_cap;              /* ... and where this is not 0, soft_cap tanh(score / soft_cap) */
  int64_t query_rows, key_rows; /* of q and out; of k and v             */
  int64_t q_row, q_head, k_row, k_head, v_row, v_head, out_row, out_head; /* strides in elements                  */

  /* The most that a list may have. A workspace serves the call that it was asked for and one with fewer slices; the
   * forward also one with less. */
  int64_t num_slices, most_queries, most_keys;
  /* Whether a query, or a key, may be named by several slices. Where not, slices (those that say something) ascend:
   * they run side by side, and this is the fast way. */
  bool shares_queries, shares_keys;

  /* The queries see more keys than these slices say. The forward finds in out and log_sum_exp what calls before gave
   * the queries (0 and -infinity: nothing) and brings both up to date; queries that no slice names stay as they are. To
   * the backward it says that out and log_sum_exp are of all those keys. */
  bool merge;
  bool accumulate; /* the backward adds to the gradients of q, k and v; else it writes all rows of them */
} tri_attention;

/* What makes no sense, by its numbers. */
tri_status tri_attention_check(const tri_attention *call);
/* The same of a list that the host can read, as kernels on the host do. *live is one behind the last slice that says
 * anything. */
tri_status tri_attention_slices_check(const tri_attention *call, const tri_attention_slice *slices, int64_t *live);

/* Which of the two formulas (kernels.h). */
typedef struct tri_device_description tri_device_description;
struct tri_device_description {
  void *facts;      /* of the kind of device; not owned */
  int threads;      /* of a device that shares its work out over them, else 1 */
  bool packs_plain; /* a packed b is the plain matrix in b_type, as `product` says: one serves all products of a weight
                     */

  size_t queue_bytes; /* of its memory, that the queue of kernels holds for itself as long as the device is there */

  /* Bytes of scratch memory that a product wants (0 is common). */
  tri_status (*matmul_workspace)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* Bytes of a packed b for this product (its lda, ldc and m guide the choice of the layout), or 0 where packing is
   * not supported or does not pay: matmul_pack then must not be called, and matmul takes b plain, in b_type or wide. */
  tri_status (*matmul_packed)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* The same of products in groups; matmul_packed is asked for one group's b, whose m is what a group may have at most.
   */
  tri_status (*grouped_workspace)(const tri_device_description *of, const tri_grouped_matmul *product, size_t *bytes);
  /* Bytes of scratch for both directions. Never grows with queries x keys. */
  tri_status (*attention_workspace)(const tri_device_description *of, const tri_attention *call, size_t *bytes);
};

/* Of a kind of device that is not at hand, in round figures (description.c): one with memory of its own and a
 * library of matrix products, and a CPU. */
extern const tri_device_description tri_description_accelerator, tri_description_cpu;

#endif
