/* GEMMs of rows in groups, each group with its own matrix: the rows of an expert with the expert's matrix. Tiles are
 * those of matmul_tile.h.
 *
 *   grouped_*            c[rows of g, n] = a[rows of g, k] * b[g]. The host does not know the sizes of groups, so it
 *                        launches as many blocks as there can be tiles at most. Each block finds its group in `begins`;
 *                        blocks beyond the last tile return.
 *   grouped_gradient_*   c[g] = a[rows of g, m]^T * b[rows of g, n], the gradient of a group's matrix. The number of
 *                        tiles of a group is fixed.
 *
 * The invariant: tiles begin at a group's first row, and so does the sum over a group's rows. So the results of a group
 * do not depend on the other groups. */
#include "device/gpu/kernels/grouped.h"

#include "device/gpu/kernels/matmul_tile.h"
#include "device/gpu/kernels/scan.h"

/* ---- ranges of rows ---------------------------------------------------------------------------------------------- */

typedef struct row_range {
  int64_t first, rows; /* first: index of the first row. rows: number of rows */
} row_range;

/* Returns the rows of a group, limited to [0, all). */
DEVICE row_range rows_of_group(const grouped_arguments *a, int64_t group, int64_t all) {
  const int64_t first = a->begins[group], behind = a->begins[group + 1];
  const int64_t end = behind < all ? behind : all;
  row_range s;
  s.first = first < 0 ? 0 : first;
  s.rows = end > s.first ? end - s.first : 0;
  return s;
}

/* The result of find_group, in shared memory. */
typedef struct found_group {
  int group, before;    /* group: -1 if not found. before: number of row tiles of all groups before it */
  int each[MOST_WARPS]; /* scratch of the search */
} found_group;

/* Finds the group of row tile `tile`, where the row tiles of all groups are numbered consecutively. All threads of the
 * block call it, and each examines one group at a time. Ends with a barrier. */
DEVICE void find_group(const grouped_arguments *a, const int side, int64_t tile, found_group *found) {
  int64_t before = 0;
  if (thread() == 0) found->group = -1;
  for (int64_t base = 0; base < a->groups && before <= tile; base += threads()) {
    const int64_t group = base + thread();
    int all, own = 0;
    if (group < a->groups) own = (int)((rows_of_group(a, group, a->product.m).rows + side - 1) / side);
    const int64_t start = before + block_sum_before(own, found->each, &all);
    before += all;
    if (tile >= start && tile < start + own) {
      found->group = (int)group;
      found->before = (int)start;
    }
  }
  barrier();
}

/* Return the address of element i of an operand, and of c. */
DEVICE const void *element_at(const void *array, int64_t i) { return (const element *)array + i; }
DEVICE void *result_at(const matmul_arguments *p, int64_t i) {
  return p->c_is_wide ? (void *)((wide *)p->c + i) : (void *)((element *)p->c + i);
}

/* ---- the two forms ----------------------------------------------------------------------------------------------- */

/* Computes a tile of the product of a group's rows with its matrix. */
DEVICE void multiply_rows(const grouped_arguments *a, found_group *found, element *tiles, const int side,
                          const int threads) {
  matmul_arguments p = a->product;
  const int64_t columns = (p.n + side - 1) / side;
  find_group(a, side, block_x() / columns, found);
  if (found->group < 0) return; /* all threads of the block return */
  const row_range own = rows_of_group(a, found->group, p.m);
  p.a = element_at(p.a, own.first * p.lda);
  p.b = element_at(p.b, found->group * a->stride);
  p.c = result_at(&p, own.first * p.ldc);
  p.m = own.rows;
  multiply_tile(&p, block_x() - found->before * columns, tiles, side, threads);
}

/* Computes a tile of the gradient of a group's matrix. The gradient of a group without rows is set to zero, unless
 * gradients accumulate. */
DEVICE void multiply_columns(const grouped_arguments *a, element *tiles, const int side, const int threads) {
  matmul_arguments p = a->product;
  const int64_t each = ((p.m + side - 1) / side) * ((p.n + side - 1) / side), group = block_x() / each;
  const row_range own = rows_of_group(a, group, p.k);
  if (own.rows == 0 && p.accumulate) return; /* all threads of the block return */
  p.a = element_at(p.a, own.first * p.lda);
  p.b = element_at(p.b, own.first * p.ldb);
  p.c = result_at(&p, group * a->stride);
  p.k = own.rows;
  multiply_tile(&p, block_x() - group * each, tiles, side, threads);
}

KERNEL(grouped_large) {
  SHARED_ASKED(tile_memory, tiles);
  SHARED(found_group, found);
  multiply_rows(&a, found, (element *)(void *)tiles, MATMUL_LARGE, grouped_large_threads);
}

KERNEL(grouped_small) {
  SHARED_ASKED(tile_memory, tiles);
  SHARED(found_group, found);
  multiply_rows(&a, found, (element *)(void *)tiles, MATMUL_SMALL, grouped_small_threads);
}

KERNEL(grouped_gradient_large) {
  SHARED_ASKED(tile_memory, tiles);
  multiply_columns(&a, (element *)(void *)tiles, MATMUL_LARGE, grouped_gradient_large_threads);
}

KERNEL(grouped_gradient_small) {
  SHARED_ASKED(tile_memory, tiles);
  multiply_columns(&a, (element *)(void *)tiles, MATMUL_SMALL, grouped_gradient_small_threads);
}
