/* Sorting rows into groups, and summing the results of a row's pairs: kernels/groups.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_GROUPS_H
#define TRI_DEVICE_GPU_KERNELS_GROUPS_H

#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_groups(K)                                                                                      \
  K(groups_sort, 256)                                                                                                  \
  K(groups_scan, 256)                                                                                                  \
  K(groups_begins, 1024)                                                                                               \
  K(groups_place, 256)                                                                                                 \
  K(sum_rows, 256)
enum { TRI_GPU_KERNELS_groups(TRI_GPU_THREADS) };

enum {
  GROUPS_TILE = 1024,          /* pairs that a block sorts, a power of two */
  GROUPS_TILE_BITS = 10,       /* log2 of GROUPS_TILE */
  GROUPS_MOST = (1 << 21) - 1, /* maximum number of groups: a 32-bit key has a group number, 0 .. groups, and a place in
                                * the tile */
  SUM_ROWS_AHEAD = 4           /* terms that are loaded at once */
};

/* A pair (row, j), with the number row * chosen + j, is one of a row's `chosen` choices of an expert. experts[capacity,
 * chosen] has the group of each pair; other numbers than 0 .. groups - 1: the pair has no group. counts[groups + 1,
 * tiles]: pairs per group and tile; the last row is for pairs without a group. */
typedef struct groups_sort_arguments {
  const int32_t *experts;
  int32_t *keys; /* sorted keys of each tile: the group in the upper bits, the place in the tile in the lower bits; may
                    be NULL */
  int32_t *counts;
  int64_t capacity, chosen, groups, tiles;
  const int32_t *count;
} groups_sort_arguments;

/* One block per row of counts, which are replaced by the prefix sums over tiles. totals[groups + 1]: pairs of each
 * group. */
typedef struct groups_scan_arguments {
  int32_t *counts, *totals;
  int64_t capacity, chosen, tiles;
  const int32_t *count;
} groups_scan_arguments;

/* begins[groups + 1]: the first place of each group, and the number of pairs with a group. One block. */
typedef struct groups_begins_arguments {
  const int32_t *totals;
  int32_t *begins;
  int64_t groups;
} groups_begins_arguments;

/* order[place]: number of the pair at each place; sources[place]: row of this pair; places[pair]: place of each pair,
 * or -1 for a pair without a group. Pairs without a group have the last places of `order`. On input, `places` holds the
 * sorted keys of each tile, and counts[groups + 1, tiles] the prefix sums of groups_scan. */
typedef struct groups_place_arguments {
  const int32_t *begins, *counts;
  int32_t *order, *sources, *places;
  int64_t groups, capacity, chosen, tiles;
  const int32_t *count;
} groups_place_arguments;

/* out[capacity, width] (+)= the sum of the rows places[capacity, terms] of in[.., width]; a place of -1 adds no term.
 */
typedef struct sum_rows_arguments {
  const int32_t *places;
  const void *in;
  void *out;
  int64_t capacity, terms, width;
  const int32_t *count;
  int32_t accumulate;
  int32_t no_padding;
} sum_rows_arguments;

#endif
