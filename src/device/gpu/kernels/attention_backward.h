/* The backward: one body for the kernels that compute the gradient of q and those that compute the gradients of k and
 * v. With s = q k^T scale, p = exp(s - log_sum_exp), g = gradient_out v^T, all [queries, keys], and D [queries] the sum
 * over d of out x gradient_out (Dao et al. 2022, algorithm 4),
 *
 *   ds = p (g - D),   gradient of q = ds k scale,   of k = ds^T q scale,   of v = p^T gradient_out.
 *
 * With a soft cap, s = cap t with t = tanh(q k^T scale / cap), and ds is also multiplied by 1 - t^2.
 *
 * A block owns either a tile of queries with their gradient_out, and iterates over keys and values; or a tile of keys
 * and values, and iterates over the queries of all heads that share them. In both cases the block computes s
 * (for keys s^T) as own[0] x other[0]^T and g (for keys g^T) as own[1] x other[1]^T, with a row for each own row. So
 * the code is the same with these meanings:
 *
 *              own[0]   own[1]         other[0]   other[1]        sums[0]          sums[1]
 *   queries    q        gradient_out   k          v               ds k             -
 *   keys       k        v              q          gradient_out    ds^T q           p^T gradient_out
 *
 * The sums stay in registers until the end. A warp has HIGH fragments of 16 own rows, by 16 rows of the other side
 * (ATTENTION_OTHERS).
 *
 * While one tile is processed, the next is copied. A head wider than the tiles is processed in chunks, and copies then
 * do not overlap with processing. There is a block for each *part* of the gradients, the columns of one chunk; the
 * part's own chunk comes last, so that it is still in shared memory for the sums. */
#ifndef TRI_DEVICE_GPU_KERNELS_ATTENTION_BACKWARD_H
#define TRI_DEVICE_GPU_KERNELS_ATTENTION_BACKWARD_H

#include "device/gpu/kernels/attention_walk.h"

/* One of q, k, v and gradient_out in device memory. row, head: strides in elements. aligned: whether 16 bytes can be
 * loaded at once. */
typedef struct heads {
  const element *at;
  int64_t row, head;
  int aligned;
} heads;

/* Returns the array with these strides, in elements. */
DEVICE heads heads_of(const void *at, int64_t row, int64_t head) {
  heads of;
  of.at = (const element *)at;
  of.row = row;
  of.head = head;
  of.aligned = rows_are_aligned(of.at, row) && head % VECTOR == 0;
  return of;
}

/* The state of a block; the fragments are those of one thread. */
typedef struct backward {
  const attention_arguments *p;
  heads own[2], other[2];
  element *own_tiles, *other_tiles; /* shared memory: two tiles [ATTENTION_OWN, width] of the own side, and two pairs of
                                       tiles [ATTENTION_OTHERS, width] of the other side, used alternately */
  fragment_scratch *scratch;        /* scratch of the warp: [HIGH] */
  int32_t own_head, part;           /* own_head: head of the block's own side. part: index of the part */
  fragment scores[HIGH], gradients[HIGH]; /* scores: s, later p. gradients: g, later ds */
  fragment sums[2][HIGH][MOST_ACROSS];    /* columns of the part */
} backward;

/* The numbers of a query that the gradients of its scores depend on. */
typedef struct statistic {
  wide log_sum_exp, sum; /* log_sum_exp: times log2(e). sum: D. Both 0 if the query attends to no key of the slice */
  int32_t begin, end;    /* range of the slice's keys that the query attends to */
} statistic;

/* Reads the numbers of query `row` of a head, for a slice. */
DEVICE statistic statistic_of(const attention_arguments *p, const attention_slice *s, int32_t head, int32_t row) {
  statistic of;
  of.log_sum_exp = of.sum = 0;
  of.begin = first_seen(s, row);
  of.end = end_seen(s, row);
  if (of.begin < of.end) {
    const int64_t at = (int64_t)head * p->query_rows + row;
    of.log_sum_exp = ((const wide *)p->log_sum_exp)[at] * (wide)LOG2_E;
    of.sum = ((const wide *)p->sums)[at];
  }
  return of;
}

/* Returns the chunk of the head at the walk's position: the part's own chunk comes last. */
DEVICE int32_t chunk_of(const backward *b, const walk *w) { return (b->part + 1 + w->chunk) % w->chunks; }

/* Starts to copy a chunk of rows first .. first + rows - 1 of a head to a tile; rows from `live` on become zero. All
 * threads of the block call it. */
