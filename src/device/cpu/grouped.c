/* GEMMs of rows in groups: the two functions of the device's tables, and the distribution of tiles.
 *
 * A GEMM's rows are cut in tiles, the rows of each group from its first row on: as many large tiles as fit, and one or
 * a few smaller tiles for the rest. The last tile may have fewer rows than its size. A row's bits are the same in tiles
 * of each size (grouped_plan.c), so the sizes only affect speed: large tiles read b less often, but every thread should
 * have some. A gradient is cut in tiles of each group's matrix. Threads take tiles one after the other. */
#include "device/cpu/grouped.h"

#include "base/count.h"

#include <omp.h>
#include <string.h>

static tri_status check_grouped(const tri_grouped_matmul *product) {
  const tri_matmul *p = &product->product;
  if (product->groups >= 0 && !p->bias && !(p->a_transposed && (p->b_transposed || p->b_packed))) return TRI_OK;
  return tri_fail_internal("products of %lld groups%s%s%s: a bias, or a gradient whose b is transposed or packed",
                           (long long)product->groups, p->bias ? ", bias" : "", p->b_transposed ? ", b transposed" : "",
                           p->b_packed ? ", b packed" : "");
}

/* Returns the bytes of the list of each group's first tile. */
static size_t list_bytes(const tri_grouped_matmul *product) {
  return tri_bytes_in_lines((size_t)(product->groups + 1) * sizeof(int64_t));
}

tri_status tri_cpu_grouped_workspace(const tri_device_description *of, const tri_grouped_matmul *product,
                                     size_t *bytes) {
  tri_grouped_plan *plan = NULL;
  TRI_TRY(check_grouped(product));
  TRI_TRY(tri_cpu_matmul_check(&product->product));
  TRI_TRY(tri_grouped_plan_find(tri_cpu_matmul_state_of(of), &product->product, &plan));
  *bytes = list_bytes(product) + plan->packed_bytes + (size_t)plan->threads * plan->thread_bytes;
  return TRI_OK;
}

/* ---- the tiles of a group ---------------------------------------------------------------------------------------- */

/* Returns the index of the size of the next tile if `left` rows are left: one tile for all of them if that costs less
 * than two. Sizes above `largest` are not used. */
static int next_size(const tri_grouped_plan *plan, int largest, int64_t left) {
  enum { ONE_MORE = 16 }; /* fixed cost of a tile, in rows: the tile reads b again */
  int below = -1, above = 0;
  if (left >= plan->sizes[largest]) return largest;
  while (plan->sizes[above] < left) below = above++;
  if (below < 0) return above;
  int last = 0;
  while (plan->sizes[last] < left - plan->sizes[below]) last++;
  return plan->sizes[above] <= plan->sizes[below] + ONE_MORE + plan->sizes[last] ? above : below;
}

typedef struct row_tile {
  int64_t first, live; /* range of the group's rows */
  int size;
} row_tile;

static row_tile tile_of(const tri_grouped_plan *plan, int largest, int64_t rows, int64_t which) {
  row_tile t = {0};
  const int64_t whole = rows / plan->sizes[largest], skipped = which < whole ? which : whole;
  t.first = skipped * plan->sizes[largest];
  for (int64_t i = skipped;; i++) {
    t.size = next_size(plan, largest, rows - t.first);
    t.live = plan->sizes[t.size] < rows - t.first ? plan->sizes[t.size] : rows - t.first;
    if (i == which) return t;
    t.first += t.live;
  }
}

static int64_t num_tiles(const tri_grouped_plan *plan, int largest, int64_t rows) {
  int64_t count = rows / plan->sizes[largest];
  for (int64_t left = rows % plan->sizes[largest]; left > 0; count++) {
    left -= plan->sizes[next_size(plan, largest, left)];
  }
  return count;
}

/* Returns the largest size that gives each thread several tiles. */
static int largest_size(const tri_grouped_plan *plan, int64_t rows) {
  enum { EACH = 4 };
  int largest = plan->num_sizes - 1;
  while (largest > 0 && rows / plan->sizes[largest] < (int64_t)EACH * plan->threads) largest--;
  return largest;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static int64_t group_of(const int64_t *tiles, int64_t groups, int64_t tile) {
  int64_t low = 0, high = groups; /* tiles[low] <= tile < tiles[high] */
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    *(tiles[middle] <= tile ? &low : &high) = middle;
  }
  return low;
}

