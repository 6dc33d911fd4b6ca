/* Element-wise kernels: sums, scaling, conversion, copies of rows, activations, dropout and rotary embeddings.
 *
 * An *item* is one element, or several adjacent elements if all addresses and widths allow accesses of 16 bytes: VECTOR
 * elements, CONVERTED in conversions, DRAWN in dropout. A thread processes items in strides of the whole grid, so that
 * any number of blocks gives the same result (weighted_gated_backward: a warp processes a row). The same function
 * computes an element whether or not arrays are aligned, so the bits do not depend on the alignment. No kernel has a
 * barrier. */
#include "device/gpu/kernels/elements.h"

#include "device/gpu/kernels/activations.h"
#include "device/gpu/kernels/rows.h"

/* Return the first item of this thread, and the step to its next item. */
DEVICE int64_t first_item(void) { return block_x() * threads() + thread(); }
DEVICE int64_t item_step(void) { return blocks_x() * threads(); }

KERNEL(add) {
  const element *x = (const element *)a.a, *y = (const element *)a.b;
  element *out = (element *)a.out;
  const int64_t count = live_rows(a.capacity, a.count) * a.width;
  const int64_t vectors = is_aligned(x) && is_aligned(y) && is_aligned(out) ? count / VECTOR : 0;
  wide left[VECTOR], right[VECTOR];
  for (int64_t i = first_item(); i < vectors; i += item_step()) {
    load_vector(x + i * VECTOR, left);
    load_vector(y + i * VECTOR, right);
    for (int j = 0; j < VECTOR; j++) left[j] += right[j];
    store_vector(out + i * VECTOR, left);
  }
  for (int64_t i = vectors * VECTOR + first_item(); i < count; i += item_step())
    store(out + i, load(x + i) + load(y + i));
}

