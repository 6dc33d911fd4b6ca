/* GEMMs by this program's own kernels: for any shape and any chip. */
#include "device/gpu/gemm.h"

static int64_t dense_ldb(const tri_matmul *p) { return p->b_transposed ? p->k : p->n; }

tri_status tri_gpu_matmul_check(const tri_matmul *p) {
  const tri_dtype wide = tri_dtype_wide(p->a_type);
  const bool types = tri_gpu_type_bits(p->a_type) != 0 && (p->b_type == p->a_type || p->b_type == wide) &&
                     (p->c_type == p->a_type || p->c_type == wide);
  if (!types) {
    return tri_fail(TRI_UNSUPPORTED, "no GPU multiplies %s and %s into %s", tri_dtype_name(p->a_type),
                    tri_dtype_name(p->b_type), tri_dtype_name(p->c_type));
  }
  const bool sizes = p->m >= 0 && p->n >= 0 && p->k >= 0;
  const bool strides =
      p->lda >= (p->a_transposed ? p->m : p->k) && p->ldc >= p->n && (p->b_packed || p->ldb >= dense_ldb(p));
  if (sizes && strides && !(p->bias && p->accumulate)) return TRI_OK;
  return tri_fail_internal(
      "a product of %lld x %lld x %lld with leading dimensions %lld, %lld and %lld, bias %d and accumulate "
      "%d makes no sense",
      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
      p->bias, p->accumulate);
}

tri_status tri_gpu_narrow(tri_queue *queue, const tri_gpu_narrowing *what, const void *in, void *out) {
  TRI_GPU_LAUNCH(matmul_pack, what->to, tri_gpu_shape_of(what->rows * ((what->width + 7) / 8), matmul_pack_threads),
                 .in = in, .out = out, .rows = what->rows, .width = what->width, .ld = what->ld,
                 .in_is_wide = what->in_is_wide);
  return TRI_OK;
}

tri_status tri_gpu_narrow_b(tri_queue *queue, const tri_matmul *p, tri_dtype from, const void *b, void *out) {
  const tri_gpu_narrowing what = {.to = p->a_type,
                                  .rows = p->b_transposed ? p->n : p->k,
                                  .width = dense_ldb(p),
                                  .ld = p->ldb,
                                  .in_is_wide = from != p->a_type};
  return tri_gpu_narrow(queue, &what, b, out);
}

static tri_status gpu_matmul_pack(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                                  void *packed) {
  const tri_dtype wide = tri_dtype_wide(product->a_type);
  TRI_TRY(tri_gpu_matmul_check(product));
  if (wide == product->a_type || product->b_type != product->a_type ||
      (b_plain_type != wide && b_plain_type != product->a_type)) {
    return tri_fail_internal("%s for products of %s and %s is not packed: see matmul_packed",
                             tri_dtype_name(b_plain_type), tri_dtype_name(product->a_type),
                             tri_dtype_name(product->b_type));
  }
  return tri_gpu_narrow_b(queue, product, b_plain_type, b, packed);
}

static int64_t tiles(const tri_matmul *p, int64_t side) {
  return ((p->m + side - 1) / side) * ((p->n + side - 1) / side);
}

/* Large tiles cause less memory traffic; small ones occupy all processors of a chip if the GEMM has fewer than
 * MANY_TILES large tiles. LARGE and SMALL are the numbers of the variants. */
enum { MANY_TILES = 96, LARGE = 0, SMALL = 1 };

int tri_gpu_tiled_first(const tri_matmul *product) {
  return tiles(product, MATMUL_LARGE) >= MANY_TILES ? LARGE : SMALL;
}

size_t tri_gpu_tile_bytes(const tri_queue *queue, bool large) {
  const tri_gpu *gpu = queue->device->state;
  size_t stages = large ? MATMUL_LARGE_STAGES : MATMUL_SMALL_STAGES;
  if (gpu->facts.warp == 64) stages = MATMUL_STAGES_OF_64;
  return stages * 2 * (large ? MATMUL_LARGE : MATMUL_SMALL) * MATMUL_ROW_BYTES;
}

matmul_arguments tri_gpu_matmul_arguments(const tri_matmul *p, const void *a, const void *b, void *c) {
  return (matmul_arguments){.a = a,
                            .b = b,
                            .c = c,
                            .m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .lda = p->lda,
                            .ldb = p->ldb,
                            .ldc = p->ldc,
                            .a_transposed = p->a_transposed,
                            .b_transposed = p->b_transposed,
                            .c_is_wide = p->c_type != p->a_type,
                            .accumulate = p->accumulate};
}

tri_status tri_gpu_tiled_multiply(tri_queue *queue, const tri_matmul *p, int variant, const void *a, const void *b,
                                  const void *bias, void *c) {
  matmul_arguments arguments = tri_gpu_matmul_arguments(p, a, b, c);
  arguments.bias = p->bias ? bias : NULL;
  const bool large = variant == LARGE;
  const tri_gpu_shape shape = {.x = tiles(p, large ? MATMUL_LARGE : MATMUL_SMALL),
                               .shared_bytes = tri_gpu_tile_bytes(queue, large)};
  return tri_gpu_launch(queue, large ? TRI_GPU_KERNEL_matmul_large : TRI_GPU_KERNEL_matmul_small, p->a_type, shape,
                        &arguments, sizeof arguments);
}

void tri_gpu_fill_matmul(tri_device_kernels *out) { out->matmul_pack = gpu_matmul_pack; }
