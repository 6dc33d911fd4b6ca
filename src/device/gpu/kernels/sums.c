/* Sums: down the columns of a matrix (column_sum, column_totals: columns.h), over an array in double (sum_parts, then
 * sum_total), and of squares exactly (exact_squares, exact_merge, exact_add: device/exact_sum.h).
 *
 * The invariant: the order of a sum depends only on shapes, neither on an array's alignment nor on the number of
 * blocks. An exact sum is of integers, so it is the same in any order. */
#include "device/gpu/kernels/sums.h"

#include "device/gpu/kernels/columns.h"

/* ---- down columns ------------------------------------------------------------------------------------------------ */

enum { AT_ONCE = 4 }; /* number of rows that are loaded ahead */

/* Computes stage 1, with one block per slab and strip of columns. */
KERNEL(column_sum) {
  SHARED(column_shared, shared);
  const element *in = (const element *)a.in;
  const int aligned = is_aligned(in) && a.ld % VECTOR == 0;
  const int64_t live = live_rows(a.capacity, a.count);
  const column_place at = column_place_of(&a.cut, a.width, live);
  if ((a.cut.first_slab + at.slab) * a.cut.slab_rows >= live) return; /* all threads of the block return */
  wide sums[VECTOR], values[AT_ONCE][VECTOR];
  for (int j = 0; j < VECTOR; j++) sums[j] = 0;
  for (int64_t r = at.row; r < at.end; r += AT_ONCE * at.down) {
    UNROLL for (int k = 0; k < AT_ONCE; k++) {
      const int64_t row = r + k * at.down;
      load_part(in + row * a.ld + at.column, aligned, row < at.end ? a.width - at.column : 0, values[k]);
    }
    UNROLL for (int k = 0; k < AT_ONCE; k++) {
      for (int j = 0; j < VECTOR; j++) sums[j] += values[k][j];
    }
  }
  add_up_columns(&at, sums, shared, (wide *)a.slabs + at.slab * a.width);
}

enum { TOTALS_DOWN = column_totals_threads / COLUMN_TOTALS };

typedef struct totals_shared {
  wide sums[TOTALS_DOWN][COLUMN_TOTALS];
} totals_shared;

/* Returns the number of slabs of the launch that have rows. */
DEVICE int64_t live_slabs(const column_totals_arguments *a) {
  const int64_t rows = live_rows(a->capacity, a->count) * a->groups;
  const int64_t slabs = (rows + a->slab_rows - 1) / a->slab_rows - a->first_slab;
  return slabs < 0 ? 0 : slabs < a->num_slabs ? slabs : a->num_slabs;
}

/* Computes stage 2, with one block per COLUMN_TOTALS columns. TOTALS_DOWN threads share a column: each sums every
 * TOTALS_DOWN-th slab, and one of them adds the sums of all in order. */
KERNEL(column_totals) {
  SHARED(totals_shared, shared);
  const int x = thread() % COLUMN_TOTALS, y = thread() / COLUMN_TOTALS;
  const int64_t column = block_x() * COLUMN_TOTALS + x, slabs = live_slabs(&a);
  const wide *from = (const wide *)a.slabs + column;
  wide *out = (wide *)a.out + column;
  wide sum = 0;
  if (column < a.width) {
    for (int64_t s = y; s < slabs; s += AT_ONCE * TOTALS_DOWN) {
      wide values[AT_ONCE];
      UNROLL for (int k = 0; k < AT_ONCE; k++) {
        const int64_t slab = s + k * TOTALS_DOWN;
        values[k] = slab < slabs ? from[slab * a.stride] : 0;
      }
      UNROLL for (int k = 0; k < AT_ONCE; k++) sum += values[k];
    }
  }
  shared->sums[y][x] = sum;
  barrier();
  if (y > 0 || column >= a.width || (slabs == 0 && a.accumulate)) return;
  for (int k = 1; k < TOTALS_DOWN; k++) sum += shared->sums[k][x];
  *out = a.accumulate ? *out + sum : sum;
}

