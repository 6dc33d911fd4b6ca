/* LoRA factors beside the matrices of experts: a pair for each expert. */
#ifndef TRI_OPS_EXPERT_FACTORS_H
#define TRI_OPS_EXPERT_FACTORS_H

#include "ops/experts_internal.h"

/* Adds the products of experts' rows x and their factors to those of their matrices, y, if `parameter` has factors.
 * *call: its number, or -1. No other call may read y. */
tri_status tri_op_expert_factors(tri_op_list *list, const tri_expert_rows *at, int64_t in, int32_t parameter, int32_t x,
                                 int32_t tables, int32_t *y, int32_t *call);

/* The same of other rows than the call's own, all in `workspace`: y += scale (x A^T) B^T; gradient_x += what comes of
 * gradient_y; and the gradients of the factors. */
tri_status tri_expert_factors_add(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x, void *y,
                                  void *workspace);
tri_status tri_expert_factors_back(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *gradient_y,
                                   void *gradient_x, void *workspace);
tri_status tri_expert_factors_accumulate(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x,
                                         const void *gradient_y, void *workspace);
tri_status tri_expert_factors_workspace(const tri_op_call *call, const tri_device_description *device, size_t *bytes);

#endif