DEVICE void load_side(element *tile, const heads *of, int32_t head, int32_t first, int32_t live, int32_t chunk,
                      int32_t head_dim, const int rows, const int width) {
  tile_load(tile, width + VECTOR, of->at + head * of->head + first * of->row + chunk * width, of->row, rows, width,
            live, smaller(head_dim - chunk * width, width), of->aligned, ATTENTION_THREADS);
}

/* Return a tile in shared memory. which: 0 or 1 as in own[] and other[]; turn: which of the two pairs. */
DEVICE element *own_tile(const backward *b, int which, const int width) {
  return b->own_tiles + which * ATTENTION_OWN * (width + VECTOR);
}
DEVICE element *other_tile(const backward *b, int turn, int which, const int width) {
  return b->other_tiles + (2 * turn + which) * ATTENTION_OTHERS * (width + VECTOR);
}

/* Starts to copy the current chunk of the own rows. */
DEVICE void load_own(const backward *b, const walk *w, const int width) {
  if (walk_is_done(w)) return;
  UNROLL
  for (int i = 0; i < 2; i++)
    load_side(own_tile(b, i, width), &b->own[i], b->own_head, w->own_first, w->own_end - w->own_first, chunk_of(b, w),
              b->p->head_dim, ATTENTION_OWN, width);
}

/* Starts to copy the current chunk of the current rows of the other side to pair `turn`. */
DEVICE void load_others(const backward *b, const walk *w, int turn, const int own_keys, const int width) {
  if (walk_is_done(w)) return;
  const int32_t head = own_keys ? w->head : w->head / b->p->group;
  const int32_t first = (own_keys ? w->slice.first_query : w->slice.first_key) + w->at;
  UNROLL
  for (int i = 0; i < 2; i++)
    load_side(other_tile(b, turn, i, width), &b->other[i], head, first, w->end - w->at, chunk_of(b, w), b->p->head_dim,
              ATTENTION_OTHERS, width);
}

/* Adds to s and g the products over the columns of the current chunk. */
DEVICE void add_products(backward *b, const walk *w, int turn, const int width) {
  const int pitch = width + VECTOR, depth = smaller(b->p->head_dim - chunk_of(b, w) * width, width);
  UNROLL_SOME
  for (int d = 0; d < depth; d += FRAGMENT_K) {
    const fragment_b score = fragment_load_b(other_tile(b, turn, 0, width) + d, pitch, 1);
    const fragment_b gradient = fragment_load_b(other_tile(b, turn, 1, width) + d, pitch, 1);
    UNROLL
    for (int h = 0; h < HIGH; h++) {
      const int at = (warp() * HIGH + h) * FRAGMENT * pitch + d;
      const fragment_a of_score = fragment_load_a(own_tile(b, 0, width) + at, pitch, 0);
      const fragment_a of_gradient = fragment_load_a(own_tile(b, 1, width) + at, pitch, 0);
      fragment_multiply_add(&b->scores[h], &of_score, &score);
      fragment_multiply_add(&b->gradients[h], &of_gradient, &gradient);
    }
  }
}

/* Replaces s by p, and g by ds; both are zero where the key is masked. `capped`: with a soft cap. */
DEVICE void make_gradients(backward *b, const walk *w, const int own_keys, const int capped) {
  const wide scale = (wide)(b->p->unit * LOG2_E), share = (wide)b->p->share;
  statistic of[FRAGMENT_COLUMNS];
  UNROLL
  for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
    if (own_keys) of[c] = statistic_of(b->p, &w->slice, w->head, w->slice.first_query + w->at + fragment_column(c));
  }
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      const int32_t row = w->own_first + own_row(h, r);
      UNROLL
      for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
        if (!own_keys && c == 0) of[0] = statistic_of(b->p, &w->slice, w->head, row);
        const statistic *s = own_keys ? &of[c] : &of[0];
        const int32_t key = own_keys ? row - w->slice.first_key : w->at + fragment_column(c);
        const int sees = key >= s->begin && key < s->end;
        wide *score = &b->scores[h].at[r][c], *gradient = &b->gradients[h].at[r][c];
        const wide t = capped ? wide_tanh(*score * share) : *score;
        *score = sees ? wide_exp2(wide_multiply_add(t, scale, -s->log_sum_exp)) : 0;
        *gradient = sees ? *score * (*gradient - s->sum) : 0;
        if (capped) *gradient *= 1 - t * t;
      }
    }
  }
}

