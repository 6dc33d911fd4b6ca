/* One GEMM: the request to a library, and the kernels around it. */
#include "device/gpu/gemm.h"

/* LIBRARY_BYTES: bytes of workspace that the description of an accelerator reserves for a library of GEMMs
 * (device/description.c); a narrowed bias is stored in this workspace, too. UNIT: alignment of addresses in the
 * workspace. */
enum { LIBRARY_BYTES = 32 << 20, UNIT = 256 };

static size_t round_up(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

static bool is_narrow(tri_dtype type) { return tri_dtype_wide(type) != type; }

/* ---- the request to a library ------------------------------------------------------------------------------------ */

/* Returns the bytes of a narrowed bias. cuBLASLt has no combination of an fp32 bias with a bf16 c, so for a bf16 c the
 * bias is narrowed to bf16 (narrows_bias). PyTorch does the same under autocast; the error is half a unit in the last
 * place of the bias in bf16. */
static size_t bias_bytes(const tri_gpu_gemm *product) {
  return product->bias && is_narrow(product->out) ? round_up((size_t)product->n * tri_dtype_bytes(product->out)) : 0;
}

size_t tri_gpu_gemm_workspace(const tri_gpu_gemm *product) {
  const size_t taken = bias_bytes(product) + UNIT;
  return taken >= LIBRARY_BYTES ? 0 : LIBRARY_BYTES - taken;
}

/* Returns whether the GEMM's kernel also adds the bias. The library must support this, and a narrowed bias must leave a
 * part of the workspace to the library. Without a vendor's library, this program's own kernel computes the GEMM, and it
 * supports every bias. */
static bool takes_bias(const tri_gpu_gemms *products, const tri_gpu_gemm *product) {
  const bool adds = products->vendor == NULL || products->vendor->adds_bias(product);
  return adds && bias_bytes(product) + UNIT < LIBRARY_BYTES;
}

tri_gpu_gemm tri_gpu_gemm_of(const tri_gpu_gemms *products, const tri_matmul *of, int alignment) {
  tri_gpu_gemm product = {
      .m = of->m,
      .n = of->n,
      .k = of->k,
      .lda = of->lda,
      .ldb = of->ldb,
      .ldc = of->ldc,
      .in = of->a_type,
      .out = of->c_type,
      .a_transposed = of->a_transposed,
      .b_transposed = of->b_transposed,
      .accumulate = of->accumulate,
      .bias = of->bias,
      .tf32 = products->allow_tf32 && tri_gpu_type_bits(of->a_type) == 32,
      .alignment = alignment,
  };
  if (of->b_packed || of->b_type != of->a_type)
    product.ldb = of->b_transposed ? of->k : of->n; /* b is packed, or is converted to a dense matrix */
  product.bias = of->bias && takes_bias(products, &product);
  return product;
}

tri_matmul tri_gpu_gemm_matmul(const tri_gpu_gemm *p) {
  return (tri_matmul){.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .lda = p->lda,
                      .ldb = p->ldb,
                      .ldc = p->ldc,
                      .a_type = p->in,
                      .b_type = p->in,
                      .c_type = p->out,
                      .a_transposed = p->a_transposed,
                      .b_transposed = p->b_transposed,
                      .accumulate = p->accumulate,
                      .bias = p->bias};
}

/* ---- kernels around the GEMM ------------------------------------------------------------------------------------- */

/* Adds the bias. The blocks along y share the rows, the blocks along x the columns of a row. */
static tri_status add_bias(tri_queue *queue, const tri_matmul *of, const void *bias, void *c) {
  enum { MOST_ROWS = 4096 };
  tri_gpu_shape shape = tri_gpu_shape_of(of->n, add_bias_threads);
  shape.y = of->m < MOST_ROWS ? of->m : MOST_ROWS;
  TRI_GPU_LAUNCH(add_bias, of->c_type, shape, .out = c, .bias = bias, .rows = of->m, .width = of->n, .ld = of->ldc,
                 .row_step = shape.y);
  return TRI_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Returns `bytes` of the workspace at *next, aligned to UNIT, and advances *next. */
static void *allocate_workspace(char **next, size_t bytes) {
  char *at = *next + (UNIT - (uintptr_t)*next % UNIT) % UNIT;
  *next = at + bytes;
  return at;
}

/* Runs the GEMM. A narrowed bias is at the start of the workspace; the rest is for the library. */
tri_status tri_gpu_gemm_run(tri_queue *queue, const tri_matmul *of, const tri_gpu_gemm_choice *choice,
                            tri_gpu_gemm_call *call, void *workspace) {
  const tri_gpu_gemms *products = ((const tri_gpu *)queue->device->state)->products;
  const tri_gpu_gemm *product = call->product;
  const void *bias = call->bias;
  char *next = workspace;
  void *narrow = allocate_workspace(&next, bias_bytes(product));
  if (product->bias && choice->maker->narrows_bias && bias_bytes(product) > 0) {
    const tri_gpu_narrowing what = {.to = product->out, .rows = 1, .width = of->n, .ld = of->n, .in_is_wide = true};
    TRI_TRY(tri_gpu_narrow(queue, &what, bias, narrow));
    call->bias = narrow;
  }
  call->algorithm = &choice->algorithm;
  call->workspace = allocate_workspace(&next, 0);
  call->workspace_bytes = tri_gpu_gemm_workspace(product);
  TRI_TRY(choice->maker->multiply(products->state, queue, call));
  return of->bias && !product->bias ? add_bias(queue, of, bias, call->c) : TRI_OK;
}
