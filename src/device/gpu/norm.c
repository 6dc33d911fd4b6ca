/* Launches the kernels of kernels/norm.c. */
#include "device/gpu/columns.h"

static norm_shape shape_of(const tri_norm *norm) {
  return (norm_shape){norm->rows.capacity, norm->rows.count, norm->groups, norm->width,
                      norm->x_row,         norm->x_group,    norm->y_row,  norm->y_group};
}

/* The kernels of a norm: a warp or a block keeps a group in registers. PATH_ANY reads memory again instead: for groups
 * that cannot be moved 16 bytes at a time, or that are wider than NORM_BLOCK_WIDTH. */
typedef enum path { PATH_WARP, PATH_BLOCK, PATH_ANY } path;

/* Chooses the kernel. `arrays` are all arrays that the kernel would access 16 bytes at a time; NULL counts as aligned.
 */
static path path_of(const tri_norm *norm, const void *const *arrays, int num_arrays) {
  const int64_t all = norm->width | norm->x_row | norm->x_group | norm->y_row | norm->y_group;
  uintptr_t addresses = 0;
  for (int i = 0; i < num_arrays; i++) addresses |= (uintptr_t)arrays[i];
  if (all * (int64_t)tri_dtype_bytes(norm->type) % 16 != 0 || addresses % 16 != 0) return PATH_ANY;
  return norm->width <= NORM_WARP_WIDTH ? PATH_WARP : norm->width <= NORM_BLOCK_WIDTH ? PATH_BLOCK : PATH_ANY;
}

static bool by_warp(const tri_norm *norm) { return norm->width <= NORM_WARP_WIDTH; }

/* Returns the shape with a warp (at least 32 threads) or a block for each group, at most as many blocks as
 * tri_gpu_shape_of allows. */
static tri_gpu_shape grid_of(const tri_norm *norm) {
  return tri_gpu_shape_of(norm->rows.capacity * norm->groups, by_warp(norm) ? NORM_THREADS / 32 : 1);
}

/* Fails with TRI_UNSUPPORTED if the kernels' column indices, which have 32 bits, would overflow. */
static tri_status check_width(const tri_norm *norm) {
  enum { MOST_WIDTH = 1 << 30 };
  if (norm->width <= MOST_WIDTH) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "a norm over %lld elements is more than a GPU takes: there may be %d",
                  (long long)norm->width, MOST_WIDTH);
}

static tri_status forward(tri_queue *queue, const tri_norm *norm, const norm_forward_arguments *a) {
  const void *const arrays[] = {a->x, a->branch, a->sum, a->y, a->weight, a->bias};
  const tri_gpu_shape grid = grid_of(norm);
  TRI_TRY(check_width(norm));
  switch (path_of(norm, arrays, 6)) {
    case PATH_WARP: return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_forward_warp, norm->type, grid, a, sizeof *a);
    case PATH_BLOCK: return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_forward_block, norm->type, grid, a, sizeof *a);
    case PATH_ANY: break;
  }
  return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_forward_any, norm->type, grid, a, sizeof *a);
}

static tri_status backward_input(tri_queue *queue, const tri_norm *norm, const norm_backward_arguments *a) {
  const void *const arrays[] = {a->gradient_y, a->x, a->weight, a->gradient_x};
  const tri_gpu_shape grid = grid_of(norm);
  TRI_TRY(check_width(norm));
  switch (path_of(norm, arrays, 4)) {
    case PATH_WARP: return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_backward_warp, norm->type, grid, a, sizeof *a);
    case PATH_BLOCK: return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_backward_block, norm->type, grid, a, sizeof *a);
    case PATH_ANY: break;
  }
  return tri_gpu_launch(queue, TRI_GPU_KERNEL_norm_backward_any, norm->type, grid, a, sizeof *a);
}

static tri_status backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                  const void *mean, const void *rstd, void *gradient_weight, void *gradient_bias,
                                  bool accumulate) {
  const int sums = gradient_bias == NULL ? 1 : 2;
  tri_gpu_columns all;
  TRI_TRY(tri_gpu_columns_create(norm->type, norm->rows, norm->groups, norm->width, sums, &all));
  do {
    TRI_GPU_LAUNCH(norm_weight_slabs, norm->type, ((tri_gpu_shape){.x = tri_gpu_columns_slabs(&all) * all.strips}),
                   .shape = shape_of(norm), .gradient_y = gradient_y, .x = x, .mean = mean, .rstd = rstd,
                   .slabs = tri_gpu_scratch(queue), .cut = tri_gpu_columns_cut(&all), .sums = sums);
    TRI_TRY(tri_gpu_columns_total(queue, &all, norm->type, norm->rows, 0, gradient_weight, accumulate));
    if (gradient_bias == NULL) continue;
    TRI_TRY(tri_gpu_columns_total(queue, &all, norm->type, norm->rows, 1, gradient_bias, accumulate));
  } while (tri_gpu_columns_next(&all));
  return TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static tri_status gpu_layer_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                         void *sum, const void *weight, const void *bias, void *y, void *mean,
                                         void *rstd) {
  const norm_forward_arguments a = {.shape = shape_of(norm),
                                    .x = x,
                                    .branch = branch,
                                    .weight = weight,
                                    .bias = bias,
                                    .sum = sum,
                                    .y = y,
                                    .mean = mean,
                                    .rstd = rstd,
                                    .eps = norm->eps,
                                    .offset = norm->offset,
                                    .by_warp = by_warp(norm)};
  return forward(queue, norm, &a);
}

static tri_status gpu_rms_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                       void *sum, const void *weight, void *y, void *rstd) {
  return gpu_layer_norm_forward(queue, norm, x, branch, sum, weight, NULL, y, NULL, rstd);
}

static tri_status gpu_layer_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                const void *x, const void *weight, const void *mean, const void *rstd,
                                                void *gradient_x, bool accumulate) {
  const norm_backward_arguments a = {shape_of(norm), gradient_y,    x,         weight, mean, rstd, gradient_x,
                                     norm->offset,   by_warp(norm), accumulate};
  return backward_input(queue, norm, &a);
}

static tri_status gpu_rms_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                              const void *x, const void *weight, const void *rstd, void *gradient_x,
                                              bool accumulate) {
  return gpu_layer_norm_backward_input(queue, norm, gradient_y, x, weight, NULL, rstd, gradient_x, accumulate);
}

static tri_status gpu_layer_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                 const void *x, const void *mean, const void *rstd,
                                                 void *gradient_weight, void *gradient_bias, bool accumulate) {
  return backward_weight(queue, norm, gradient_y, x, mean, rstd, gradient_weight, gradient_bias, accumulate);
}

static tri_status gpu_rms_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                               const void *x, const void *rstd, void *gradient_weight,
                                               bool accumulate) {
  return backward_weight(queue, norm, gradient_y, x, NULL, rstd, gradient_weight, NULL, accumulate);
}

void tri_gpu_fill_norm(tri_device_kernels *out) {
  out->layer_norm_forward = gpu_layer_norm_forward;
  out->layer_norm_backward_input = gpu_layer_norm_backward_input;
  out->layer_norm_backward_weight = gpu_layer_norm_backward_weight;
  out->rms_norm_forward = gpu_rms_norm_forward;
  out->rms_norm_backward_input = gpu_rms_norm_backward_input;
  out->rms_norm_backward_weight = gpu_rms_norm_backward_weight;
}
