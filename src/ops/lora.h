/* Low-rank factors beside a matrix that is not trained. */
#ifndef TRI_OPS_LORA_H
#define TRI_OPS_LORA_H

#include "ops/ops.h"

/* Adds what the factors of a matrix make of x[R, in], if it has any, to its product y: `weight` is that matrix, or the
 * first of several that are one in the product. No other call reads y. */
tri_status tri_op_lora(tri_op_list *list, int64_t in, int32_t weight, int32_t x, int32_t y, int32_t *out);

#endif
