/* Layer norm and RMS norm of *pieces*: the groups of columns of each row. With n = (x - mean) rstd, w = weight + offset
 * and g = dy w:
 *
 *   y  = n w + bias
 *   dx = rstd (g - mean(g) - n mean(g n))
 *
 * rstd is a number; the others are vectors of `width` columns. RMS norm is the same without the means of x and g. A
 * narrow piece is processed by a warp, a wide one by a block (by_warp); pieces are numbered row * groups + group. The
 * squares of deviations are summed after the mean is known, since mean(x^2) - mean^2 cancels.
 *
 * The gradients of weight and bias are sums over all pieces, down columns, in two stages (columns.h).
 *
 * The kernels `warp` and `block` keep a piece in registers and read memory once: they need arrays aligned to 16 bytes,
 * and widths and strides of whole vectors. `any` has no such condition, and rereads memory. In both cases a thread has
 * the same columns, and adds them in the same order. */
#include "device/gpu/kernels/norm.h"

#include "device/gpu/kernels/columns.h"

/* ---- work of a thread -------------------------------------------------------------------------------------------- */

/* The pieces that a thread takes part in: `first`, first + step, ... below `end`. In each of them, the thread processes
 * VECTOR columns at a time, at `column`, column + columns, ... below `width`. */
typedef struct norm_walk {
  int64_t first, end, step;
  int column, columns, width;
} norm_walk;

/* Returns the number of pieces of existing rows. */
DEVICE int64_t live_pieces(const norm_shape *s) { return live_rows(s->capacity, s->count) * s->groups; }

DEVICE norm_walk walk_of(const norm_shape *s, int by_warp) {
  enum { WARPS = NORM_THREADS / WARP };
  norm_walk w;
  w.end = live_pieces(s);
  w.first = by_warp ? block_x() * WARPS + warp() : block_x();
  w.step = by_warp ? blocks_x() * WARPS : blocks_x();
  w.column = (by_warp ? lane() : thread()) * VECTOR;
  w.columns = (by_warp ? WARP : NORM_THREADS) * VECTOR;
  w.width = (int)s->width;
  return w;
}

/* The offsets of piece i in x and in y, in elements. */
typedef struct piece_place {
  int64_t x, y;
} piece_place;

DEVICE piece_place piece_place_of(const norm_shape *s, int64_t i) {
  const int64_t row = s->groups == 1 ? i : quotient(i, s->groups), group = i - row * s->groups;
  piece_place at;
  at.x = row * s->x_row + group * s->x_group;
  at.y = row * s->y_row + group * s->y_group;
  return at;
}

/* Return whether all pieces are aligned to 16 bytes. */
DEVICE int x_is_aligned(const norm_shape *s, const void *x) {
  return is_aligned(x) && s->x_row % VECTOR == 0 && s->x_group % VECTOR == 0;
}
DEVICE int y_is_aligned(const norm_shape *s, const void *y) {
  return is_aligned(y) && s->y_row % VECTOR == 0 && s->y_group % VECTOR == 0;
}

typedef struct warp_sums {
  wide each[MOST_WARPS];
} warp_sums;

/* Returns the sum over the threads of a piece, to all of them. A block's sum has barriers; `shared` is unused by warps.
 */
DEVICE wide piece_sum(int by_warp, wide own, warp_sums *shared) {
  return by_warp ? warp_sum(own) : block_sum(own, shared->each);
}

/* ---- a piece in registers ---------------------------------------------------------------------------------------- */

enum { KEPT = NORM_KEPT / VECTOR };