KERNEL(scale) {
  const element *x = (const element *)a.x;
  element *y = (element *)a.y;
  const wide factor = (wide)a.factor;
  const int64_t vectors = is_aligned(x) && is_aligned(y) ? a.count / VECTOR : 0;
  wide values[VECTOR];
  for (int64_t i = first_item(); i < vectors; i += item_step()) {
    load_vector(x + i * VECTOR, values);
    for (int j = 0; j < VECTOR; j++) values[j] *= factor;
    store_vector(y + i * VECTOR, values);
  }
  for (int64_t i = vectors * VECTOR + first_item(); i < a.count; i += item_step()) store(y + i, factor * load(x + i));
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

/* Stores a value as element i of an array of the type with `bits` bits. A value of a wider type is rounded once. */
DEVICE void store_as(int bits, void *out, int64_t i, wide value) {
  if (bits == 64) {
    ((double *)out)[i] = (double)value;
  } else if (bits == 32) {
    ((float *)out)[i] = (float)value;
  } else {
    ((bf16 *)out)[i] = bf16_of_wide(value);
  }
}

/* Number of elements that are converted together: whole vectors in every type. */
enum { CONVERTED = 8 };

typedef union converted {
  sixteen_bytes all[4];
  double doubles[CONVERTED];
  float floats[CONVERTED];
  uint32_t pairs[CONVERTED / 2]; /* pairs of bf16 */
} converted;

/* Stores CONVERTED values at an aligned address, in the type with `bits` bits. */
DEVICE void store_converted(int bits, sixteen_bytes *out, const wide values[CONVERTED]) {
  converted u;
  if (bits == 64) {
    for (int j = 0; j < CONVERTED; j++) u.doubles[j] = (double)values[j];
    for (int j = 0; j < 4; j++) out[j] = u.all[j];
  } else if (bits == 32) {
    for (int j = 0; j < CONVERTED; j++) u.floats[j] = (float)values[j];
    for (int j = 0; j < 2; j++) out[j] = u.all[j];
  } else {
    for (int j = 0; j < CONVERTED; j += 2)
      u.pairs[j / 2] = bf16_of_wide(values[j]).bits | (uint32_t)bf16_of_wide(values[j + 1]).bits << 16;
    out[0] = u.all[0];
  }
}

KERNEL(convert) {
  const element *in = (const element *)a.in;
  const int64_t whole = is_aligned(in) && is_aligned(a.out) ? a.count / CONVERTED : 0;
  const int bytes = CONVERTED / 8 * a.to_bits;
  wide values[CONVERTED];
  for (int64_t i = first_item(); i < whole; i += item_step()) {
    for (int j = 0; j < CONVERTED; j += VECTOR) load_vector(in + i * CONVERTED + j, values + j);
    store_converted(a.to_bits, (sixteen_bytes *)(void *)((char *)a.out + i * bytes), values);
  }
  for (int64_t i = whole * CONVERTED + first_item(); i < a.count; i += item_step())
    store_as(a.to_bits, a.out, i, load(in + i));
}

/* ---- rows by index ----------------------------------------------------------------------------------------------- */

/* The offset of item i in both matrices, in elements; a row has `each` items of `elements` elements. */
typedef struct row_place {
  int64_t from, to;
} row_place;

DEVICE row_place row_place_of(const copy_rows_arguments *a, int64_t i, int64_t each, int elements) {
  const int64_t row = quotient(i, each), column = (i - row * each) * elements;
  row_place at;
  at.from = (a->from_rows == 0 ? row : a->from_rows[row]) * a->from_stride + column;
  at.to = (a->to_rows == 0 ? row : a->to_rows[row]) * a->to_stride + column;
  return at;
}

/* Copy rows: move_rows copies elements bitwise, and convert_rows converts them. */
DEVICE void move_rows(const copy_rows_arguments *a, int64_t rows) {
  const element *from = (const element *)a->from;
  element *to = (element *)a->to;
  if (is_aligned(from) && is_aligned(to) && a->width % VECTOR == 0 && a->from_stride % VECTOR == 0 &&
      a->to_stride % VECTOR == 0) {
    for (int64_t i = first_item(); i < rows * (a->width / VECTOR); i += item_step()) {
      const row_place at = row_place_of(a, i, a->width / VECTOR, VECTOR);
      *(sixteen_bytes *)(void *)(to + at.to) = *(const sixteen_bytes *)(const void *)(from + at.from);
    }
    return;
  }
  for (int64_t i = first_item(); i < rows * a->width; i += item_step()) {
    const row_place at = row_place_of(a, i, a->width, 1);
    to[at.to] = from[at.from];
  }
}

DEVICE void convert_rows(const copy_rows_arguments *a, int64_t rows) {
  const element *from = (const element *)a->from;
  const int bytes = a->to_bits / 8;
  wide values[CONVERTED];
  if (is_aligned(from) && is_aligned(a->to) && a->width % CONVERTED == 0 && a->from_stride % CONVERTED == 0 &&
      a->to_stride % CONVERTED == 0) {
    for (int64_t i = first_item(); i < rows * (a->width / CONVERTED); i += item_step()) {
      const row_place at = row_place_of(a, i, a->width / CONVERTED, CONVERTED);
      for (int j = 0; j < CONVERTED; j += VECTOR) load_vector(from + at.from + j, values + j);
      store_converted(a->to_bits, (sixteen_bytes *)(void *)((char *)a->to + at.to * bytes), values);
    }
    return;
  }
  for (int64_t i = first_item(); i < rows * a->width; i += item_step()) {
    const row_place at = row_place_of(a, i, a->width, 1);
    store_as(a->to_bits, a->to, at.to, load(from + at.from));
  }
}

KERNEL(copy_rows) {
  const int64_t rows = live_rows(a.capacity, a.count);
  if (a.to_bits == TRI_GPU_TYPE) {
    move_rows(&a, rows);
  } else {
    convert_rows(&a, rows);
  }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

KERNEL(activation_forward) {
  const element *x = (const element *)a.x;
  element *y = (element *)a.y;
  const int64_t count = live_rows(a.capacity, a.count) * a.width;
  const int64_t vectors = is_aligned(x) && is_aligned(y) ? count / VECTOR : 0;
  const tri_activation kind = (tri_activation)a.kind;
  wide values[VECTOR];
  for (int64_t i = first_item(); i < vectors; i += item_step()) {
    load_vector(x + i * VECTOR, values);
    for (int j = 0; j < VECTOR; j++) values[j] = activation(kind, values[j]);
    store_vector(y + i * VECTOR, values);
  }
  for (int64_t i = vectors * VECTOR + first_item(); i < count; i += item_step())
    store(y + i, activation(kind, load(x + i)));
}

KERNEL(activation_backward) {
  const element *x = (const element *)a.x, *dy = (const element *)a.gradient_y;
  element *dx = (element *)a.gradient_x;
  const int64_t count = live_rows(a.capacity, a.count) * a.width;
  const int64_t vectors = is_aligned(x) && is_aligned(dy) && is_aligned(dx) ? count / VECTOR : 0;
  const tri_activation kind = (tri_activation)a.kind;
  wide values[VECTOR], gradients[VECTOR];
  for (int64_t i = first_item(); i < vectors; i += item_step()) {
    load_vector(x + i * VECTOR, values);
    load_vector(dy + i * VECTOR, gradients);
    for (int j = 0; j < VECTOR; j++) gradients[j] = times_slope(kind, gradients[j], values[j]);
    store_vector(dx + i * VECTOR, gradients);
  }
  for (int64_t i = vectors * VECTOR + first_item(); i < count; i += item_step())
    store(dx + i, times_slope(kind, load(dy + i), load(x + i)));
}

/* ---- gated activations ------------------------------------------------------------------------------------------- */

/* Returns an element of a gated activation. */
DEVICE wide gated(tri_activation kind, wide gate, wide up) { return activation(kind, gate) * up; }

/* Replaces *gate and *up by their gradients. */
DEVICE void gated_slopes(tri_activation kind, wide dy, wide *gate, wide *up) {
  const wide g = *gate;
  *gate = times_slope(kind, dy * *up, g);
  *up = times_activation(kind, dy, g);
}

KERNEL(gated_forward) {
  const element *x = (const element *)a.x;
  const wide *weights = (const wide *)a.weights;
  element *y = (element *)a.y;
  const tri_activation kind = (tri_activation)a.kind;
  const int64_t rows = live_rows(a.capacity, a.count);
  if (is_aligned(x) && is_aligned(y) && a.width % VECTOR == 0) {
    const int64_t vectors = a.width / VECTOR;
    wide gates[VECTOR], ups[VECTOR];
    for (int64_t i = first_item(); i < rows * vectors; i += item_step()) {
      const int64_t row = quotient(i, vectors);
      const element *from = x + (i + row * vectors) * VECTOR;
      const wide weight = weights == 0 ? 1 : weights[row];
      load_vector(from, gates);
      load_vector(from + a.width, ups);
      for (int j = 0; j < VECTOR; j++) gates[j] = weight * gated(kind, gates[j], ups[j]);
      store_vector(y + i * VECTOR, gates);
    }
    return;
  }
  for (int64_t i = first_item(); i < rows * a.width; i += item_step()) {
    const int64_t row = quotient(i, a.width);
    const element *from = x + i + row * a.width;
    store(y + i, (weights == 0 ? 1 : weights[row]) * gated(kind, load(from), load(from + a.width)));
  }
}

KERNEL(gated_backward) {
  const element *x = (const element *)a.x, *dy = (const element *)a.gradient_y;
  element *dx = (element *)a.gradient_x;
  const tri_activation kind = (tri_activation)a.kind;
  const int64_t rows = live_rows(a.capacity, a.count);
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx) && a.width % VECTOR == 0) {
    const int64_t vectors = a.width / VECTOR;
    wide gates[VECTOR], ups[VECTOR], gradients[VECTOR];
    for (int64_t i = first_item(); i < rows * vectors; i += item_step()) {
      const int64_t at = (i + quotient(i, vectors) * vectors) * VECTOR;
      load_vector(x + at, gates);
      load_vector(x + at + a.width, ups);
      load_vector(dy + i * VECTOR, gradients);
      for (int j = 0; j < VECTOR; j++) gated_slopes(kind, gradients[j], &gates[j], &ups[j]);
      store_vector(dx + at, gates);
      store_vector(dx + at + a.width, ups);
    }
    return;
  }
  for (int64_t i = first_item(); i < rows * a.width; i += item_step()) {
    const int64_t at = i + quotient(i, a.width) * a.width;
    wide gate = load(x + at), up = load(x + at + a.width);
    gated_slopes(kind, load(dy + i), &gate, &up);
    store(dx + at, gate);
    store(dx + at + a.width, up);
  }
}

