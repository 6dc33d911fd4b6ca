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
  bool b_passing;  /* b is there only now and then, so nobody packs it ahead; means nothing to matmul */
  bool accumulate; /* never together with bias */
  bool bias;
} tri_matmul;

/* Some queries and the keys that they see: query i of the slice sees all of its keys, or, where causal, keys 0 .. keys
 * - queries + i of them, none for the first queries of a slice with fewer keys than queries. Rows are those of the
 * arrays that a call is given; a slice of no queries or of no keys says nothing. Lists of them lie in device memory:
 * documents differ from batch to batch. */
typedef struct tri_attention_slice {
  int32_t first_query, queries, first_key, keys;
  int32_t causal; /* 0 or 1 */
} tri_attention_slice;

/* Exact causal self-attention. Query i of `queries` sees keys 0 .. keys - queries + i: in training queries == keys, in
 * generation the keys of earlier positions come from a cache. Head h uses key/value head h / (heads / kv_heads).
 * The element of query head h, position t, batch b, component d is q[b * q_batch + t * q_position + h * head_dim + d];
 * likewise k and v with their strides and kv head. `out` and its gradient are dense [B, queries, H, D]. */
typedef struct tri_attention {
  tri_dtype type;
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t q_batch, q_position, k_batch, k_position, v_batch, v_position; /* strides in elements */
  double scale;                                                          /* 1 / sqrt(head_dim)  */
} tri_attention;

/* Which of the two formulas (kernels.h). */
typedef enum tri_gelu { TRI_GELU_TANH, TRI_GELU_ERF } tri_gelu;

typedef struct tri_device_description tri_device_description;
struct tri_device_description {
  void *facts; /* of the kind of device; not owned */
  int threads; /* of a device that shares its work out over them, else 1 */

  /* Bytes of scratch memory that a product wants (0 is common). */
  tri_status (*matmul_workspace)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* Bytes of a packed b for this product (its lda, ldc and m guide the choice of the layout), or 0 where packing is
   * not supported or does not pay: matmul_pack then must not be called, and matmul takes b plain, in b_type or wide. */
  tri_status (*matmul_packed)(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
  /* Bytes of scratch for both directions. Never grows with queries x keys. */
  tri_status (*attention_workspace)(const tri_device_description *of, const tri_attention *call, size_t *bytes);
};

#endif
