/* The forward: a block has a tile of queries of one head, and iterates over their keys with an online softmax (Milakov
 * and Gimelshein 2018; Dao et al. 2022). It keeps for each row
 *
 *   m    the largest score so far
 *   l    the sum of exp(score - m)
 *   out  the sum of exp(score - m) v, for the columns of the part; divided by l at the end
 *
 * If a new tile of keys has a larger score, l and out are multiplied by exp(old m - new m). Scores and m include the
 * factor log2(e), so that exp is exp2.
 *
 * A block has 4 or 2 warps, each with HIGH * 16 of its ATTENTION_OWN rows, in HIGH fragments; each row is in
 * FRAGMENT_ROW_LANES lanes (fragment.h). m is the same in all lanes of a row; l is the sum over the lane's own columns,
 * and added up at the end.
 *
 * While the scores of a tile of keys are computed, its values are copied to shared memory. While the values are summed,
 * the next keys are copied.
 *
 * A head wider than the tiles is processed in chunks for the scores. The scores are recomputed for each *part* of out,
 * the columns of one chunk. */
#ifndef TRI_DEVICE_GPU_KERNELS_ATTENTION_FORWARD_H
#define TRI_DEVICE_GPU_KERNELS_ATTENTION_FORWARD_H

#include "device/gpu/kernels/attention_walk.h"

/* fp64 uses fewer keys at a time, since their scores are in registers. */
enum { KEYS = sizeof(element) == 8 ? ATTENTION_KEYS / 2 : ATTENTION_KEYS, KEY_BLOCKS = KEYS / FRAGMENT };

/* The state of a block; the fragments, m and l are those of one thread. */
typedef struct forward {
  const attention_arguments *p;
  const element *q, *k, *v; /* addresses of the block's head in row 0 */
  int q_aligned, k_aligned, v_aligned;
  element *q_tile, *k_tile, *v_tile; /* shared memory [ATTENTION_OWN, width], [KEYS, width], [KEYS, width]; rows are
                                        width + VECTOR elements apart */
  fragment_scratch *scratch;         /* scratch of the warp: [HIGH] */
  int32_t head, part;                /* head: query head. part: index of the part */
  walk walk;
  wide m[HIGH][FRAGMENT_ROWS], l[HIGH][FRAGMENT_ROWS]; /* l: partial sums of the lane's own columns */
  fragment scores[HIGH][KEY_BLOCKS];                   /* scores of the tile of keys, later exp(score - m) */
  fragment out[HIGH][MOST_ACROSS];                     /* columns of the part */
} forward;

/* Returns the number of columns of a head in a chunk of `width`. */
DEVICE int32_t chunk_columns(const attention_arguments *p, int32_t chunk, const int width) {
  return smaller(p->head_dim - chunk * width, width);
}

/* Starts to copy a chunk of the queries to shared memory. All threads of the block call it; copies are complete after
 * copy_async_wait and a barrier, as in the next functions. */
DEVICE void load_queries(forward *f, int32_t chunk, const int width) {
  const int32_t first = f->walk.own_first;
  tile_load(f->q_tile, width + VECTOR, f->q + first * f->p->q_row + chunk * width, f->p->q_row, ATTENTION_OWN, width,
            f->p->query_rows - first, chunk_columns(f->p, chunk, width), f->q_aligned, ATTENTION_THREADS);
}

/* Returns the first row of the current keys and values. A tile is within one page, since the walk begins at a page and
 * advances by KEYS rows, a divisor of a page. */
DEVICE int64_t first_key_row(const forward *f) {
  const int32_t row = f->walk.slice.first_key + f->walk.at;
  if (f->p->pages == 0) return row;
  return (int64_t)f->p->pages[row / ATTENTION_PAGE] * ATTENTION_PAGE + row % ATTENTION_PAGE;
}

/* Starts to copy the current chunk of the keys, and also of the queries if heads are processed in chunks. Does nothing
 * after the end of the walk. */
