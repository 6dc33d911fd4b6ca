/* The iteration of a block in the attention kernels. A block owns a tile of rows of one side (queries or keys). It
 * visits, tile by tile, the rows of the other side that its own rows are paired with in the list of slices. The order:
 * head by head (if heads share keys), slice by slice in the order of the list, and in each slice from the first
 * unmasked row (rounded down to a page of keys, if keys have pages) to the last. A tile is visited once for each chunk
 * of a head.
 *
 * All threads of a block have the same walk, so that they reach the same barriers. Only walk_begin has a barrier. */
#ifndef TRI_DEVICE_GPU_KERNELS_ATTENTION_WALK_H
#define TRI_DEVICE_GPU_KERNELS_ATTENTION_WALK_H

#include "device/gpu/kernels/attention.h"
#include "device/gpu/kernels/fragment.h"

DEVICE int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
DEVICE int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* Returns a slice, with the edges of its band clamped so that they can be added to row numbers without overflow. */
DEVICE attention_slice slice_at(const attention_slice *slices, int32_t index) {
  attention_slice s = slices[index];
  s.from = smaller(larger(s.from, -s.queries), s.keys);
  s.to = smaller(larger(s.to, -s.queries), s.keys);
  return s;
}

/* Return the range [first_seen, end_seen) of the slice's keys, relative to its first key, that a row of q attends to.
 * The end is 0 if the row is not in the slice. */
DEVICE int32_t first_seen(const attention_slice *s, int32_t row) { return larger(row - s->first_query + s->from, 0); }
DEVICE int32_t end_seen(const attention_slice *s, int32_t row) {
  const int32_t i = row - s->first_query;
  if (i < 0 || i >= s->queries) return 0;
  return smaller(larger(i + s->to + 1, 0), s->keys);
}

/* Returns whether the slice has any of the rows first .. end - 1 (rows of keys if of_keys, else of queries). */
DEVICE int names_rows(const attention_slice *s, const int of_keys, int32_t first, int32_t end) {
  const int32_t from = of_keys ? s->first_key : s->first_query, count = of_keys ? s->keys : s->queries;
  return s->queries > 0 && s->keys > 0 && from < end && from + count > first;
}

/* A position in the iteration: a tile of rows of the other side. */
typedef struct walk {
  attention_slice slice;
  int32_t index, first_index, end_index; /* indices of slices */
  int32_t at, end;                       /* rows of the other side, relative to the slice's first row */
  int32_t head, end_head;
  int32_t chunk, chunks;      /* chunk of a head, if it is wider than the tiles */
  int32_t own_first, own_end; /* rows that the block owns */
  int32_t step; /* a power of 2; the first visited key, counted from the slice's first key, is a multiple of it (own
                   queries only) */
} walk;

DEVICE int walk_is_done(const walk *w) { return w->head >= w->end_head; }

/* Sets the range of rows of the other side for the slice at w->index; returns whether it is not empty. */
DEVICE int walk_enter(walk *w, const attention_slice *slices, const int own_keys) {
  w->slice = slice_at(slices, w->index);
  const attention_slice *s = &w->slice;
  if (!names_rows(s, own_keys, w->own_first, w->own_end)) return 0;
  if (own_keys) { /* from the first query that attends to the first own key to the last query that attends to the last
                   * own key */
    const int32_t first = larger(w->own_first - s->first_key, 0), end = smaller(w->own_end - s->first_key, s->keys);
    w->at = larger(first - s->to, 0);
    w->end = smaller(larger(end - s->from, 0), s->queries);
  } else { /* from the first key of the first own query to the last key of the last own query */
    w->at = first_seen(s, larger(w->own_first, s->first_query)) & -w->step;
    w->end = end_seen(s, smaller(w->own_end, s->first_query + s->queries) - 1);
  }
  return w->at < w->end;
}

/* Advances to the first slice from w->index on that has a nonempty range. Continues after the last slice with the first
 * one for the next head; the walk is done after the last head. */