/* sums[which] += made x other[which], for the columns of the part. made is ds or p, one fragment for each h. */
DEVICE void add_sums(backward *b, const fragment *made, int which, int turn, const int width) {
  const int pitch = width + VECTOR, columns = b->p->head_dim - b->part * width;
  fragment_a kept[HIGH], a[HIGH];
  UNROLL
  for (int h = 0; h < HIGH; h++) fragment_give(&made[h], b->scratch + h, &kept[h]);
  UNROLL_SOME
  for (int k = 0; k < FRAGMENT_STEPS; k++) {
    const element *rows = other_tile(b, turn, which, width) + k * FRAGMENT_K * pitch;
    UNROLL
    for (int h = 0; h < HIGH; h++) a[h] = fragment_take(b->scratch + h, &kept[h], k);
    UNROLL
    for (int n = 0; n < MOST_ACROSS; n++) {
      if (n * FRAGMENT >= width || n * FRAGMENT >= columns) continue;
      const fragment_b other = fragment_load_b(rows + n * FRAGMENT, pitch, 0);
      UNROLL
      for (int h = 0; h < HIGH; h++) fragment_multiply_add(&b->sums[which][h][n], &a[h], &other);
    }
  }
}

/* Processes one chunk of a tile of the other side, which is in pair `turn`. After the last chunk, the scores are
 * complete: computes p and ds, and adds to the sums. */
DEVICE void backward_step(backward *b, const walk *w, int turn, const int own_keys, const int width) {
  if (w->chunk == 0) {
    UNROLL
    for (int h = 0; h < HIGH; h++) {
      fragment_clear(&b->scores[h]);
      fragment_clear(&b->gradients[h]);
    }
  }
  add_products(b, w, turn, width);
  if (w->chunk < w->chunks - 1) return;
  if (b->p->share > 0) {
    make_gradients(b, w, own_keys, 1);
  } else {
    make_gradients(b, w, own_keys, 0);
  }
  add_sums(b, b->gradients, 0, turn, width);
  if (own_keys) add_sums(b, b->scores, 1, turn, width);
}

/* Stores scale * sums[which] in a gradient (adds them with `accumulate`), for the own rows and the columns of the part.
 */
DEVICE void store_sums(const backward *b, const walk *w, int which, void *to, wide scale, const int width) {
  const int64_t head = b->own_head * b->own[which].head;
  UNROLL
  for (int h = 0; h < HIGH; h++) {
    UNROLL
    for (int r = 0; r < FRAGMENT_ROWS; r++) {
      const int32_t row = w->own_first + own_row(h, r);
      if (row >= w->own_end) continue;
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++) {
        if (n * FRAGMENT >= width) continue;
        UNROLL
        for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
          const int32_t column = b->part * width + n * FRAGMENT + fragment_column(c);
          const int64_t at = head + row * b->own[which].row + column;
          wide value = b->sums[which][h][n].at[r][c] * scale;
          if (column >= b->p->head_dim) continue;
          if (b->p->accumulate) value += load_either(to, at, b->p->gradient_is_wide);
          store_either(to, at, b->p->gradient_is_wide, value);
        }
      }
    }
  }
}

/* Initialises the state of a block: its arrays, tiles, head and part, and sums of zero. */
DEVICE void backward_begin(backward *b, const attention_arguments *p, element *tiles, const int own_keys,
                           const int width) {
  const int queries = own_keys ? 1 : 0; /* index of the own side in `sides`: 0 queries, 1 keys */
  heads sides[2][2];
  sides[0][0] = heads_of(p->q, p->q_row, p->q_head);
  sides[0][1] = heads_of(p->gradient_out, p->out_row, p->out_head);
  sides[1][0] = heads_of(p->k, p->k_row, p->k_head);
  sides[1][1] = heads_of(p->v, p->v_row, p->v_head);
  b->p = p;
  b->own_head = (int32_t)block_y();
  b->part = (int32_t)block_z();
  b->own_tiles = tiles;
  b->other_tiles = tiles + 2 * ATTENTION_OWN * (width + VECTOR);
  UNROLL
  for (int i = 0; i < 2; i++) {
    b->own[i] = sides[queries][i];
    b->other[i] = sides[1 - queries][i];
    UNROLL
    for (int h = 0; h < HIGH; h++) {
      UNROLL
      for (int n = 0; n < MOST_ACROSS; n++)
        if (n * FRAGMENT < width) fragment_clear(&b->sums[i][h][n]);
    }
  }
}

/* Computes the block's rows of the gradient of q (own_keys 0), or of the gradients of k and v (own_keys 1). `tiles` is
 * the block's shared memory; `width` is NARROW or WIDE. The function has one barrier for each step of the walk, and a
 * second one if heads are processed in chunks. */