DEVICE void load_keys(forward *f, const int width) {
  const walk *w = &f->walk;
  if (walk_is_done(w)) return;
  if (w->chunks > 1) load_queries(f, w->chunk, width);
  tile_load(f->k_tile, width + VECTOR, f->k + first_key_row(f) * f->p->k_row + w->chunk * width, f->p->k_row, KEYS,
            width, w->end - w->at, chunk_columns(f->p, w->chunk, width), f->k_aligned, ATTENTION_THREADS);
}

/* Starts to copy the values of the current keys, columns of the part. */
DEVICE void load_values(forward *f, const int width) {
  const walk *w = &f->walk;
  tile_load(f->v_tile, width + VECTOR, f->v + first_key_row(f) * f->p->v_row + f->part * width, f->p->v_row, KEYS,
            width, w->end - w->at, chunk_columns(f->p, f->part, width), f->v_aligned, ATTENTION_THREADS);
}

/* scores += q k^T over the columns of the current chunk. Reads q_tile and k_tile. */
DEVICE void add_scores(forward *f, const int width) {
  const int pitch = width + VECTOR, depth = chunk_columns(f->p, f->walk.chunk, width);
  UNROLL_SOME
  for (int d = 0; d < depth; d += FRAGMENT_K) {
    fragment_a a[HIGH];
    UNROLL
    for (int h = 0; h < HIGH; h++)
      a[h] = fragment_load_a(f->q_tile + (warp() * HIGH + h) * FRAGMENT * pitch + d, pitch, 0);
    UNROLL
    for (int j = 0; j < KEY_BLOCKS; j++) {
      const fragment_b b = fragment_load_b(f->k_tile + j * FRAGMENT * pitch + d, pitch, 1);
      UNROLL
      for (int h = 0; h < HIGH; h++) fragment_multiply_add(&f->scores[h][j], &a[h], &b);
    }
  }
}

/* Applies a soft cap: replaces products of q and k by tanh(share x product). */
DEVICE void cap_scores(forward *f) {
  const wide share = (wide)f->p->share;
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int j = 0; j < KEY_BLOCKS; j++) {
      UNROLL
      for (int r = 0; r < FRAGMENT_ROWS; r++) {
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++)
          f->scores[h][j].at[r][c] = wide_tanh(f->scores[h][j].at[r][c] * share);
      }
    }
  }
}

/* Sets masked scores to -infinity. Returns at once for a tile without masked scores, as most tiles are. */
DEVICE void mask_scores(forward *f) {
  const walk *w = &f->walk;
  const attention_slice *s = &w->slice;
  const int whole = w->own_first >= s->first_query && w->own_first + ATTENTION_OWN <= s->first_query + s->queries;
  if (whole && w->at + KEYS <= end_seen(s, w->own_first) && w->at >= first_seen(s, w->own_first + ATTENTION_OWN - 1))
    return;
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      const int32_t row = w->own_first + own_row(h, r);
      const int32_t begin = first_seen(s, row) - w->at, end = end_seen(s, row) - w->at;
      UNROLL
      for (int j = 0; j < KEY_BLOCKS; j++) {
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const int32_t key = j * FRAGMENT + fragment_column(c);
          if (key < begin || key >= end) f->scores[h][j].at[r][c] = -wide_infinity();
        }
      }
    }
  }
}

/* Completes the scores of a tile of keys: caps and masks them, raises m to the largest score, replaces each score by
 * exp(score - m), multiplies l and out by exp(old m - new m), and adds the sum of these exponentials to l. */
