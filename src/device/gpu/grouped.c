/* Launches the kernels of kernels/grouped.c. */
#include "device/gpu/gemm.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- conversion of b --------------------------------------------------------------------------------------------- */

/* Converts the matrices of all groups to the type of a, and stores them in the workspace, one after the other and
 * dense. Sets ldb and the stride to this layout. */
static tri_status narrow_matrices(tri_queue *queue, tri_grouped_matmul *call, const void *b, void *workspace) {
  tri_matmul *p = &call->product;
  const int64_t rows = p->b_transposed ? p->n : p->k, width = p->b_transposed ? p->k : p->n;
  const int64_t stride = call->groups == 1 ? rows * p->ldb : call->stride;
  const bool together = stride == rows * p->ldb;
  tri_gpu_narrowing what = {.to = p->a_type, .rows = rows, .width = width, .ld = p->ldb, .in_is_wide = true};
  if (together) what.rows *= call->groups;
  for (int64_t g = 0; g < (together ? 1 : call->groups); g++) {
    TRI_TRY(tri_gpu_narrow(queue, &what, (const char *)b + (size_t)(g * stride) * tri_dtype_bytes(p->b_type),
                           (char *)workspace + (size_t)(g * rows * width) * tri_dtype_bytes(p->a_type)));
  }
  p->ldb = width;
  call->stride = rows * width;
  return TRI_OK;
}

/* Converts the rows of b that belong to any group to dense rows in the workspace, and sets ldb. The number of these
 * rows, *rows, is the last element of begins, in device memory. */
static tri_status narrow_rows(tri_queue *queue, tri_matmul *p, const int32_t *rows, const void *b, void *workspace) {
  const tri_row_copy copy = {{p->k, rows}, p->n, p->b_type, p->a_type, p->ldb, p->n};
  TRI_KERNEL_CALL(queue, copy_rows, &copy, NULL, b, NULL, workspace);
  p->ldb = p->n;
  return TRI_OK;
}

/* Converts b to the type of a in the workspace if necessary, and sets ldb, the stride and *b to the result. */
static tri_status prepare_b(tri_queue *queue, tri_grouped_matmul *call, const int32_t *begins, const void **b,
                            void *workspace) {
  tri_matmul *p = &call->product;
  if (p->b_packed) { /* a packed b is the plain dense matrix in the type of a, and its stride is in bytes */
    p->ldb = p->b_transposed ? p->k : p->n;
    call->stride /= (int64_t)tri_dtype_bytes(p->a_type);
    return TRI_OK;
  }
  if (p->b_type == p->a_type) return TRI_OK;
  if (p->a_transposed) {
    TRI_TRY(narrow_rows(queue, p, begins + call->groups, *b, workspace));
  } else {
    TRI_TRY(narrow_matrices(queue, call, *b, workspace));
  }
  *b = workspace;
  return TRI_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Large tiles cause less memory traffic. They are used if the rows of a group, on average, and the columns fill most of
 * a tile (FILLED), and if there are enough tiles for the processors of a chip (MANY_TILES). */
enum { MANY_TILES = 96, FILLED = MATMUL_LARGE * 3 / 4 };

/* Returns the maximum number of tiles of `side`: each group may have one partial tile of rows. */
static int64_t most_tiles(const tri_grouped_matmul *call, int64_t side) {
  const tri_matmul *p = &call->product;
  const int64_t columns = ceil_div(p->n, side);
  if (p->a_transposed) return call->groups * ceil_div(p->m, side) * columns;
  const int64_t groups = call->groups < p->m ? call->groups : p->m;
  return (p->m + groups * (side - 1)) / side * columns;
}

/* Returns whether to use large tiles. */
static bool is_large(const tri_grouped_matmul *call) {
  const tri_matmul *p = &call->product;
  const int64_t rows = p->a_transposed ? p->m : p->m / call->groups;
  return rows >= FILLED && p->n >= FILLED && most_tiles(call, MATMUL_LARGE) >= MANY_TILES;
}

static tri_gpu_kernel kernel_of(const tri_grouped_matmul *call, bool large) {
  if (call->product.a_transposed)
    return large ? TRI_GPU_KERNEL_grouped_gradient_large : TRI_GPU_KERNEL_grouped_gradient_small;
  return large ? TRI_GPU_KERNEL_grouped_large : TRI_GPU_KERNEL_grouped_small;
}

static tri_status check(const tri_grouped_matmul *call) {
  const tri_matmul *p = &call->product;
  TRI_TRY(tri_gpu_matmul_check(p));
  if (!p->bias && (!p->a_transposed || (!p->b_transposed && !p->b_packed)) && call->groups >= 0) return TRI_OK;
  return tri_fail_internal(
      "a product of %lld groups with bias %d, a transposed %d, b transposed %d, packed %d makes no sense",
      (long long)call->groups, p->bias, p->a_transposed, p->b_transposed, p->b_packed);
}

static tri_status gpu_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                     const void *a, const void *b, void *c, void *workspace) {
  tri_grouped_matmul call = *product;
  const tri_matmul *p = &call.product;
  TRI_TRY(check(product));
  if (call.groups == 0 || p->m == 0 || p->n == 0) return TRI_OK;
  if (p->k == 0) { /* the operands may have no memory */
    a = b = NULL;
    call.product.lda = call.product.ldb = 0;
    if (!p->a_transposed) call.stride = 0;
  } else {
    TRI_TRY(prepare_b(queue, &call, begins, &b, workspace));
  }
  const bool large = is_large(&call);
  const grouped_arguments arguments = {
      .product = tri_gpu_matmul_arguments(p, a, b, c), .begins = begins, .groups = call.groups, .stride = call.stride};
  const tri_gpu_shape shape = {.x = most_tiles(&call, large ? MATMUL_LARGE : MATMUL_SMALL),
                               .shared_bytes = tri_gpu_tile_bytes(queue, large)};
  return tri_gpu_launch(queue, kernel_of(&call, large), p->a_type, shape, &arguments, sizeof arguments);
}

void tri_gpu_fill_grouped(tri_device_kernels *out) { out->grouped_matmul = gpu_grouped_matmul; }
