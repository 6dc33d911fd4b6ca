/* The plain GEMM, which sums in double. */
#include "device/reference/reference.h"

tri_status tri_reference_matmul_workspace(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  (void)product;
  *bytes = 0;
  return TRI_OK;
}

tri_status tri_reference_matmul_packed(const tri_device_description *of, const tri_matmul *product, size_t *bytes) {
  (void)of;
  (void)product;
  *bytes = 0;
  return TRI_OK;
}

static double element(const tri_matmul *p, const void *a, const void *b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < p->k; l++) {
    double x = tri_reference_load(p->a_type, a, p->a_transposed ? l * p->lda + i : i * p->lda + l);
    double y = tri_reference_load(p->b_type, b, p->b_transposed ? j * p->ldb + l : l * p->ldb + j);
    sum += x * y;
  }
  return sum;
}

tri_status tri_reference_matmul(tri_queue *queue, const tri_matmul *product, const void *a, const void *b,
                                const void *bias, void *c, void *workspace) {
  (void)queue;
  (void)workspace;
  tri_dtype wide = tri_dtype_wide(product->a_type);
  for (int64_t i = 0; i < product->m; i++) {
    for (int64_t j = 0; j < product->n; j++) {
      int64_t at = i * product->ldc + j;
      double value = element(product, a, b, i, j);
      if (product->bias) value += tri_reference_load(wide, bias, j);
      if (product->accumulate) value += tri_reference_load(product->c_type, c, at);
      tri_reference_store(product->c_type, c, at, value);
    }
  }
  return TRI_OK;
}
