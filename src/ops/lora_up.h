/* The second product of LoRA factors, y += u B^T, of operations that have one of their own: the output projection,
 * whose logits are made piece by piece, and the embedding.
 *
 * u = scale h A^T of the output projection is a slot like any other, by calls of its own (`linear`): what makes logits
 * has it as an input, and B as a parameter. Under tensor parallelism B is split as the vocabulary is, and every rank
 * has all of A, whose gradients are parts of a sum. */
#ifndef TRI_OPS_LORA_UP_H
#define TRI_OPS_LORA_UP_H

#include "ops/weight.h"

enum { TRI_UP_B = 2, TRI_UP_U = 1 }; /* B among a call's parameters; u among inputs or outputs, and du of outputs */

typedef struct tri_lora_up {
  tri_weight b; /* .in, the rank, is 0 without factors */
} tri_lora_up;

/* Rows of y, which is `wide` or in the activations' type, and columns from one row to the next in memory: of y, and of
 * its gradient. */
typedef struct tri_up_rows {
  int64_t rows, ld, gradient_ld;
  bool wide;
} tri_up_rows;

/* Appends u if the output projection `weight` has factors, and sets *out and those members of *call, which is not
 * appended yet. `vocabulary`: this rank's. */
tri_status tri_lora_up_of_head(tri_op_list *list, int64_t width, int64_t vocabulary, int32_t weight, int32_t hidden,
                               tri_op_call *call, tri_lora_up *out);

/* Raises out->workspace_bytes to what these products need. */
tri_status tri_lora_up_memory(const tri_op_call *call, const tri_device_description *device, const tri_lora_up *at,
                              tri_up_rows of, tri_op_memory *out);

/* y += u B^T; nothing where a run is without factors. */
tri_status tri_lora_up_add(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of, const void *u,
                           void *y, void *workspace);
/* du = dy B, and B's gradient from dy^T u. */
tri_status tri_lora_up_gradients(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of,
                                 const void *gradient, const void *u, void *du, void *workspace);

#endif
