/* GEMMs of the CPU device, by oneDNN. Internal to the device: cpu.c owns the state and has the four functions in its
 * table. */
#ifndef TRI_DEVICE_CPU_MATMUL_H
#define TRI_DEVICE_CPU_MATMUL_H

#include "device/cpu/reorder.h"
#include "device/cpu/rows.h"
#include "device/cpu/skinny_gemm.h"
#include "device/cpu/thin.h"
#include "device/kernels.h"

typedef struct tri_cpu_matmul_state tri_cpu_matmul_state;

/* How GEMMs of bf16 activations are computed (see matmul_plan.c). MEASURED compares NATIVE and WIDENED once, at the
 * first bf16 GEMM, by one thread's own processor time. */
typedef enum tri_cpu_bf16 { TRI_CPU_BF16_MEASURED, TRI_CPU_BF16_NATIVE, TRI_CPU_BF16_WIDENED } tri_cpu_bf16;

typedef struct tri_cpu_matmul_options {
  int threads;
  tri_regions *regions;    /* parallel regions for few_rows; owned by the caller */
  tri_rows_copy copy_rows; /* copy of rows for the chosen vector unit */
  tri_few_rows few_rows;   /* GEMM of few rows for the chosen vector unit */
  tri_pack_panels pack_panels;
  tri_transpose transpose;
  tri_thin_depth thin_depth;
  tri_thin_gradient thin_gradient;
  bool has_pairs; /* whether few_rows can multiply pairs of bf16 */
  tri_cpu_bf16 bf16;
  bool pack_fp32; /* whether fp32 weights are packed in oneDNN's layout; matmul_plan.c explains why this is off */
} tri_cpu_matmul_options;

/* One state serves one calling thread at a time. Release with tri_cpu_matmul_state_destroy (NULL is ignored). */
tri_status tri_cpu_matmul_state_create(const tri_cpu_matmul_options *options, tri_cpu_matmul_state **out);
void tri_cpu_matmul_state_destroy(tri_cpu_matmul_state *state);

/* Sets *native to whether bf16 GEMMs use the CPU's bf16 instructions, rather than fp32 ones. The first call measures
 * the speed of both, if options.bf16 is TRI_CPU_BF16_MEASURED; *ratio (may be NULL) is the measured speed with bf16
 * instructions divided by the speed with fp32 ones; 0 if nothing was measured. */
tri_status tri_cpu_matmul_bf16(tri_cpu_matmul_state *state, bool *native, double *ratio);

/* Sets *pairs to whether rows in generation are multiplied with packed weights by the CPU's products of bf16 pairs. */
tri_status tri_cpu_matmul_pairs(tri_cpu_matmul_state *state, bool *pairs);

/* Returns the state of a device (cpu.c). */
tri_cpu_matmul_state *tri_cpu_matmul_state_of(const tri_device_description *of);

/* The functions of the tables (kernels.h, description.h). In addition to the types there, b may be unpacked fp32 with a
 * in bf16: callers pass the parameter itself if matmul_packed sets 0 bytes. */
tri_status tri_cpu_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_cpu_matmul_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes);
tri_status tri_cpu_matmul_pack(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                               void *packed);
tri_status tri_cpu_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                          void *c, void *workspace);

#endif