static dnnl_status_t run_tile(const tri_grouped_call *at, int thread, int64_t group, const char *b, row_tile t) {
  const tri_matmul *p = at->product;
  const int64_t row = at->begins[group] + t.first;
  return tri_grouped_rows(at, thread, t.size, t.live, at->a + (size_t)(row * p->lda) * tri_dtype_bytes(p->a_type), b,
                          at->c + (size_t)(row * p->ldc) * tri_dtype_bytes(p->c_type));
}

/* Runs the tiles of groups [first, end), whose matrices begin at b. */
static tri_status run_groups(const tri_grouped_call *at, int largest, const int64_t *tiles, int64_t first, int64_t end,
                             const char *b) {
  int worst = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(at->plan->threads) reduction(max : worst)
  for (int64_t i = tiles[first]; i < tiles[end]; i++) {
    const int64_t group = group_of(tiles, at->groups, i), rows = at->begins[group + 1] - at->begins[group];
    const int status = (int)run_tile(at, omp_get_thread_num(), group, b + (group - first) * at->stride_bytes,
                                     tile_of(at->plan, largest, rows, i - tiles[group]));
    if (status > worst) worst = status;
  }
  return tri_onednn_check((dnnl_status_t)worst, "a matrix product of rows in groups");
}

/* Runs one group after the other, and packs its matrix first. */
static tri_status pack_and_run(tri_queue *queue, const tri_grouped_call *at, int largest, const int64_t *tiles,
                               char *packed) {
  tri_matmul packing = *at->product;
  packing.b_type = packing.a_type;
  for (int64_t g = 0; g < at->groups; g++) {
    if (tiles[g] == tiles[g + 1]) continue;
    TRI_TRY(tri_cpu_matmul_pack(queue, &packing, at->product->b_type, at->b + g * at->stride_bytes, packed));
    const int before = tri_matmul_enter(at->plan->threads);
    const tri_status status = run_groups(at, largest, tiles, g, g + 1, packed);
    tri_matmul_leave(before);
    TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status run_products(tri_queue *queue, const tri_grouped_call *at, int64_t *tiles, char *packed) {
  const int largest = largest_size(at->plan, at->begins[at->groups]);
  tiles[0] = 0;
  for (int64_t g = 0; g < at->groups; g++) {
    tiles[g + 1] = tiles[g] + num_tiles(at->plan, largest, at->begins[g + 1] - at->begins[g]);
  }
  if (at->plan->packs) return pack_and_run(queue, at, largest, tiles, packed);
  return run_groups(at, largest, tiles, 0, at->groups, at->b);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static tri_status run_gradients(const tri_grouped_call *at) {
  const int64_t across = at->plan->across.count, each = at->plan->down.count * across;
  int worst = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(at->plan->threads) reduction(max : worst)
  for (int64_t i = 0; i < at->groups * each; i++) {
    const int status =
        (int)tri_grouped_gradient(at, omp_get_thread_num(), i / each, i % each / across, i % each % across);
    if (status > worst) worst = status;
  }
  return tri_onednn_check((dnnl_status_t)worst, "a gradient of matrices by groups of rows");
}

tri_status tri_cpu_grouped_matmul(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                                  const void *a, const void *b, void *c, void *workspace) {
  const tri_matmul *p = &product->product;
  tri_grouped_plan *plan = NULL;
  TRI_TRY(check_grouped(product));
  TRI_TRY(tri_cpu_matmul_check(p));
  if (product->groups == 0 || p->m == 0 || p->n == 0) return TRI_OK;
  tri_cpu_matmul_state *state = tri_cpu_matmul_state_of(&queue->device->description);
  TRI_TRY(tri_grouped_plan_find(state, p, &plan));
  if (workspace == NULL) {
    return tri_fail_internal("products of rows in %lld groups were given no workspace", (long long)product->groups);
  }
  char *packed = (char *)workspace + list_bytes(product);
  const tri_dtype strided = p->a_transposed ? p->c_type : p->b_type;
  const tri_grouped_call at = {
      .state = state,
      .plan = plan,
      .product = p,
      .a = a,
      .b = b,
      .c = c,
      .threads_memory = packed + plan->packed_bytes,
      .begins = begins,
      .groups = product->groups,
      .stride_bytes = product->stride * (p->b_packed ? 1 : (int64_t)tri_dtype_bytes(strided)),
  };
  const int before = tri_matmul_enter(plan->threads);
  const tri_status status = p->a_transposed ? run_gradients(&at) : run_products(queue, &at, workspace, packed);
  tri_matmul_leave(before);
  return status;
}
