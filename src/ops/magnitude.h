/* DoRA: magnitudes of a frozen matrix with LoRA factors. */
#ifndef TRI_OPS_MAGNITUDE_H
#define TRI_OPS_MAGNITUDE_H

#include "ops/ops.h"
#include "ops/weight.h"

/* Appends the scaling of y, which is the product of x and the matrices that share the GEMM of `parameter`, plus LoRA
 * factors and bias: each column of y, without its bias, is multiplied by magnitude / norm. bias -1: no bias;
 * `adds_bias`: whether this rank has added the bias to y. In a run without factors the result is y, or zero if `alone`
 * is true. `alone` means that y is the product of x after dropout, without the bias, and that another call adds the
 * rest. */
tri_status tri_op_magnitude(tri_op_list *list, const tri_weight *weight, int32_t parameter, int32_t bias,
                            bool adds_bias, bool alone, int32_t y, int32_t *out);

/* Appends x - dropped, where `dropped` is x after dropout; in a run without factors the result is x. */
tri_status tri_op_left_by_dropout(tri_op_list *list, int32_t x, int32_t dropped, int32_t *out);

#endif