/* Loads the thread's columns of a piece to registers. */
DEVICE void keep(const element *from, const norm_walk *w, sixteen_bytes kept[KEPT]) {
  UNROLL for (int n = 0; n < KEPT; n++) {
    const int column = w->column + n * w->columns;
    if (column < w->width) kept[n] = *(const sixteen_bytes *)(const void *)(from + column);
  }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

DEVICE void add_to(wide to[VECTOR], const wide values[VECTOR]) {
  for (int j = 0; j < VECTOR; j++) to[j] += values[j];
}

/* Loads the thread's columns of the piece at offset `at` of x to registers. With a branch, stores x + branch in `sum`,
 * and keeps the rounded sum. */
DEVICE void keep_forward(const norm_forward_arguments *a, const norm_walk *w, int64_t at, sixteen_bytes kept[KEPT]) {
  const element *x = (const element *)a->x + at, *branch = (const element *)a->branch + at;
  element *sum = (element *)a->sum + at;
  if (a->branch == 0) {
    keep(x, w, kept);
    return;
  }
  UNROLL for (int n = 0; n < KEPT; n++) {
    const int column = w->column + n * w->columns;
    wide values[VECTOR], others[VECTOR];
    if (column >= w->width) continue;
    load_vector(x + column, values);
    load_vector(branch + column, others);
    add_to(values, others);
    store_vector((element *)(void *)&kept[n], values);
    *(sixteen_bytes *)(void *)(sum + column) = kept[n];
  }
}

/* Stores x + branch in `sum`, for a piece that is not kept in registers. It needs no barrier, because the thread that
 * stores a column is the one that reads it. */
DEVICE void add_branch(const norm_forward_arguments *a, const norm_walk *w, int64_t at) {
  const element *x = (const element *)a->x, *branch = (const element *)a->branch;
  element *sum = (element *)a->sum;
  for (int column = w->column; column < w->width; column += w->columns) {
    const int count = w->width - column;
    wide values[VECTOR], others[VECTOR];
    load_part(x + at + column, x_is_aligned(&a->shape, x), count, values);
    load_part(branch + at + column, x_is_aligned(&a->shape, branch), count, others);
    add_to(values, others);
    store_part(sum + at + column, x_is_aligned(&a->shape, sum), count, values);
  }
}

DEVICE wide sum_of(const wide values[VECTOR]) {
  wide sum = 0;
  for (int j = 0; j < VECTOR; j++) sum += values[j];
  return sum;
}

/* Returns the sum of squared deviations of the first `count` values. */
DEVICE wide squares_of(const wide values[VECTOR], wide mean, int count) {
  wide sum = 0;
  for (int j = 0; j < VECTOR; j++) {
    const wide deviation = values[j] - mean;
    if (j < count) sum += deviation * deviation;
  }
  return sum;
}

DEVICE wide rstd_of(wide squares, int width, double eps) { return 1 / wide_sqrt(squares / (wide)width + (wide)eps); }

/* Replaces x by n w, which is y without the bias. */
DEVICE void normalise(wide x[VECTOR], wide mean, wide rstd, const wide weight[VECTOR], wide offset) {
  for (int j = 0; j < VECTOR; j++) x[j] = (x[j] - mean) * rstd * (weight[j] + offset);
}

DEVICE void add_bias(wide x[VECTOR], const wide bias[VECTOR]) {
  for (int j = 0; j < VECTOR; j++) x[j] += bias[j];
}

/* Stores the statistics of piece i, by the thread with its first column. */
DEVICE void store_statistics(const norm_forward_arguments *a, const norm_walk *w, int64_t i, wide mean, wide rstd) {
  if (w->column > 0) return;
  if (a->mean != 0) ((wide *)a->mean)[i] = mean;
  ((wide *)a->rstd)[i] = rstd;
}

/* Return the mean of a piece in registers, and the sum of its squared deviations from the mean, to all its threads. */
DEVICE wide kept_mean(const norm_walk *w, int by_warp, const sixteen_bytes kept[KEPT], warp_sums *shared) {
  wide values[VECTOR], sum = 0;
  UNROLL for (int n = 0; n < KEPT; n++) {
    if (w->column + n * w->columns >= w->width) continue;
    unpack(&kept[n], values);
    sum += sum_of(values);
  }
  return piece_sum(by_warp, sum, shared) / (wide)w->width;
}

DEVICE wide kept_squares(const norm_walk *w, int by_warp, const sixteen_bytes kept[KEPT], wide mean,
                         warp_sums *shared) {
  wide values[VECTOR], sum = 0;
  UNROLL for (int n = 0; n < KEPT; n++) {
    if (w->column + n * w->columns >= w->width) continue;
    unpack(&kept[n], values);
    sum += squares_of(values, mean, VECTOR);
  }
  return piece_sum(by_warp, sum, shared);
}

/* Normalises the thread's pieces in registers. All threads of the block call it. */
DEVICE void forward_kept(const norm_forward_arguments *a, int by_warp, warp_sums *shared) {
  const norm_walk w = walk_of(&a->shape, by_warp);
  const wide *weight = (const wide *)a->weight, *bias = (const wide *)a->bias;
  for (int64_t i = w.first; i < w.end; i += w.step) {
    const piece_place at = piece_place_of(&a->shape, i);
    element *y = (element *)a->y + at.y;
    sixteen_bytes kept[KEPT];
    keep_forward(a, &w, at.x, kept);
    const wide mean = a->mean == 0 ? 0 : kept_mean(&w, by_warp, kept, shared);
    const wide rstd = rstd_of(kept_squares(&w, by_warp, kept, mean, shared), w.width, a->eps);
    UNROLL for (int n = 0; n < KEPT; n++) {
      const int column = w.column + n * w.columns;
      wide values[VECTOR], parameters[VECTOR];
      if (column >= w.width) continue;
      unpack(&kept[n], values);
      load_wide_vector(weight + column, parameters);
      normalise(values, mean, rstd, parameters, (wide)a->offset);
      if (bias != 0) {
        load_wide_vector(bias + column, parameters);
        add_bias(values, parameters);
      }
      store_vector(y + column, values);
    }
    store_statistics(a, &w, i, mean, rstd);
  }
}

KERNEL(norm_forward_warp) { forward_kept(&a, 1, (warp_sums *)0); }

KERNEL(norm_forward_block) {
  SHARED(warp_sums, shared);
  forward_kept(&a, 0, shared);
}

KERNEL(norm_forward_any) {
  SHARED(warp_sums, shared);
  const norm_walk w = walk_of(&a.shape, a.by_warp);
  const wide *weight = (const wide *)a.weight, *bias = (const wide *)a.bias;
  const element *all = (const element *)(a.branch == 0 ? a.x : a.sum);
  const int x_aligned = x_is_aligned(&a.shape, all), y_aligned = y_is_aligned(&a.shape, a.y);
  for (int64_t i = w.first; i < w.end; i += w.step) {
    const piece_place at = piece_place_of(&a.shape, i);
    const element *x = all + at.x;
    element *y = (element *)a.y + at.y;
    wide values[VECTOR], parameters[VECTOR], mean = 0, sum = 0;
    if (a.branch != 0) add_branch(&a, &w, at.x);
    for (int column = w.column; column < w.width && a.mean != 0; column += w.columns) {
      load_part(x + column, x_aligned, w.width - column, values);
      sum += sum_of(values);
    }
    if (a.mean != 0) mean = piece_sum(a.by_warp, sum, shared) / (wide)w.width;
    sum = 0;
    for (int column = w.column; column < w.width; column += w.columns) {
      load_part(x + column, x_aligned, w.width - column, values);
      sum += squares_of(values, mean, w.width - column);
    }
    const wide rstd = rstd_of(piece_sum(a.by_warp, sum, shared), w.width, a.eps);
    for (int column = w.column; column < w.width; column += w.columns) {
      const int count = w.width - column;
      load_part(x + column, x_aligned, count, values);
      load_wide_part(weight + column, is_aligned(weight), count, parameters);
      normalise(values, mean, rstd, parameters, (wide)a.offset);
      if (bias != 0) {
        load_wide_part(bias + column, is_aligned(bias), count, parameters);
        add_bias(values, parameters);
      }
      store_part(y + column, y_aligned, count, values);
    }
    store_statistics(&a, &w, i, mean, rstd);
  }
}

/* ---- backward, of the input -------------------------------------------------------------------------------------- */

/* State of a piece: its position, its statistics, the weights' offset, and the means of g and of g n (sums of the
 * thread until finish_means). */
typedef struct backward_piece {
  piece_place at;
  wide mean, rstd, offset, mean_g, mean_gn;
} backward_piece;

/* Begins a piece, with sums of zero. */
DEVICE backward_piece backward_piece_of(const norm_backward_arguments *a, int64_t i) {
  backward_piece p;
  p.at = piece_place_of(&a->shape, i);
  p.mean = a->mean == 0 ? 0 : ((const wide *)a->mean)[i];
  p.rstd = ((const wide *)a->rstd)[i];
  p.offset = (wide)a->offset;
  p.mean_g = p.mean_gn = 0;
  return p;
}

/* Replaces x by n, and dy by g. */
DEVICE void make_n_and_g(const backward_piece *p, const wide weight[VECTOR], wide x[VECTOR], wide dy[VECTOR]) {
  for (int j = 0; j < VECTOR; j++) {
    x[j] = (x[j] - p->mean) * p->rstd;
    dy[j] *= weight[j] + p->offset;
  }
}

/* Adds VECTOR columns to the thread's sums of g and of g n. */
DEVICE void add_to_means(backward_piece *p, const wide n[VECTOR], const wide g[VECTOR]) {
  for (int j = 0; j < VECTOR; j++) {
    p->mean_g += g[j];
    p->mean_gn += g[j] * n[j];
  }
}

/* Replaces the sums of the threads of a piece by the means. All threads of the piece call it. */
DEVICE void finish_means(backward_piece *p, const norm_backward_arguments *a, int by_warp, warp_sums *shared) {
  const wide width = (wide)a->shape.width;
  p->mean_g = a->mean == 0 ? 0 : piece_sum(by_warp, p->mean_g, shared) / width;
  p->mean_gn = piece_sum(by_warp, p->mean_gn, shared) / width;
}

/* Replaces g by dx. */
DEVICE void make_gradient(const backward_piece *p, const wide n[VECTOR], wide g[VECTOR]) {
  for (int j = 0; j < VECTOR; j++) g[j] = p->rstd * (g[j] - p->mean_g - n[j] * p->mean_gn);
}

/* Computes the gradient of x for the thread's pieces in registers. gradient_x may be gradient_y: a column is read only
 * by the thread that writes it, and before it is written. */
DEVICE void backward_kept(const norm_backward_arguments *a, int by_warp, warp_sums *shared) {
  const norm_walk w = walk_of(&a->shape, by_warp);
  const wide *weight = (const wide *)a->weight;
  for (int64_t i = w.first; i < w.end; i += w.step) {
    backward_piece p = backward_piece_of(a, i);
    element *dx = (element *)a->gradient_x + p.at.x;
    sixteen_bytes kept_x[KEPT], kept_dy[KEPT];
    wide n[VECTOR], g[VECTOR], others[VECTOR];
    keep((const element *)a->x + p.at.x, &w, kept_x);
    keep((const element *)a->gradient_y + p.at.y, &w, kept_dy);
    UNROLL for (int k = 0; k < KEPT; k++) {
      const int column = w.column + k * w.columns;
      if (column >= w.width) continue;
      unpack(&kept_x[k], n);
      unpack(&kept_dy[k], g);
      load_wide_vector(weight + column, others);
      make_n_and_g(&p, others, n, g);
      add_to_means(&p, n, g);
    }
    finish_means(&p, a, by_warp, shared);
    UNROLL for (int k = 0; k < KEPT; k++) {
      const int column = w.column + k * w.columns;
      if (column >= w.width) continue;
      unpack(&kept_x[k], n);
      unpack(&kept_dy[k], g);
      load_wide_vector(weight + column, others);
      make_n_and_g(&p, others, n, g);
      make_gradient(&p, n, g);
      if (a->accumulate) {
        load_vector(dx + column, others);
        add_to(g, others);
      }
      store_vector(dx + column, g);
    }
  }
}

KERNEL(norm_backward_warp) { backward_kept(&a, 1, (warp_sums *)0); }

KERNEL(norm_backward_block) {
  SHARED(warp_sums, shared);
  backward_kept(&a, 0, shared);
}

/* Computes n and g of VECTOR columns; g is zero beyond the piece. */
DEVICE void load_n_and_g(const norm_backward_arguments *a, const backward_piece *p, int column, wide n[VECTOR],
                         wide g[VECTOR]) {
  const wide *weight = (const wide *)a->weight + column;
  const int64_t count = a->shape.width - column;
  wide weights[VECTOR];
  load_part((const element *)a->x + p->at.x + column, x_is_aligned(&a->shape, a->x), count, n);
  load_part((const element *)a->gradient_y + p->at.y + column, y_is_aligned(&a->shape, a->gradient_y), count, g);
  load_wide_part(weight, is_aligned(weight), count, weights);
  make_n_and_g(p, weights, n, g);
}

KERNEL(norm_backward_any) {
  SHARED(warp_sums, shared);
  const norm_walk w = walk_of(&a.shape, a.by_warp);
  const int dx_aligned = x_is_aligned(&a.shape, a.gradient_x);
  for (int64_t i = w.first; i < w.end; i += w.step) {
    backward_piece p = backward_piece_of(&a, i);
    element *dx = (element *)a.gradient_x + p.at.x;
    wide n[VECTOR], g[VECTOR];
    for (int column = w.column; column < w.width; column += w.columns) {
      load_n_and_g(&a, &p, column, n, g);
      add_to_means(&p, n, g);
    }
    finish_means(&p, &a, a.by_warp, shared);
    for (int column = w.column; column < w.width; column += w.columns) {
      load_n_and_g(&a, &p, column, n, g);
      make_gradient(&p, n, g);
      if (a.accumulate) {
        load_part(dx + column, dx_aligned, w.width - column, n);
        add_to(g, n);
      }
      store_part(dx + column, dx_aligned, w.width - column, g);
    }
  }
}

/* ---- backward, of weight and bias -------------------------------------------------------------------------------- */

/* Computes stage 1, with one block per slab of pieces and strip of columns: the sums of dy n (weight) and, if a.sums is
 * 2, of dy (bias). */
KERNEL(norm_weight_slabs) {
  SHARED(column_shared, shared);
  const norm_shape *s = &a.shape;
  const int64_t live = live_pieces(s);
  const column_place at = column_place_of(&a.cut, s->width, live);
  const int x_aligned = x_is_aligned(s, a.x), dy_aligned = y_is_aligned(s, a.gradient_y);
  if ((a.cut.first_slab + at.slab) * a.cut.slab_rows >= live) return; /* all threads of the block return */
  wide weight[VECTOR], bias[VECTOR], x[VECTOR], dy[VECTOR];
  for (int j = 0; j < VECTOR; j++) weight[j] = bias[j] = 0;
  for (int64_t i = at.row; i < at.end && at.column < s->width; i += at.down) {
    const piece_place piece = piece_place_of(s, i);
    const wide mean = a.mean == 0 ? 0 : ((const wide *)a.mean)[i], rstd = ((const wide *)a.rstd)[i];
    load_part((const element *)a.x + piece.x + at.column, x_aligned, s->width - at.column, x);
    load_part((const element *)a.gradient_y + piece.y + at.column, dy_aligned, s->width - at.column, dy);
    for (int j = 0; j < VECTOR; j++) {
      weight[j] += dy[j] * ((x[j] - mean) * rstd);
      bias[j] += dy[j];
    }
  }
  wide *slab = (wide *)a.slabs + at.slab * a.sums * s->width;
  add_up_columns(&at, weight, shared, slab);
  if (a.sums > 1) add_up_columns(&at, bias, shared, slab + s->width);
}
