/* The GEMMs of device/kernels.h: each is run with the chosen algorithm of the chosen library. */
#include "device/gpu/gemm.h"

/* Returns the largest power of two, at most 16, that divides all addresses. */
static int alignment_of(const void *a, const void *b, const void *c) {
  const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 16;
  return (int)(all & (~all + 1));
}

tri_status tri_gpu_matmul(tri_queue *queue, const tri_matmul *of, const void *a, const void *b, const void *bias,
                          void *c, void *workspace) {
  tri_gpu_gemms *products = ((const tri_gpu *)queue->device->state)->products;
  tri_gpu_gemm_choice choice;
  char *rest = workspace;
  TRI_TRY(tri_gpu_matmul_check(of));
  if (of->m == 0 || of->n == 0) return TRI_OK;
  if (!of->b_packed && of->b_type != of->a_type) {
    TRI_TRY(tri_gpu_narrow_b(queue, of, of->b_type, b, workspace));
    b = workspace;
    rest += (size_t)of->k * (size_t)of->n * tri_dtype_bytes(of->a_type);
  }
  TRI_TRY(tri_gpu_gemms_open(products));
  const tri_gpu_gemm product = tri_gpu_gemm_of(products, of, alignment_of(a, b, c));
  TRI_TRY(tri_gpu_gemms_choice(products, &product, &choice));
  if (of->k == 0) a = b = NULL; /* operands without elements may have no memory */
  for (;;) {
    tri_gpu_gemm_call call = {.product = &product, .a = a, .b = b, .bias = bias, .c = c};
    const tri_status status = tri_gpu_gemm_run(queue, of, &choice, &call, rest);
    if (!call.refused) return status;
    TRI_TRY(tri_gpu_gemms_next(products, &product, &choice, &choice));
  }
}

tri_status tri_gpu_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  TRI_TRY(tri_gpu_gemms_plan(of->facts, product));
  return tri_description_accelerator.matmul_workspace(&tri_description_accelerator, product, bytes);
}

void tri_gpu_fill_products(tri_device_kernels *out) { out->matmul = tri_gpu_matmul; }
