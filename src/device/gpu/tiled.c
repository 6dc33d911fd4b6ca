/* The third library of GEMMs: this program's own kernel (matmul.c), which supports any GEMM. It has an algorithm for
 * each size of tiles. */
#include "device/gpu/gemm.h"

#include <stdio.h>

static tri_status tiled_open(const tri_gpu_gemm_library *library, tri_gpu *gpu, tri_gpu_gemm_state **out) {
  (void)library, (void)gpu;
  *out = NULL; /* it has no state */
  return TRI_OK;
}

static void tiled_close(tri_gpu_gemm_state *state) { (void)state; }

/* Prints the version, which identifies the order of summation. */
static void tiled_version(const tri_gpu_gemm_state *state, char out[TRI_GPU_GEMM_VERSION_BYTES]) {
  (void)state;
  snprintf(out, TRI_GPU_GEMM_VERSION_BYTES, "%d", TRI_GPU_TILED_VERSION);
}

static tri_status tiled_algorithms(tri_gpu_gemm_state *state, const tri_gpu_gemm *product, size_t workspace_bytes,
                                   tri_gpu_algorithm out[TRI_GPU_MOST_ALGORITHMS], int *count) {
  (void)state;
  (void)workspace_bytes;
  const tri_matmul matmul = tri_gpu_gemm_matmul(product);
  const int first = tri_gpu_tiled_first(&matmul);
  *count = 0;
  for (int i = 0; i < TRI_GPU_TILED_VARIANTS; i++) {
    const int variant = (first + i) % TRI_GPU_TILED_VARIANTS;
    out[(*count)++] = (tri_gpu_algorithm){.data = {(unsigned char)variant}};
  }
  return TRI_OK;
}

static tri_status tiled_multiply(tri_gpu_gemm_state *state, tri_queue *queue, tri_gpu_gemm_call *call) {
  (void)state;
  const tri_matmul matmul = tri_gpu_gemm_matmul(call->product);
  const int variant = call->algorithm->data[0];
  if (variant >= TRI_GPU_TILED_VARIANTS) {
    return tri_fail(TRI_BAD_FILE, "the kernel for matrix products has no variant %d; remove the run's products.json",
                    variant);
  }
  return tri_gpu_tiled_multiply(queue, &matmul, variant, call->a, call->b, call->product->bias ? call->bias : NULL,
                                call->c);
}

const tri_gpu_gemm_library tri_gpu_tiled = {
    .name = "tiled",
    .open = tiled_open,
    .close = tiled_close,
    .version = tiled_version,
    .algorithms = tiled_algorithms,
    .multiply = tiled_multiply,
};
