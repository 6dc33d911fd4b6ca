/* A weight matrix as the products of a linear layer read it; shared by `linear`, `cross_entropy` and `last_logits`.
 *
 * The parameter itself is plain and wide. For its products a device may want it packed in a layout of its own, and bf16
 * activations want it in bf16; both are made once after each update (`prepare`) and used by every micro-batch of a
 * step. Where packed is no more than narrow, the update itself may write it (tri_run_copy). Forward reads it as [in,
 * out], the backward of the inputs as [out, in], each from a buffer of the call. A frozen parameter is read where it
 * lies, in the type that it is kept in: a second copy would be as large as what freezing saves. One in 4 bits is made
 * whole before each of its products, in scratch memory, all that are one in the product side by side (QLoRA, Dettmers
 * et al. 2023). */
#ifndef TRI_OPS_WEIGHT_H
#define TRI_OPS_WEIGHT_H

#include "ops/ops.h"
#include "ops/run.h"

typedef enum tri_direction { TRI_DIRECTION_FORWARD, TRI_DIRECTION_BACKWARD } tri_direction;

typedef struct tri_weight {
  int64_t in, out;
  tri_weight_order order;
} tri_weight;

/* The product x W (forward, [rows,in] -> [rows,out]) or dy W^T (backward), all of the call's activation type and dense;
 * the caller may change ld's, c_type, bias and accumulate. */
tri_matmul tri_weight_product(const tri_op_call *call, const tri_weight *weight, tri_direction direction, int64_t rows);

/* The gradient of the weight from x[rows,in] and dy[rows,out], written in the weight's own order. */
tri_matmul tri_weight_gradient(const tri_op_call *call, const tri_weight *weight, int64_t rows);

/* The form of the products of a pass: a weight of [in, out] is transposed in the backward, one of [out, in] in the
 * forward.
 */
tri_product_form tri_weight_form(tri_pass pass, tri_weight_order order);

/* What making a weight of `elements` whole costs in front of one of its products; nothing of one that is not in 4 bits.
 */
double tri_weight_copied(const tri_op_call *call, tri_pass pass, double elements);

/* Adds to *out what the product (as planned, with its largest number of rows) wants in this direction. */
tri_status tri_weight_memory(const tri_op_call *call, const tri_device_description *device, const tri_matmul *product,
                             tri_direction direction, tri_op_memory *out);

/* Fills the buffer of this direction from the parameter, unless the update has; that of the forward serves both where
 * the device packs plain. */
tri_status tri_weight_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *product,
                              tri_direction direction);

/* Runs the product with the weight in the form that prepare left; `product` may have fewer rows than planned. */
tri_status tri_weight_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *product,
                               tri_direction direction, const void *x, const void *bias, void *y, void *workspace);

/* Runs the gradient product into the parameter's gradient, writing or adding; nothing if that is frozen. */
tri_status tri_weight_accumulate(tri_run *run, const tri_op_call *call, const tri_weight *weight,
                                 const tri_matmul *product, const void *x, const void *gradient_y, void *workspace);

/* ---- several, one behind the other: of experts -------------------------------------------------------------------
 *
 * The same of rows in groups, each with a matrix of its own; the parameter has `matrices` of them, [out, in] each, and
 * `begins` says where the rows of each begin (device/description.h). The product has as its m, or k in a gradient, what
 * rows there may be of all. */
tri_status tri_weights_memory(const tri_op_call *call, const tri_device_description *device, const tri_matmul *product,
                              int64_t matrices, tri_direction direction, tri_op_memory *out);
tri_status tri_weights_gradient_memory(const tri_device_description *device, const tri_matmul *product,
                                       int64_t matrices, tri_op_memory *out);
tri_status tri_weights_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *product, int64_t matrices,
                               tri_direction direction);
tri_status tri_weights_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *product, int64_t matrices,
                                tri_direction direction, const int32_t *begins, const void *x, void *y,
                                void *workspace);
tri_status tri_weights_accumulate(tri_run *run, const tri_op_call *call, const tri_matmul *product, int64_t matrices,
                                  const int32_t *begins, const void *x, const void *gradient_y, void *workspace);

#endif
