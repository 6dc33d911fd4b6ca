/* Launches the kernels of kernels/router.c. */
#include "base/router.h"

#include "device/gpu/groups.h"

_Static_assert((int)ROUTER_EXPERTS == (int)TRI_ROUTER_EXPERTS && (int)ROUTER_CHOSEN == (int)TRI_ROUTER_CHOSEN,
               "the experts of a token are stored in fast memory");

static int32_t is_sigmoid(tri_router_scoring scoring) {
  switch (scoring) {
    case TRI_ROUTER_SIGMOID: return 1;
    case TRI_ROUTER_SOFTMAX: return 0;
  }
  return 0;
}

static router_kind kind_of(const tri_router *r) {
  return (router_kind){.experts = (int32_t)r->experts,
                       .chosen = (int32_t)r->chosen,
                       .groups = (int32_t)r->groups,
                       .kept_groups = (int32_t)r->kept_groups,
                       .best_of_group = (int32_t)r->best_of_group,
                       .sigmoid = is_sigmoid(r->scoring),
                       .quota = r->quota,
                       .normalised = r->normalised,
                       .scale = r->scale};
}

/* Fails with TRI_INTERNAL for impossible sizes, because kernels index experts without checks. */
static tri_status check(const tri_router *r) {
  const bool sizes = r->experts >= 1 && r->experts <= TRI_ROUTER_EXPERTS && r->chosen >= 1 &&
                     r->chosen <= TRI_ROUTER_CHOSEN && r->groups >= 1 && r->experts % r->groups == 0;
  if (sizes) {
    const int64_t width = r->experts / r->groups;
    const bool kept = r->kept_groups >= 1 && r->kept_groups <= r->groups && r->best_of_group >= 1 &&
                      r->best_of_group <= width && r->chosen <= r->kept_groups * width;
    if (kept && (!r->quota || r->chosen % r->kept_groups == 0)) return TRI_OK;
  }
  return tri_fail_internal("a router of %lld of %lld experts, %lld of %lld groups by %lld, makes no sense",
                           (long long)r->chosen, (long long)r->experts, (long long)r->kept_groups, (long long)r->groups,
                           (long long)r->best_of_group);
}

/* ---- a warp for each row ----------------------------------------------------------------------------------------- */

/* Returns the shape with a warp for each row, and `warp_bytes` of shared memory for each warp. */
static tri_gpu_shape warps_of_rows(const tri_queue *queue, tri_rows rows, int threads, size_t warp_bytes) {
  const tri_gpu *gpu = queue->device->state;
  tri_gpu_shape shape = tri_gpu_shape_of(rows.capacity * gpu->facts.warp, threads);
  shape.shared_bytes = (size_t)(threads / gpu->facts.warp) * warp_bytes;
  return shape;
}

static size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

static tri_status gpu_router_forward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                     const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                                     void *weights) {
  TRI_TRY(check(router));
  /* The arrays of router_memory (kernels/router_choice.h): numbers in the wide type, and an int32_t for each group. */
  const size_t numbers = (size_t)(router->experts + router->groups + router->chosen);
  const size_t warp_bytes = round_up(numbers * tri_dtype_bytes(tri_dtype_wide(type)) + (size_t)router->groups * 4);
  TRI_GPU_LAUNCH(router_forward, type, warps_of_rows(queue, rows, router_forward_threads, warp_bytes), .labels = labels,
                 .logits = logits, .bias = bias, .experts = experts, .weights = weights, .capacity = rows.capacity,
                 .warp_bytes = (int64_t)warp_bytes, .count = rows.count, .kind = kind_of(router));
  return TRI_OK;
}

