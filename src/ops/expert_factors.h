/* LoRA factors of the matrices of experts: a pair for each expert. */
#ifndef TRI_OPS_EXPERT_FACTORS_H
#define TRI_OPS_EXPERT_FACTORS_H

#include "ops/experts_internal.h"

/* If `parameter` has factors, appends the call that adds scale x A^T B^T to y, the product of x and the experts'
 * matrices, and sets *y to the sum. *call: the number of the appended call, or -1. No other call may read the old y. */
tri_status tri_op_expert_factors(tri_op_list *list, const tri_expert_rows *at, int64_t in, int32_t parameter, int32_t x,
                                 int32_t tables, int32_t *y, int32_t *call);

/* Compute the products of the call for rows of a later window (combine.c); `begins` has the first row of each expert,
 * and all scratch memory is in `workspace`. tri_expert_factors_add computes y += scale (x A^T) B^T,
 * tri_expert_factors_back adds the factors' part of the input's gradient to gradient_x, and
 * tri_expert_factors_accumulate computes the gradients of the factors. */
tri_status tri_expert_factors_add(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x, void *y,
                                  void *workspace);
tri_status tri_expert_factors_back(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *gradient_y,
                                   void *gradient_x, void *workspace);
tri_status tri_expert_factors_accumulate(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x,
                                         const void *gradient_y, void *workspace);
/* Computes the bytes of the workspace of these three functions. */
tri_status tri_expert_factors_workspace(const tri_op_call *call, const tri_device_description *device, size_t *bytes);

#endif