/* ---- over an array ----------------------------------------------------------------------------------------------- */

/* Elements that a thread, or a lane, processes at a time, whether or not the array is aligned. */
enum { TAKEN = 16 / (int)sizeof(wide) };

/* Loads TAKEN numbers, or the `count` remaining ones and zeros. */
DEVICE void load_doubles(const wide *from, int aligned, int64_t count, double out[TAKEN]) {
  if (aligned && count >= TAKEN) {
    union {
      sixteen_bytes all;
      wide each[TAKEN];
    } u;
    u.all = *(const sixteen_bytes *)(const void *)from;
    for (int j = 0; j < TAKEN; j++) out[j] = (double)u.each[j];
  } else {
    for (int j = 0; j < TAKEN; j++) out[j] = j < count ? (double)from[j] : 0;
  }
}

typedef struct warp_doubles {
  double each[MOST_WARPS];
} warp_doubles;

/* Sums each part, with one block per part. */
KERNEL(sum_parts) {
  SHARED(warp_doubles, shared);
  const int64_t first = block_x() * a.part, count = a.count - first < a.part ? a.count - first : a.part;
  const wide *in = (const wide *)a.in + first;
  const int aligned = is_aligned(in);
  double sum = 0, values[TAKEN];
  for (int64_t i = (int64_t)thread() * TAKEN; i < count; i += (int64_t)threads() * TAKEN) {
    load_doubles(in + i, aligned, count - i, values);
    for (int j = 0; j < TAKEN; j++) sum += values[j];
  }
  sum = block_sum_double(sum, shared->each);
  if (thread() == 0) a.parts[block_x()] = sum;
}

/* Adds the parts, with one block. */
KERNEL(sum_total) {
  SHARED(warp_doubles, shared);
  double sum = 0;
  for (int64_t i = thread(); i < a.count; i += threads()) sum += a.parts[i];
  sum = block_sum_double(sum, shared->each);
  if (thread() == 0) *a.out = a.accumulate ? *a.out + sum : sum;
}

/* ---- exact sums -------------------------------------------------------------------------------------------------- */

/* A tri_exact_sum as 70 words: its 68 limbs, then not_finite, then pending. The threads of a block form groups of 72,
 * which process the terms in turn. Each thread of a group adds up one word; two threads of a group are idle, and so are
 * the threads beyond the last group. Then the words of the groups are added. */
enum { NOT_FINITE = TRI_EXACT_SUM_LIMBS, PENDING, WORDS, GROUP = 72 };
enum { SQUARES_GROUPS = exact_squares_threads / GROUP, MERGE_GROUPS = exact_merge_threads / GROUP };

/* Return the address of a word, and its value. */
DEVICE int64_t *word_of(tri_exact_sum *sum, int word) {
  return word == NOT_FINITE ? &sum->not_finite : word == PENDING ? &sum->pending : &sum->limbs[word];
}

DEVICE int64_t word_value(const tri_exact_sum *sum, int word) {
  return word == NOT_FINITE ? sum->not_finite : word == PENDING ? sum->pending : sum->limbs[word];
}

/* Terms of a block in shared memory: values, and their parts (tri_exact_term). words: sums of the groups. */
typedef struct exact_terms {
  double values[EXACT_TERMS];
  int64_t parts[3][EXACT_TERMS];
  int32_t first[EXACT_TERMS], not_finite[EXACT_TERMS], pending[EXACT_TERMS];
  int64_t words[SQUARES_GROUPS][GROUP];
} exact_terms;

/* Splits term t into the parts that are added to limbs. Called by one thread per term. */
DEVICE void split_term(exact_terms *terms, int t) {
  const tri_exact_term term = tri_exact_split(bits_of_double(terms->values[t]));
  const int counts = !term.not_finite && terms->values[t] != 0;
  terms->first[t] = term.first;
  terms->not_finite[t] = term.not_finite;
  terms->pending[t] = counts;
  for (int i = 0; i < 3; i++) terms->parts[i][t] = counts ? term.parts[i] : 0;
}