DEVICE void bring_up_to_date(forward *f, const int width) {
  const wide scale = (wide)(f->p->unit * LOG2_E);
  if (f->p->share > 0) cap_scores(f);
  mask_scores(f);
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      wide most = -wide_infinity(), sum = 0;
      UNROLL
      for (int j = 0; j < KEY_BLOCKS; j++) {
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const wide score = f->scores[h][j].at[r][c];
          if (!(score <= most)) most = score;
        }
      }
      most = fragment_row_maximum(most) * scale;
      if (most <= f->m[h][r]) most = f->m[h][r]; /* otherwise `most` is larger than m, or NaN */
      if (f->m[h][r] != f->m[h][r]) most = f->m[h][r];
      const wide base = most == -wide_infinity() ? 0 : most; /* 0 if all keys so far are masked */
      const wide old = wide_exp2(f->m[h][r] - base);
      UNROLL
      for (int j = 0; j < KEY_BLOCKS; j++) {
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const wide e = wide_exp2(wide_multiply_add(f->scores[h][j].at[r][c], scale, -base));
          f->scores[h][j].at[r][c] = e;
          sum += e;
        }
      }
      f->m[h][r] = most;
      f->l[h][r] = f->l[h][r] * old + sum;
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++) {
        if (n * FRAGMENT >= width) continue;
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) f->out[h][n].at[r][c] *= old;
      }
    }
  }
}

/* out += scores v over the keys of the tile. Reads v_tile. */
DEVICE void add_values(forward *f, const int width) {
  const int pitch = width + VECTOR, columns = chunk_columns(f->p, f->part, width);
  UNROLL
  for (int j = 0; j < KEY_BLOCKS; j++) {
    fragment_a kept[HIGH], a[HIGH];
    UNROLL
    for (int h = 0; h < HIGH; h++) fragment_give(&f->scores[h][j], f->scratch + h, &kept[h]);
    UNROLL_SOME
    for (int k = 0; k < FRAGMENT_STEPS; k++) {
      const element *values = f->v_tile + (j * FRAGMENT + k * FRAGMENT_K) * pitch;
      UNROLL
      for (int h = 0; h < HIGH; h++) a[h] = fragment_take(f->scratch + h, &kept[h], k);
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++) {
        if (n * FRAGMENT >= width || n * FRAGMENT >= columns) continue;
        const fragment_b b = fragment_load_b(values + n * FRAGMENT, pitch, 0);
        UNROLL
        for (int h = 0; h < HIGH; h++) fragment_multiply_add(&f->out[h][n], &a[h], &b);
      }
    }
  }
}

/* ---- input of a merge, and output -------------------------------------------------------------------------------- */

/* Returns the index in `out` of a column of the block's head. */
DEVICE int64_t out_at(const forward *f, int32_t row, int32_t column) {
  return row * f->p->out_row + f->head * f->p->out_head + column;
}

/* Initialises m, l and out of the rows. With `merge` they continue earlier calls: m = log_sum_exp (times log2(e)), l =
 * 1, and out as stored. Without `merge`, and for rows that have not attended to any key yet, m = -infinity, l = 0, out
 * = 0.
 */
DEVICE void begin_rows(forward *f, const int width) {
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      const int32_t row = f->walk.own_first + own_row(h, r);
      wide before = -wide_infinity();
      if (f->p->merge && row < f->p->query_rows)
        before = ((const wide *)f->p->log_sum_exp)[(int64_t)f->head * f->p->query_rows + row];
      const int some = before != -wide_infinity();
      f->m[h][r] = before * (wide)LOG2_E;
      f->l[h][r] = some && fragment_column(0) == 0 ? 1 : 0; /* l is a partial sum of each lane, so one lane has the 1 */
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++) {
        if (n * FRAGMENT >= width) continue;
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const int32_t column = f->part * width + n * FRAGMENT + fragment_column(c);
          f->out[h][n].at[r][c] =
              some && column < f->p->head_dim ? load_either(f->p->out, out_at(f, row, column), f->p->out_is_wide) : 0;
        }
      }
    }
  }
}

/* Returns whether the row attends to any key of the call. */
DEVICE int sees_anything(const forward *f, int32_t row) {
  for (int32_t i = f->walk.first_index; i < f->walk.end_index; i++) {
    const attention_slice s = slice_at(f->p->slices, i);
    if (names_rows(&s, 0, row, row + 1) && first_seen(&s, row) < end_seen(&s, row)) return 1;
  }
  return 0;
}

/* Stores out / l, and log_sum_exp. Rows that attend to no key of the call get 0 and -infinity, or stay unchanged with
 * `merge`. Only the last part stores log_sum_exp, because the beginning of each part reads the old one. */