static tri_status gpu_router_backward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                      const void *logits, const int32_t *experts, const void *weights,
                                      const void *gradient_weights, const void *balance, int64_t first_row,
                                      int64_t sequence_rows, double z, const tri_step_values *values,
                                      void *gradient_logits) {
  (void)weights; /* the kernel recomputes the weights, because it needs the scores anyway */
  TRI_TRY(check(router));
  const size_t warp_bytes = round_up((size_t)router->experts * tri_dtype_bytes(tri_dtype_wide(type)));
  TRI_GPU_LAUNCH(router_backward, type, warps_of_rows(queue, rows, router_backward_threads, warp_bytes),
                 .logits = logits, .experts = experts, .gradient_weights = gradient_weights, .balance = balance,
                 .values = values, .gradient_logits = gradient_logits, .capacity = rows.capacity,
                 .warp_bytes = (int64_t)warp_bytes, .first_row = first_row, .sequence_rows = sequence_rows,
                 .count = rows.count, .z = z, .kind = kind_of(router));
  return TRI_OK;
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

enum { SLAB_ROWS = 64 }; /* smallest number of rows of a slab */

/* Returns the number of rows of a slab. A *slab* is a range of a sequence's rows whose loads one block sums. The number
 * is SLAB_ROWS, doubled until the sums of all slabs (load_bytes each) fit into the scratch memory, or until each
 * sequence is one slab, whose sums need no scratch memory. */
static int64_t slab_rows_of(int64_t sequence_rows, int64_t sequences, int64_t load_bytes) {
  int64_t rows = SLAB_ROWS;
  while (rows < sequence_rows &&
         (sequence_rows + rows - 1) / rows > TRI_GPU_SCRATCH_BYTES / load_bytes / (sequences < 1 ? 1 : sequences)) {
    rows *= 2;
  }
  return rows;
}

static tri_status gpu_router_loads(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                   const void *logits, const int32_t *experts, int64_t first_row, int64_t sequence_rows,
                                   int64_t sequences, void *loads) {
  TRI_TRY(check(router));
  const int64_t width = 2 * router->experts, bytes = width * (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  const int64_t slab_rows = slab_rows_of(sequence_rows, sequences, bytes);
  const int64_t num_slabs = (sequence_rows + slab_rows - 1) / slab_rows;
  const bool nothing = rows.capacity == 0; /* arrays without rows may have no memory */
  void *slabs = num_slabs == 1 ? loads : tri_gpu_scratch(queue);
  TRI_GPU_LAUNCH(router_loads, type, ((tri_gpu_shape){.x = sequences * num_slabs}), .logits = nothing ? NULL : logits,
                 .experts = nothing ? NULL : experts, .slabs = slabs, .capacity = rows.capacity, .first_row = first_row,
                 .sequence_rows = sequence_rows, .slab_rows = slab_rows, .num_slabs = num_slabs, .count = rows.count,
                 .kind = kind_of(router));
  if (num_slabs == 1) return TRI_OK;
  TRI_GPU_LAUNCH(router_load_totals, type, tri_gpu_shape_of(sequences * width, router_load_totals_threads),
                 .slabs = slabs, .loads = loads, .sequences = sequences, .num_slabs = num_slabs, .width = width);
  return TRI_OK;
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Adds the partial sums of the previous kernel's blocks, which are in scratch memory, to the loss. */
static tri_status add_parts(tri_queue *queue, tri_dtype type, int64_t count, double *loss) {
  TRI_GPU_LAUNCH(sum_total, type, ((tri_gpu_shape){.x = 1}), .parts = tri_gpu_scratch(queue), .out = loss,
                 .count = count, .accumulate = true);
  return TRI_OK;
}

static tri_status gpu_router_balance(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                                     double coefficient, const tri_step_values *values, const void *loads,
                                     void *balance, double *loss) {
  TRI_TRY(check(router));
  if (sequences == 0) return TRI_OK;
  TRI_GPU_LAUNCH(router_balance, type, ((tri_gpu_shape){.x = sequences}), .values = values, .loads = loads,
                 .balance = balance, .parts = tri_gpu_scratch(queue), .coefficient = coefficient,
                 .kind = kind_of(router));
  return add_parts(queue, type, sequences, loss);
}

static tri_status gpu_router_z_loss(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router, double z,
                                    const tri_step_values *values, const void *logits, const int32_t *experts,
                                    double *loss) {
  const int64_t parts = (rows.capacity + ROUTER_Z_ROWS - 1) / ROUTER_Z_ROWS;
  TRI_TRY(check(router));
  if (rows.capacity == 0) return TRI_OK;
  TRI_GPU_LAUNCH(router_z_loss, type, ((tri_gpu_shape){.x = parts}), .values = values, .logits = logits,
                 .experts = experts, .parts = tri_gpu_scratch(queue), .capacity = rows.capacity, .count = rows.count,
                 .z = z, .kind = kind_of(router));
  return add_parts(queue, type, parts, loss);
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* Adds to counts[experts + 1] the number of rows of each expert, and in the last element the number of rows with a
 * weight that is not finite. router_not_finite counts these rows in the last row of `table`, and overwrites the
 * counts of pairs without an expert there. */
static tri_status gpu_router_count(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                   const int32_t *experts, const void *weights, int64_t *counts) {
  const tri_gpu_pairs pairs = {rows, router->chosen, router->experts};
  tri_gpu_group_counts table = {0};
  TRI_TRY(check(router));
  if (rows.capacity == 0) return TRI_OK;
  TRI_TRY(tri_gpu_count_groups(queue, type, &pairs, experts, NULL, &table));
  TRI_GPU_LAUNCH(router_not_finite, type, ((tri_gpu_shape){.x = table.tiles}), .weights = weights,
                 .found = table.counts + router->experts * table.tiles, .capacity = rows.capacity,
                 .chosen = router->chosen, .count = rows.count);
  TRI_GPU_LAUNCH(router_count, type, ((tri_gpu_shape){.x = router->experts + 1}), .tiles = table.counts,
                 .counts = counts, .capacity = rows.capacity, .chosen = router->chosen, .stride = table.tiles,
                 .count = rows.count);
  return TRI_OK;
}

void tri_gpu_fill_router(tri_device_kernels *out) {
  out->router_forward = gpu_router_forward;
  out->router_backward = gpu_router_backward;
  out->router_loads = gpu_router_loads;
  out->router_balance = gpu_router_balance;
  out->router_z_loss = gpu_router_z_loss;
  out->router_count = gpu_router_count;
}
