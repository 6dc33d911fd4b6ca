/* LoRA factors beside the output projection: logits += u B^T with u = scale h A^T, made piece by piece with the logits.
 *
 * u is a slot like any other, by products of its own (`linear`): the operation that makes logits has it as an input,
 * and B as a parameter. Under tensor parallelism B is split as the vocabulary is, and every rank has all of A, whose
 * gradients are parts of a sum. */
#ifndef TRI_OPS_LORA_HEAD_H
#define TRI_OPS_LORA_HEAD_H

#include "ops/weight.h"

enum { TRI_HEAD_FACTOR = 2, TRI_HEAD_U = 1 }; /* B among a call's parameters; u among its inputs, and du of outputs */

typedef struct tri_lora_head {
  tri_weight up; /* B; .in, the rank, is 0 without factors */
} tri_lora_head;

/* Appends u if the output projection `weight` has factors, and sets *out and those members of *call, which is not
 * appended yet. `vocabulary`: this rank's. */
tri_status tri_lora_head_append(tri_op_list *list, int64_t width, int64_t vocabulary, int32_t weight, int32_t hidden,
                                tri_op_call *call, tri_lora_head *out);

/* Adds the most workspace that products with `rows` rows of logits need to *out. Logits are wide and have `ld` columns
 * in memory, their gradients `gradient_ld`. */
typedef struct tri_head_rows {
  int64_t rows, ld, gradient_ld;
} tri_head_rows;
tri_status tri_lora_head_memory(const tri_op_call *call, const tri_device_description *device, const tri_lora_head *at,
                                tri_head_rows of, tri_op_memory *out);

/* logits += u B^T; nothing where a run is without factors. */
tri_status tri_lora_head_add(tri_run *run, const tri_op_call *call, const tri_lora_head *at, tri_head_rows of,
                             const void *u, void *logits, void *workspace);
/* du = dlogits B, and B's gradient from dlogits^T u. */
tri_status tri_lora_head_gradients(tri_run *run, const tri_op_call *call, const tri_lora_head *at, tri_head_rows of,
                                   const void *gradient, const void *u, void *du, void *workspace);

#endif