/* Processes a row with one warp, because all elements of the row contribute to the gradient of its weight. */
KERNEL(weighted_gated_backward) {
  const element *x = (const element *)a.x, *dy = (const element *)a.gradient_y;
  element *dx = (element *)a.gradient_x;
  const int aligned = is_aligned(x) && is_aligned(dy) && is_aligned(dx) && a.width % VECTOR == 0;
  const tri_activation kind = (tri_activation)a.kind;
  const int64_t rows = live_rows(a.capacity, a.count), warps = blocks_x() * block_warps();
  for (int64_t row = block_x() * block_warps() + warp(); row < rows; row += warps) {
    const wide weight = ((const wide *)a.weights)[row];
    wide sum = 0, gates[VECTOR], ups[VECTOR], gradients[VECTOR];
    for (int64_t column = (int64_t)lane() * VECTOR; column < a.width; column += WARP * VECTOR) {
      const int64_t at = 2 * row * a.width + column, left = a.width - column;
      load_part(x + at, aligned, left, gates);
      load_part(x + at + a.width, aligned, left, ups);
      load_part(dy + row * a.width + column, aligned, left, gradients);
      for (int j = 0; j < VECTOR; j++) {
        sum += gradients[j] * gated(kind, gates[j], ups[j]);
        gated_slopes(kind, weight * gradients[j], &gates[j], &ups[j]);
      }
      store_part(dx + at, aligned, left, gates);
      store_part(dx + at + a.width, aligned, left, ups);
    }
    sum = warp_sum(sum);
    if (lane() == 0) ((wide *)a.gradient_weights)[row] = sum;
  }
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Number of elements whose random words are generated together: whole vectors and whole blocks of Philox. */
enum { DRAWN = VECTOR > 4 ? VECTOR : 4 };

/* The results equal those of the other devices to the bit: in fp32 and bf16 the CPU's kernels multiply by an fp32
 * number, and in fp64 the reference device divides. */
#if TRI_GPU_TYPE == 64
DEVICE wide dropout_factor(double probability) { return 1.0 - probability; }
DEVICE wide scaled(wide x, wide factor) { return x / factor; }
#else
DEVICE wide dropout_factor(double probability) { return (float)(1.0 / (1.0 - probability)); }
DEVICE wide scaled(wide x, wide factor) { return x * factor; }
#endif

/* Returns the random word with this index of the stream. */
DEVICE uint32_t word_of(tri_random_key key, uint64_t index) {
  uint32_t words[4];
  const int which = (int)(index % 4);
  tri_philox_block(key, index / 4, words);
  return which == 0 ? words[0] : which == 1 ? words[1] : which == 2 ? words[2] : words[3];
}

/* Returns the shift of element i: the element uses the random word with the index first + i + shift, where `first` is
 * the index for element 0 (tri_dropout_stream). The shift is 0 if all elements have consecutive indices
 * (device/dropout.h). */
DEVICE uint64_t row_shift(const dropout_arguments *a, int64_t i) {
  if (tri_dropout_is_flat(&a->options, a->rows)) return 0;
  const int64_t row = quotient(i, a->options.width);
  return (uint64_t)((a->rows == 0 ? row : a->rows[row]) * tri_dropout_row(&a->options) - row * a->options.width);
}

KERNEL(dropout) {
  const element *x = (const element *)a.x;
  element *y = (element *)a.y;
  uint64_t first;
  const tri_random_key key = tri_dropout_stream(&a.options, a.values, &first);
  const wide factor = dropout_factor(a.options.probability);
  const int in_rows =
      tri_dropout_is_flat(&a.options, a.rows) || (a.options.width % DRAWN == 0 && tri_dropout_row(&a.options) % 4 == 0);
  const int64_t whole = is_aligned(x) && is_aligned(y) && first % 4 == 0 && in_rows ? a.count / DRAWN : 0;
  wide values[DRAWN];
  uint32_t words[DRAWN];
  for (int64_t i = first_item(); i < whole; i += item_step()) {
    for (int j = 0; j < DRAWN; j += VECTOR) load_vector(x + i * DRAWN + j, values + j);
    const uint64_t index = first + row_shift(&a, i * DRAWN) + (uint64_t)(i * DRAWN);
    for (int j = 0; j < DRAWN; j += 4) tri_philox_block(key, (index + (uint64_t)j) / 4, words + j);
    for (int j = 0; j < DRAWN; j++) values[j] = words[j] >= a.threshold ? scaled(values[j], factor) : 0;
    for (int j = 0; j < DRAWN; j += VECTOR) store_vector(y + i * DRAWN + j, values + j);
  }
  for (int64_t i = whole * DRAWN + first_item(); i < a.count; i += item_step()) {
    const int kept = word_of(key, first + row_shift(&a, i) + (uint64_t)i) >= a.threshold;
    store(y + i, kept ? scaled(load(x + i), factor) : 0);
  }
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

/* Rotates the pair (*low, *high) by an angle. */
DEVICE void rotate(wide cosine, wide sine, wide *low, wide *high) {
  const wide before = *low;
  *low = before * cosine - *high * sine;
  *high = *high * cosine + before * sine;
}

/* The offset of item i in x and in the table of angles, in elements; half a head has `each` items. An item has the low
 * half's elements; those of the high half are head_dim / 2 later. */
typedef struct rope_place {
  int64_t x, angle;
} rope_place;

DEVICE rope_place rope_place_of(const rope_arguments *a, int64_t i, int64_t each, int elements) {
  const int64_t head_of_all = quotient(i, each), row = quotient(head_of_all, a->heads);
  const int64_t d = (i - head_of_all * each) * elements;
  rope_place at;
  at.x = row * a->row_elements + (head_of_all - row * a->heads) * a->head_stride + d;
  at.angle = a->positions[row] * (a->head_dim / 2) + d;
  return at;
}

KERNEL(rope) {
  element *x = (element *)a.x;
  const wide *cosine = (const wide *)a.cosine, *sine = (const wide *)a.sine;
  const wide sign = a.inverse ? (wide)-1 : (wide)1;
  const int64_t half = a.head_dim / 2, heads = live_rows(a.capacity, a.count) * a.heads;
  if (is_aligned(x) && is_aligned(cosine) && is_aligned(sine) && half % VECTOR == 0 && a.row_elements % VECTOR == 0 &&
      a.head_stride % VECTOR == 0) {
    wide low[VECTOR], high[VECTOR], c[VECTOR], s[VECTOR];
    for (int64_t i = first_item(); i < heads * (half / VECTOR); i += item_step()) {
      const rope_place at = rope_place_of(&a, i, half / VECTOR, VECTOR);
      load_vector(x + at.x, low);
      load_vector(x + at.x + half, high);
      load_wide_vector(cosine + at.angle, c);
      load_wide_vector(sine + at.angle, s);
      for (int j = 0; j < VECTOR; j++) rotate(c[j], s[j] * sign, &low[j], &high[j]);
      store_vector(x + at.x, low);
      store_vector(x + at.x + half, high);
    }
    return;
  }
  for (int64_t i = first_item(); i < heads * half; i += item_step()) {
    const rope_place at = rope_place_of(&a, i, half, 1);
    wide low = load(x + at.x), high = load(x + at.x + half);
    rotate(cosine[at.angle], sine[at.angle] * sign, &low, &high);
    store(x + at.x, low);
    store(x + at.x + half, high);
  }
}
