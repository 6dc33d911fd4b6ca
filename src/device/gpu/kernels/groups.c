/* Groups pairs (groups.h) by a counting sort in four kernels:
 *
 *   groups_sort     one block per tile of GROUPS_TILE pairs: sorts the tile by group in shared memory, and counts the
 *                   tile's pairs of each group
 *   groups_scan     one block per group: prefix sums of the counts over the tiles
 *   groups_begins   one block: prefix sums of the totals over the groups
 *   groups_place    one block per tile: the place of a pair is the beginning of its group, plus the group's pairs in
 *                   earlier tiles, plus the earlier pairs of the group in the tile
 *
 * A key has the group in its upper bits and the pair's place in the tile in its lower bits. So all keys are distinct,
 * and pairs of a group stay in order. */
#include "device/gpu/kernels/groups.h"

#include "device/gpu/kernels/rows.h"
#include "device/gpu/kernels/scan.h"
#include "device/gpu/kernels/sort.h"

/* Returns the number of existing pairs of a tile. */
DEVICE int pairs_of_tile(int64_t pairs, int64_t tile) {
  const int64_t left = pairs - tile * GROUPS_TILE;
  return (int)(left < 0 ? 0 : left < GROUPS_TILE ? left : GROUPS_TILE);
}

typedef struct tile_keys {
  uint64_t at[GROUPS_TILE];
} tile_keys;

/* Returns how many of the `count` sorted keys belong to groups before `group`, by bisection. Called by one thread. */
DEVICE int first_of_group(const tile_keys *keys, int count, int64_t group) {
  int low = 0;
  for (int step = GROUPS_TILE; step > 0; step /= 2) {
    if (low + step <= count && (int64_t)(keys->at[low + step - 1] >> GROUPS_TILE_BITS) < group) low += step;
  }
  return low;
}

KERNEL(groups_sort) {
  SHARED(tile_keys, keys);
  const int64_t begin = block_x() * GROUPS_TILE;
  const int here = pairs_of_tile(live_rows(a.capacity, a.count) * a.chosen, block_x());
  if (here == 0) return; /* all threads of the block return */
  int size = 1;
  while (size < here) size *= 2;
  for (int i = thread(); i < size; i += threads()) {
    uint64_t key = ~(uint64_t)0;
    if (i < here) {
      const int64_t expert = a.experts[begin + i];
      const int64_t group = expert >= 0 && expert < a.groups ? expert : a.groups;
      key = (uint64_t)group << GROUPS_TILE_BITS | (uint64_t)i;
    }
    keys->at[i] = key;
  }
  sort_keys(keys->at, size);
  for (int i = thread(); i < here && a.keys != 0; i += threads()) a.keys[begin + i] = (int32_t)(uint32_t)keys->at[i];
  for (int64_t group = thread(); group <= a.groups; group += threads()) {
    const int first = first_of_group(keys, here, group);
    a.counts[group * a.tiles + block_x()] = first_of_group(keys, here, group + 1) - first;
  }
}

typedef struct warp_counts {
  int each[MOST_WARPS];
} warp_counts;

KERNEL(groups_scan) {
  SHARED(warp_counts, shared);
  int32_t *counts = a.counts + block_x() * a.tiles;
  const int64_t tiles = (live_rows(a.capacity, a.count) * a.chosen + GROUPS_TILE - 1) / GROUPS_TILE;
  int before = 0;
  for (int64_t base = 0; base < tiles; base += threads()) {
    const int64_t tile = base + thread();
    int all;
    const int own = block_sum_before(tile < tiles ? counts[tile] : 0, shared->each, &all);
    if (tile < tiles) counts[tile] = before + own;
    before += all;
  }
  if (thread() == 0) a.totals[block_x()] = before;
}

KERNEL(groups_begins) {
  SHARED(warp_counts, shared);
  int before = 0;
  for (int64_t base = 0; base <= a.groups; base += threads()) {
    const int64_t group = base + thread();
    int all;
    const int own = block_sum_before(group <= a.groups ? a.totals[group] : 0, shared->each, &all);
    if (group <= a.groups) a.begins[group] = before + own;
    before += all;
  }
}

KERNEL(groups_place) {
  SHARED(tile_keys, keys);
  const int64_t begin = block_x() * GROUPS_TILE;
  const int here = pairs_of_tile(live_rows(a.capacity, a.count) * a.chosen, block_x());
  for (int i = thread(); i < here; i += threads()) keys->at[i] = (uint32_t)a.places[begin + i];
  barrier();
  for (int i = thread(); i < here; i += threads()) {
    const int64_t group = (int64_t)(keys->at[i] >> GROUPS_TILE_BITS);
    const int64_t pair = begin + (int64_t)(keys->at[i] % GROUPS_TILE);
    const int64_t place =
        a.begins[group] + a.counts[group * a.tiles + block_x()] + i - first_of_group(keys, here, group);
    a.order[place] = (int32_t)pair;
    a.sources[place] = (int32_t)quotient(pair, a.chosen);
    a.places[pair] = group < a.groups ? (int32_t)place : -1;
  }
}

/* ---- sums of rows ------------------------------------------------------------------------------------------------ */

/* Adds up to VECTOR columns of a row's terms to `sum`, in order. */
DEVICE void add_terms(const sum_rows_arguments *a, int64_t row, int64_t column, int aligned, wide sum[VECTOR]) {
  const int32_t *places = a->places + row * a->terms;
  const element *in = (const element *)a->in + column;
  for (int64_t first = 0; first < a->terms; first += SUM_ROWS_AHEAD) {
    wide term[SUM_ROWS_AHEAD][VECTOR];
    int there[SUM_ROWS_AHEAD];
    UNROLL for (int j = 0; j < SUM_ROWS_AHEAD; j++) {
      const int32_t place = first + j < a->terms ? places[first + j] : -1;
      there[j] = place >= 0;
      load_part(in + (there[j] ? place : 0) * a->width, aligned, there[j] ? a->width - column : 0, term[j]);
    }
    UNROLL for (int j = 0; j < SUM_ROWS_AHEAD; j++) {
      for (int k = 0; k < VECTOR; k++) {
        if (there[j]) sum[k] += term[j][k];
      }
    }
  }
}

/* Sums the terms of each row, with one thread per VECTOR columns of a row. */
KERNEL(sum_rows) {
  element *out = (element *)a.out;
  const int aligned = is_aligned(a.in) && is_aligned(out) && a.width % VECTOR == 0;
  const int64_t parts = (a.width + VECTOR - 1) / VECTOR, items = live_rows(a.capacity, a.count) * parts;
  for (int64_t i = block_x() * threads() + thread(); i < items; i += blocks_x() * threads()) {
    const int64_t row = quotient(i, parts), column = (i - row * parts) * VECTOR;
    element *to = out + row * a.width + column;
    wide sum[VECTOR];
    if (a.accumulate) {
      load_part(to, aligned, a.width - column, sum);
    } else {
      for (int k = 0; k < VECTOR; k++) sum[k] = 0;
    }
    add_terms(&a, row, column, aligned, sum);
    store_part(to, aligned, a.width - column, sum);
  }
}