DEVICE void backward_block(const attention_arguments *p, element *tiles, const int own_keys, const int width) {
  backward b;
  const int32_t chunks = (p->head_dim + width - 1) / width;
  /* In a causal slice, the first keys have the most queries, and the last queries the most keys: these tiles start
   * first. */
  const int32_t tile = (int32_t)(own_keys ? block_x() : blocks_x() - 1 - block_x());
  const int32_t first = tile * ATTENTION_OWN;
  const int32_t end = smaller(first + ATTENTION_OWN, own_keys ? p->key_rows : p->query_rows);
  char *behind = (char *)(tiles + ATTENTION_BACKWARD_ROWS * (width + VECTOR));
  backward_begin(&b, p, tiles, own_keys, width);
  b.scratch = (fragment_scratch *)(void *)(behind + ATTENTION_FOUND_BYTES) + warp() * HIGH;
  walk w = walk_begin(p, own_keys, first, end, own_keys ? b.own_head * p->group : b.own_head, own_keys ? p->group : 1,
                      chunks, (int32_t *)(void *)behind);
  if (walk_is_done(&w) && p->accumulate) return;
  load_own(&b, &w, width);
  load_others(&b, &w, 0, own_keys, width);
  copy_async_commit();
  for (int turn = 0; !walk_is_done(&w);) {
    walk next = w;
    walk_next(&next, p->slices, own_keys, ATTENTION_OTHERS);
    copy_async_wait(0);
    barrier(); /* after this barrier the tile has arrived, and no thread reads the previous one */
    if (chunks == 1) load_others(&b, &next, 1 - turn, own_keys, width);
    copy_async_commit();
    backward_step(&b, &w, turn, own_keys, width);
    w = next;
    if (chunks == 1) {
      turn = 1 - turn;
      continue;
    }
    barrier();
    load_own(&b, &w, width);
    load_others(&b, &w, 0, own_keys, width);
    copy_async_commit();
  }
  store_sums(&b, &w, 0, own_keys ? p->gradient_k : p->gradient_q, (wide)p->scale, width);
  if (own_keys) store_sums(&b, &w, 1, p->gradient_v, 1, width);
}

/* ---- D ----------------------------------------------------------------------------------------------------------- */

enum { SUM_LANES = 8 }; /* lanes per row of a head */

/* Returns the lane's part of a row's D: every SUM_LANES-th VECTOR of the head from column `first` on. */
DEVICE wide sum_of_products(const attention_row_sums_arguments *p, int64_t at, int first) {
  const element *out = (const element *)p->out + at, *gradient = (const element *)p->gradient_out + at;
  const wide *out_wide = (const wide *)p->out + at;
  const int aligned = is_aligned(gradient) && is_aligned(p->out_is_wide ? (const void *)out_wide : (const void *)out);
  wide x[VECTOR], y[VECTOR], sum = 0;
  for (int64_t d = first; d < p->head_dim; d += SUM_LANES * VECTOR) {
    if (aligned && d + VECTOR <= p->head_dim) {
      load_vector(gradient + d, y);
      if (p->out_is_wide) {
        load_wide_vector(out_wide + d, x);
      } else {
        load_vector(out + d, x);
      }
      UNROLL
      for (int j = 0; j < VECTOR; j++) sum += x[j] * y[j];
    } else {
      ONE_BY_ONE
      for (int j = 0; j < VECTOR && d + j < p->head_dim; j++)
        sum += load_either(p->out, at + d + j, p->out_is_wide) * load(gradient + d + j);
    }
  }
  return sum;
}

/* Computes D [heads, rows]. SUM_LANES adjacent lanes compute each number. */
DEVICE void row_sums(const attention_row_sums_arguments *p) {
  const int64_t count = p->rows * p->heads, step = blocks_x() * (threads() / SUM_LANES);
  for (int64_t base = block_x() * (threads() / SUM_LANES); base < count; base += step) {
    const int64_t i = base + thread() / SUM_LANES, row = i / p->heads, head = i % p->heads;
    wide sum = 0;
    if (i < count) sum = sum_of_products(p, row * p->row + head * p->head, thread() % SUM_LANES * VECTOR);
    for (int mask = 1; mask < SUM_LANES; mask *= 2) sum += shuffle_wide(sum, mask);
    if (i < count && thread() % SUM_LANES == 0) ((wide *)p->sums)[head * p->rows + row] = sum;
  }
}

#endif
