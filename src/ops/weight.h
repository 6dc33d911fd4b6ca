/* A weight matrix as GEMMs read it; shared by `linear`, `cross_entropy` and `row_logits`.
 *
 * A trained parameter is dense and in the wide type. For GEMMs a device may need it packed in its own layout, and bf16
 * activations need it in bf16; both are done once after each update (`prepare`) and used by every micro-batch of a
 * step. If the packed weights only differ in their type, the update may write them itself (tri_run_copy). The forward
 * reads them as [in, out], the backward of the inputs as [out, in], from a buffer of the call for each of the two
 * directions, or from one for both (tri_weight_prepare). A frozen parameter is read in place, in its stored type: a
 * copy would need as much memory as freezing saves. In generation, a frozen parameter in the activations' type is
 * packed over its dense values, or into a buffer if another call or executor reads these values
 * (tri_op_call.keeps_dense). A parameter in 4 bits is dequantised before each GEMM to scratch memory, together with the
 * matrices that are joined to it (QLoRA, Dettmers et al. 2023). A parameter in blocks (device/block_weights.h) is read
 * as it is by a GEMM of its own, and has no backward. */
#ifndef TRI_OPS_WEIGHT_H
#define TRI_OPS_WEIGHT_H

#include "ops/ops.h"
#include "ops/run.h"

typedef enum tri_direction { TRI_DIRECTION_FORWARD, TRI_DIRECTION_BACKWARD } tri_direction;

typedef struct tri_weight {
  int64_t in, out; /* number of inputs and of outputs on this rank */
  tri_weight_order order;
} tri_weight;

/* Returns the GEMM x W (forward, [rows,in] -> [rows,out]) or dy W^T (backward), dense and in the call's activation
 * type; the caller may change lda, ldb, ldc, c_type, bias and accumulate. */
tri_matmul tri_weight_gemm(const tri_op_call *call, const tri_weight *weight, tri_direction direction, int64_t rows);

/* Returns the GEMM of the weight's gradient from x[rows,in] and dy[rows,out], written in the weight's own order. */
tri_matmul tri_weight_gradient(const tri_op_call *call, const tri_weight *weight, int64_t rows);

/* Returns the form of the GEMM of a pass: a weight of [in, out] is transposed in the backward, one of [out, in] in the
 * forward. */
tri_gemm_form tri_weight_form(tri_pass pass, tri_weight_order order);

/* Returns the bytes read and written by dequantising a weight of `elements` before one of its GEMMs; 0 if it is not in
 * NF4. */
double tri_weight_copied(const tri_op_call *call, tri_pass pass, double elements);

/* Queues the conversion to the wide type of elements [first, first + count) of the matrix that parameter 0 and the
 * parameters joined to it make up. None of them may be packed in place. */
tri_status tri_weight_widen(tri_run *run, const tri_op_call *call, int64_t first, int64_t count, void *to);

/* Raises out->workspace_bytes to the bytes that a GEMM needs. */
tri_status tri_gemm_memory(const tri_device_description *device, const tri_matmul *gemm, tri_op_memory *out);

/* Raises out->workspace_bytes to the scratch memory of the GEMM, whose m is its maximum number of rows, and sets
 * out->buffer_bytes of the buffer that this direction uses. */
tri_status tri_weight_memory(const tri_op_call *call, const tri_device_description *device, const tri_matmul *gemm,
                             tri_direction direction, tri_op_memory *out);

/* Packs the parameter into the buffer of this direction, unless the update has written that buffer. If the device does
 * not change the layout, both directions use the buffer of the forward. */
tri_status tri_weight_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, tri_direction direction);

/* Runs the GEMM with the prepared weight; `gemm` may have fewer rows than planned. */
tri_status tri_weight_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, tri_direction direction,
                               const void *x, const void *bias, void *y, void *workspace);

/* Runs the gradient's GEMM, which overwrites the parameter's gradient or adds to it. Does nothing if the parameter is
 * frozen. */
tri_status tri_weight_accumulate(tri_run *run, const tri_op_call *call, const tri_weight *weight,
                                 const tri_matmul *gemm, const void *x, const void *gradient_y, void *workspace);

/* ---- stacks of experts' matrices --------------------------------------------------------------------------------- */

/* The functions below do the same for rows in groups, each group with its own matrix. The parameter has `matrices`
 * matrices of [out, in]; `begins` has the first row of each group (device/description.h). m of the GEMM (k of a
 * gradient) is the maximum number of rows of all groups together. */

tri_status tri_weight_stack_memory(const tri_op_call *call, const tri_device_description *device,
                                   const tri_matmul *gemm, int64_t matrices, tri_direction direction,
                                   tri_op_memory *out);
tri_status tri_weight_stack_gradient_memory(const tri_device_description *device, const tri_matmul *gemm,
                                            int64_t matrices, tri_op_memory *out);
tri_status tri_weight_stack_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                    tri_direction direction);
tri_status tri_weight_stack_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                     tri_direction direction, const int32_t *begins, const void *x, void *y,
                                     void *workspace);
tri_status tri_weight_stack_accumulate(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                       const int32_t *begins, const void *x, const void *gradient_y, void *workspace);

#endif
