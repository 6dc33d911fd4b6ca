/* DoRA: magnitudes beside a frozen matrix with LoRA factors. */
#ifndef TRI_OPS_MAGNITUDE_H
#define TRI_OPS_MAGNITUDE_H

#include "ops/ops.h"
#include "ops/weight.h"

/* Whether one of the matrices that are one with `weight` has magnitudes. */
bool tri_op_has_magnitudes(const tri_op_list *list, int32_t weight);

/* A product y of such matrices, with the factors' product and bias in it (bias -1: none; `adds_bias`: this rank has
 * added it), with its columns made as long as their magnitudes say. `alone`: the bias is elsewhere, and where factors
 * are left out the result is zero. */
tri_status tri_op_magnitude(tri_op_list *list, const tri_weight *weight, int32_t parameter, int32_t bias,
                            bool adds_bias, bool alone, int32_t y, int32_t *out);

/* x - dropped; where factors are left out, x. */
tri_status tri_op_left_by_dropout(tri_op_list *list, int32_t x, int32_t dropped, int32_t *out);

#endif