/* Returns the number that term t adds to a word. */
DEVICE int64_t part_of_term(const exact_terms *terms, int t, int word) {
  if (word == NOT_FINITE) return terms->not_finite[t];
  if (word == PENDING) return terms->pending[t];
  const int part = word - terms->first[t];
  return part >= 0 && part < 3 ? terms->parts[part][t] : 0;
}

/* Returns, by a warp, the sum of squares of elements [term * block, (term + 1) * block). */
DEVICE double squares_of(const exact_squares_arguments *a, int64_t term) {
  const int64_t first = term * a->block, count = a->count - first < a->block ? a->count - first : a->block;
  const wide *in = (const wide *)a->in + first;
  const int aligned = is_aligned(in);
  double sum = 0, values[TAKEN];
  for (int64_t i = (int64_t)lane() * TAKEN; i < count; i += (int64_t)WARP * TAKEN) {
    load_doubles(in + i, aligned, count - i, values);
    for (int j = 0; j < TAKEN; j++) sum += values[j] * values[j];
  }
  return warp_sum_double(sum);
}

/* Sums terms, EXACT_TERMS per block at a time: a warp computes a term, a thread splits it, and the groups add its
 * parts. */
KERNEL(exact_squares) {
  SHARED(exact_terms, terms);
  const int word = thread() % GROUP, group = thread() / GROUP;
  int64_t own = 0;
  for (int64_t first = block_x() * EXACT_TERMS; first < a.terms; first += blocks_x() * EXACT_TERMS) {
    for (int t = warp(); t < EXACT_TERMS; t += block_warps()) {
      const double squares = first + t < a.terms ? squares_of(&a, first + t) : 0;
      if (lane() == 0) terms->values[t] = squares;
    }
    barrier();
    if (thread() < EXACT_TERMS) split_term(terms, thread());
    barrier();
    if (word >= WORDS) continue;
    for (int t = group; t < EXACT_TERMS && group < SQUARES_GROUPS; t += SQUARES_GROUPS) {
      own += part_of_term(terms, t, word);
    }
  }
  if (group < SQUARES_GROUPS) terms->words[group][word] = own;
  barrier();
  if (thread() >= WORDS) return;
  for (int g = 1; g < SQUARES_GROUPS; g++) own += terms->words[g][thread()];
  *word_of(&a.sums[block_x()], thread()) = own;
}

/* Propagates carries if necessary, so that fewer than TRI_EXACT_MOST_PENDING terms are pending after `more` terms were
 * added. Called by one thread. */
DEVICE void make_room(tri_exact_sum *sum, int64_t more) {
  if (sum->pending + more >= TRI_EXACT_MOST_PENDING) tri_exact_carry(sum);
}

typedef struct merge_words {
  int64_t words[MERGE_GROUPS][GROUP];
} merge_words;

/* Adds all exact sums to a.sum, with one block: the groups process the sums in turn. */
KERNEL(exact_merge) {
  SHARED(merge_words, shared);
  const int word = thread() % GROUP, group = thread() / GROUP;
  int64_t own = 0;
  for (int64_t i = group; i < a.count && group < MERGE_GROUPS && word < WORDS; i += MERGE_GROUPS)
    own += word_value(&a.sums[i], word);
  if (group < MERGE_GROUPS) shared->words[group][word] = own;
  barrier();
  for (int g = 1; g < MERGE_GROUPS && thread() < WORDS; g++) own += shared->words[g][thread()];
  if (thread() == PENDING) make_room(a.sum, own);
  barrier();
  if (thread() < WORDS) *word_of(a.sum, thread()) += own;
}

/* Adds *value to *sum, with one thread. */
KERNEL(exact_add) {
  if (thread() > 0) return;
  const double value = *a.value;
  const tri_exact_term term = tri_exact_split(bits_of_double(value));
  if (term.not_finite) {
    a.sum->not_finite++;
  } else if (value != 0) {
    make_room(a.sum, 1);
    for (int i = 0; i < 3; i++) a.sum->limbs[term.first + i] += term.parts[i];
    a.sum->pending++;
  }
}