DEVICE void walk_settle(walk *w, const attention_slice *slices, const int own_keys) {
  while (!walk_is_done(w)) {
    for (; w->index < w->end_index; w->index++) {
      if (walk_enter(w, slices, own_keys)) return;
    }
    w->index = w->first_index;
    w->head++;
  }
}

/* Advances to the next chunk of the same rows; after the last one, by `step` rows. */
DEVICE void walk_next(walk *w, const attention_slice *slices, const int own_keys, const int step) {
  if (++w->chunk < w->chunks) return;
  w->chunk = 0;
  w->at += step;
  if (w->at < w->end) return;
  w->index++;
  walk_settle(w, slices, own_keys);
}

/* Begins a walk for own rows first .. end - 1 and heads head .. head + heads - 1. All threads of the block call it:
 * each examines some of the slices, and the walk ranges from the first slice with any of the rows to the last one. Has
 * one barrier. `found` is shared memory of ATTENTION_FOUND_BYTES: two numbers for each warp. */
DEVICE walk walk_begin(const attention_arguments *p, const int own_keys, int32_t first, int32_t end, int32_t head,
                       int32_t heads, int32_t chunks, int32_t *found) {
  walk w;
  const attention_slice none = {0, 0, 0, 0, 0, 0};
  int32_t low = p->num_slices, high = 0;
  for (int32_t i = thread(); i < p->num_slices; i += threads()) {
    if (!names_rows(&p->slices[i], own_keys, first, end)) continue;
    low = smaller(low, i);
    high = i + 1;
  }
  for (int mask = 1; mask < WARP; mask *= 2) {
    low = smaller(low, shuffle_int(low, mask));
    high = larger(high, shuffle_int(high, mask));
  }
  if (lane() == 0) {
    found[2 * warp()] = low;
    found[2 * warp() + 1] = high;
  }
  barrier();
  for (int i = 0; i < block_warps(); i++) {
    low = smaller(low, found[2 * i]);
    high = larger(high, found[2 * i + 1]);
  }
  w.slice = none;
  w.index = w.first_index = low;
  w.end_index = high;
  w.at = w.end = w.chunk = 0;
  w.chunks = chunks;
  w.head = low < high ? head : head + heads;
  w.end_head = head + heads;
  w.own_first = first;
  w.own_end = end;
  w.step = p->pages == 0 ? 1 : ATTENTION_PAGE;
  walk_settle(&w, p->slices, own_keys);
  return w;
}

/* ---- shared by forward and backward ------------------------------------------------------------------------------ */

/* HIGH: number of fragments, one below the other, that cover the own rows of a warp. MOST_ACROSS: number of fragments,
 * side by side, that cover a row of a wide tile. */
enum {
  ATTENTION_THREADS = 128,
  HIGH = ATTENTION_OWN / FRAGMENT / (ATTENTION_THREADS / WARP),
  MOST_ACROSS = ATTENTION_WIDE / (int)sizeof(element) / FRAGMENT
};

/* Returns 2^x. */
DEVICE wide wide_exp2(wide x) {
#if TRI_GPU_TYPE == 64
  return exp2(x);
#else
  return exp2f(x);
#endif
}

#define LOG2_E 1.4426950408889634074
#define LN_2 0.69314718055994530942

/* Returns the index in the block's tile of a row of this lane: row r (fragment_row) of the warp's fragment h. */
DEVICE int own_row(int h, int r) { return (warp() * HIGH + h) * FRAGMENT + fragment_row(r); }

/* Load and store value `at` of an array (out or a gradient) of type wide if is_wide, else of type element. */
DEVICE wide load_either(const void *from, int64_t at, int is_wide) {
  return is_wide ? ((const wide *)from)[at] : load((const element *)from + at);
}
DEVICE void store_either(void *to, int64_t at, int is_wide, wide value) {
  if (is_wide) {
    ((wide *)to)[at] = value;
  } else {
    store((element *)to + at, value);
  }
}

#endif
