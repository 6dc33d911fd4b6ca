/* The second GEMM of LoRA factors, y += u B^T, for operations that compute it themselves: the output projection, whose
 * logits are computed in chunks, and the embedding.
 *
 * u = scale h A^T of the output projection is an ordinary slot, computed by a `linear` call: the operation that
 * computes logits has u as an input, and B as a parameter. Under tensor parallelism B is split as the vocabulary is,
 * and every rank has all of A, whose gradients are partial sums. */
#ifndef TRI_OPS_LORA_UP_H
#define TRI_OPS_LORA_UP_H

#include "ops/weight.h"

enum {
  TRI_UP_B = 2,
  TRI_UP_U = 1
}; /* TRI_UP_B: index of B in a call's parameters; TRI_UP_U: index of u in its inputs or outputs, and of du in its
      outputs */

typedef struct tri_lora_up {
  tri_weight b; /* the factor B; b.in is the rank, and 0 if there are no factors */
} tri_lora_up;

/* Rows of y, which are in the wide type or in the activations' type; ld and gradient_ld are the leading dimensions of y
 * and of its gradient. */
typedef struct tri_up_rows {
  int64_t rows, ld, gradient_ld;
  bool wide;
} tri_up_rows;

/* Appends the calls that compute u (dropout, the GEMM with A, the scale) if the output projection `weight` has factors.
 * Sets *out, and input TRI_UP_U and parameter TRI_UP_B of *call, which is not appended yet. `vocabulary` is the size of
 * this rank's slice of the vocabulary. */
tri_status tri_lora_up_of_head(tri_op_list *list, int64_t width, int64_t vocabulary, int32_t weight, int32_t hidden,
                               tri_op_call *call, tri_lora_up *out);

/* Raises out->workspace_bytes to the bytes that the GEMMs of B need. */
tri_status tri_lora_up_memory(const tri_op_call *call, const tri_device_description *device, const tri_lora_up *at,
                              tri_up_rows of, tri_op_memory *out);

/* Adds u B^T to y; does nothing in a run without factors. */
tri_status tri_lora_up_add(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of, const void *u,
                           void *y, void *workspace);
/* Computes du = dy B, and B's gradient, dy^T u. */
tri_status tri_lora_up_gradients(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of,
                                 const void *gradient, const void *u, void *du, void *workspace);

#endif
