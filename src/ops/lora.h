/* LoRA: low-rank factors beside a frozen matrix. */
#ifndef TRI_OPS_LORA_H
#define TRI_OPS_LORA_H

#include "ops/ops.h"

/* Adds the product of x[R, in] and a matrix's factors, if it has any, to the matrix's product y. `weight` is that
 * matrix, or the first of several joined ones. No other call may read y. */
tri_status tri_op_lora(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);

/* The same of a table of tokens, for the rows x of it that the run's ids name. vocab_size is that of the whole model.
 */
tri_status tri_op_lora_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int32_t token, int32_t x,
                                 int32_t *out);

#endif