DEVICE void end_rows(const forward *f, const int width) {
  const int last = f->part == f->walk.chunks - 1;
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      const int32_t row = f->walk.own_first + own_row(h, r);
      const wide l = fragment_row_sum(f->l[h][r]);
      if (row >= f->p->query_rows) continue;
      const int sees = sees_anything(f, row);
      if (!sees && f->p->merge) continue; /* the row stays unchanged */
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++) {
        if (n * FRAGMENT >= width) continue;
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const int32_t column = f->part * width + n * FRAGMENT + fragment_column(c);
          if (column < f->p->head_dim)
            store_either(f->p->out, out_at(f, row, column), f->p->out_is_wide, sees ? f->out[h][n].at[r][c] / l : 0);
        }
      }
      if (last && f->p->log_sum_exp != 0 && fragment_column(0) == 0)
        ((wide *)f->p->log_sum_exp)[(int64_t)f->head * f->p->query_rows + row] =
            sees ? f->m[h][r] * (wide)LN_2 + wide_log(l) : -wide_infinity();
    }
  }
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

DEVICE void clear_scores(forward *f) {
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int j = 0; j < KEY_BLOCKS; j++) fragment_clear(&f->scores[h][j]);
  }
}

/* Computes one part of out. All threads of the block call it; it has two barriers for each step of the walk. */
DEVICE void forward_part(forward *f, const int width) {
  begin_rows(f, width);
  if (f->walk.chunks == 1 && !walk_is_done(&f->walk)) load_queries(f, 0, width);
  load_keys(f, width);
  copy_async_commit();
  while (!walk_is_done(&f->walk)) {
    const int first = f->walk.chunk == 0, last = f->walk.chunk == f->walk.chunks - 1;
    copy_async_wait(0);
    barrier(); /* after this barrier the keys have arrived, and no thread reads the values */
    if (last) load_values(f, width);
    copy_async_commit();
    if (first) clear_scores(f);
    add_scores(f, width);
    if (last) bring_up_to_date(f, width);
    copy_async_wait(0);
    barrier(); /* after this barrier the values have arrived, and no thread reads the keys */
    walk_next(&f->walk, f->p->slices, 0, KEYS);
    load_keys(f, width);
    copy_async_commit();
    if (last) add_values(f, width);
  }
  end_rows(f, width);
}

/* Computes the block's rows of out and log_sum_exp. `tiles` is the block's shared memory; `width`: NARROW or WIDE. */
DEVICE void forward_block(const attention_arguments *p, element *tiles, const int width) {
  forward f;
  const int pitch = width + VECTOR;
  const int32_t chunks = (p->head_dim + width - 1) / width, blocks = (int32_t)blocks_x();
  /* With a causal mask, the last queries have the most keys, so they start first. */
  const int32_t first = (blocks - 1 - (int32_t)block_x()) * ATTENTION_OWN;
  f.p = p;
  f.head = (int32_t)block_y();
  f.q = (const element *)p->q + f.head * p->q_head;
  f.k = (const element *)p->k + f.head / p->group * p->k_head;
  f.v = (const element *)p->v + f.head / p->group * p->v_head;
  f.q_aligned = rows_are_aligned(f.q, p->q_row);
  f.k_aligned = rows_are_aligned(f.k, p->k_row);
  f.v_aligned = rows_are_aligned(f.v, p->v_row);
  f.q_tile = tiles;
  f.k_tile = f.q_tile + ATTENTION_OWN * pitch;
  f.v_tile = f.k_tile + KEYS * pitch;
  element *found = f.v_tile + KEYS * pitch;
  f.scratch = (fragment_scratch *)(void *)((char *)found + ATTENTION_FOUND_BYTES) + warp() * HIGH;
  const walk begin = walk_begin(p, 0, first, smaller(first + ATTENTION_OWN, p->query_rows), f.head, 1, chunks,
                                (int32_t *)(void *)found);
  for (f.part = 0; f.part < chunks; f.part++) {
    f.walk = begin;
    forward_part(&f, width);
    barrier();
  }
}

#endif
