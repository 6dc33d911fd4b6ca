/* GEMMs of rows in generation with panels of b. A panel has TRI_PANEL adjacent columns, stored for one k after the
 * other. The sums of some rows and columns stay in registers over the depth of a panel; a vector of b is used for all
 * of these rows, a number of a for all of these columns.
 *
 * Packed weights, in bf16, are stored in such panels, with pairs of two k: few rows read them sequentially, at the rate
 * of memory, and the CPU's products of pairs use them directly. If the CPU has no such products, or slow ones, both
 * numbers of a pair are widened and multiplied in turn. A sum is one chain in the order of k, whatever other rows are
 * in the call.
 *
 * Weights in fp32 have no second copy. For b as [k, n], a part of a panel is copied when more than TRI_FEW_ROWS rows
 * need it: its rows are a page or more apart, and each would need an entry of the TLB. Sums have the same order as in
 * few_rows.c. */
#include "base/count.h"
#include "device/cpu/kernels/row_sums.h"

enum {
  VECTORS = TRI_PANEL / LANES,
  DEPTH = 256,     /* depth of a part of a panel that is copied: 64 KiB */
  TASKS_EACH = 4,  /* tasks for each thread, if there are enough panels */
  MOST_WHOLE = 12, /* maximum rows that are multiplied with a whole panel */
  LINE = 64,       /* bytes of a cache line */
  PANEL_LINES = TRI_PANEL * 4 / LINE,
  SPLIT_ROWS = 32, /* minimum rows of a task, if rows are split */
#if TRI_VECTOR_BYTES == 64
  ROWS = 6, /* rows whose sums are in registers */
  WIDE = 4, /* vectors of columns whose sums are in registers */
#elif TRI_VECTOR_BYTES == 32
  ROWS = 6,
  WIDE = 2,
#else
  ROWS = 4,
  WIDE = 2,
#endif
};

typedef enum panel_kind {
  FLOATS, /* a and the panel are fp32 */
  PAIRS,  /* a and the panel are bf16, and multiplied in pairs */
  HALVES, /* a is fp32; the panel has pairs, which are widened */
} panel_kind;

/* Rows of a from some k on. The multiplication also prefetches b: rows of a panel from `next` on (or NULL),
 * `next_bytes` apart. */
typedef struct rows_of_a {
  const void *first;
  int64_t ld, count;
  const char *next;
  int64_t next_bytes;
} rows_of_a;

INLINE vf add_pair(vf sum, uint32_t a, vf b) {
#if defined(__AVX512BF16__)
  return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#else
  (void)a;
  (void)b;
  return sum;
#endif
}

INLINE vf half_of(vf pairs, int which) { return (vf)(which == 0 ? (vu)pairs << 16 : (vu)pairs & 0xffff0000u); }

/* Adds the products of number `at` of each row [row, row + rows) of a and `wide` vectors of columns to the sums. */
INLINE void add_products(const rows_of_a *a, int64_t row, int rows, int64_t at, const vf *values, int wide,
                         vf (*sum)[VECTORS]) {
  const float *from = (const float *)a->first + row * a->ld + at;
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < wide; v++) sum[r][v] = vf_fma(vf_splat(from[r * a->ld]), values[v], sum[r][v]);
  }
}

/* Advances one step along k, or two if the panel has pairs: the last pair lacks its second number if `halves` is 1. */
INLINE void add_step(panel_kind kind, const rows_of_a *a, int64_t row, int rows, int64_t step, int halves,
                     const float *b, int wide, vf (*sum)[VECTORS]) {
  vf values[VECTORS];
  switch (kind) {
    case FLOATS:
      UNROLL for (int v = 0; v < wide; v++) values[v] = vf_load(TRI_FP32, b, v * LANES);
      add_products(a, row, rows, step, values, wide, sum);
      break;
    case HALVES:
      UNROLL for (int half = 0; half < halves; half++) {
        UNROLL for (int v = 0; v < wide; v++) values[v] = half_of(vf_load(TRI_FP32, b, v * LANES), half);
        add_products(a, row, rows, 2 * step + half, values, wide, sum);
      }
      break;
    case PAIRS:
      UNROLL for (int r = 0; r < rows; r++) {
        uint32_t pair = 0;
        memcpy(&pair, (const uint16_t *)a->first + (row + r) * a->ld + 2 * step, (size_t)halves * sizeof(uint16_t));
        UNROLL for (int v = 0; v < wide; v++) sum[r][v] = add_pair(sum[r][v], pair, vf_load(TRI_FP32, b, v * LANES));
      }
      break;
  }
}

/* Returns how many numbers of a row of a one step uses. */
INLINE int64_t step_length(panel_kind kind) {
  switch (kind) {
    case FLOATS: return 1;
    case PAIRS:
    case HALVES: break;
  }
  return 2;
}

/* Multiplies `rows` rows from `row` on by `wide` vectors of columns of a panel, `depth` deep; writes sums [rows,
 * TRI_PANEL], or, if `add`, adds to them. Prefetches one line of each row from `next` on, unless it is NULL. */
INLINE void multiply_strip(panel_kind kind, const rows_of_a *a, int64_t row, int rows, const float *b, int wide,
                           int64_t depth, bool add, const char *next, float *sums) {
  vf sum[ROWS][VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < wide; v++) sum[r][v] =
        add ? vf_load(TRI_FP32, sums, r * TRI_PANEL + v * LANES) : (vf){0};
  }
  const int64_t steps = depth / step_length(kind);
  if (next != NULL) {
    for (int64_t step = 0; step < steps; step++, b += TRI_PANEL, next += a->next_bytes) {
      __builtin_prefetch(next, 0, 2);
      add_step(kind, a, row, rows, step, 2, b, wide, sum);
    }
  } else {
    for (int64_t step = 0; step < steps; step++, b += TRI_PANEL) add_step(kind, a, row, rows, step, 2, b, wide, sum);
  }
  if (depth % step_length(kind) != 0) add_step(kind, a, row, rows, steps, 1, b, wide, sum);
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < wide; v++) vf_store(TRI_FP32, sums, r * TRI_PANEL + v * LANES, sum[r][v]);
  }
}

/* Multiplies few rows of a, each by a whole panel. The panel is read sequentially, and widened again for each row. */
INLINE void multiply_whole(const rows_of_a *a, const float *b, int64_t depth, float *sums) {
  enum { AT_ONCE = VECTORS > 6 ? 1 : 2 };
  int64_t row = 0;
  for (; row + AT_ONCE <= a->count; row += AT_ONCE)
    multiply_strip(HALVES, a, row, AT_ONCE, b, VECTORS, depth, false, NULL, sums + row * TRI_PANEL);
  for (; row < a->count; row++)
    multiply_strip(HALVES, a, row, 1, b, VECTORS, depth, false, NULL, sums + row * TRI_PANEL);
}

/* Multiplies all rows of a by a panel, `depth` deep; writes sums [a->count, TRI_PANEL], or, if `add`, adds to them. */
INLINE void multiply_panel(panel_kind kind, const rows_of_a *a, const float *b, int64_t depth, bool add, float *sums) {
  if (a->count == 1) {
    multiply_strip(kind, a, 0, 1, b, VECTORS, depth, add, NULL, sums);
    return;
  }
  int64_t fetched = 0;
  for (int64_t v = 0; v < VECTORS; v += WIDE) {
    for (int64_t row = 0; row < a->count; row += ROWS) {
      float *to = sums + row * TRI_PANEL + v * LANES;
      const float *from = b + v * LANES;
      const char *next = a->next != NULL && fetched < PANEL_LINES ? a->next + LINE * fetched++ : NULL;
      switch (tri_smaller(ROWS, a->count - row)) {
        case 1: multiply_strip(kind, a, row, 1, from, WIDE, depth, add, NULL, to); break;
        case 2: multiply_strip(kind, a, row, 2, from, WIDE, depth, add, NULL, to); break;
        case 3: multiply_strip(kind, a, row, 3, from, WIDE, depth, add, NULL, to); break;
#if TRI_VECTOR_BYTES >= 32
        case 4: multiply_strip(kind, a, row, 4, from, WIDE, depth, add, NULL, to); break;
        case 5: multiply_strip(kind, a, row, 5, from, WIDE, depth, add, NULL, to); break;
#endif
        default: multiply_strip(kind, a, row, ROWS, from, WIDE, depth, add, next, to); break;
      }
    }
  }
}

static void add_sums(int64_t count, const float *from, float *to) {
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* ---- packed ------------------------------------------------------------------------------------------------------ */

/* Widens `count` steps of a panel of pairs to fp32. */
static void widen_panel(const float *pairs, int64_t count, float *to) {
  for (int64_t step = 0; step < count; step++, pairs += TRI_PANEL, to += 2 * TRI_PANEL) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      const vf both = vf_load(TRI_FP32, pairs, v * LANES);
      vf_store(TRI_FP32, to, v * LANES, half_of(both, 0));
      vf_store(TRI_FP32, to, TRI_PANEL + v * LANES, half_of(both, 1));
    }
  }
}

/* Computes the same sums as multiply_panel with HALVES, in the same order, but widens each part of the panel only
 * once, which is worthwhile for many rows. */
static void multiply_widened(const rows_of_a *a, const float *b, int64_t k, float *sums) {
  float wide[DEPTH * TRI_PANEL] __attribute__((aligned(64)));
  int64_t at = 0;
  do {
    const int64_t depth = tri_smaller(DEPTH, k - at);
    const rows_of_a part = {(const float *)a->first + at, a->ld, a->count, NULL, 0};
    widen_panel(b + at / 2 * TRI_PANEL, tri_divide_up(depth, 2), wide);
    multiply_panel(FLOATS, &part, wide, depth, at > 0, sums);
    at += DEPTH;
  } while (at < k);
}

static void multiply_packed(const tri_cpu_few_rows *job, int64_t panel, int64_t row, int64_t rows) {
  float sums[TRI_MOST_ROWS * TRI_PANEL] __attribute__((aligned(64)));
  float total[TRI_MOST_ROWS * TRI_PANEL] __attribute__((aligned(64)));
  const int64_t first = panel * TRI_PANEL, count = tri_smaller(TRI_PANEL, job->n - first);
  const float *b = (const float *)job->b + panel * TRI_PANEL * tri_divide_up(job->k, 2);
  const int64_t element = job->pairs ? 2 : 4;
  const rows_of_a a = {(const char *)job->a + row * job->lda * element, job->lda, rows, NULL, 0};
  begin_sums(job, row, rows, first, count, total, TRI_PANEL);
  if (job->pairs) {
    multiply_panel(PAIRS, &a, b, job->k, false, sums);
  } else if (VECTORS > WIDE && rows > MOST_WHOLE) {
    multiply_widened(&a, b, job->k, sums);
  } else if (VECTORS > WIDE) {
    multiply_whole(&a, b, job->k, sums);
  } else {
    multiply_panel(HALVES, &a, b, job->k, false, sums);
  }
  for (int64_t r = 0; r < rows; r++) add_sums(count, sums + r * TRI_PANEL, total + r * TRI_PANEL);
  store_sums(job, row, rows, first, count, total, TRI_PANEL);
}

/* ---- b is [k, n] ------------------------------------------------------------------------------------------------- */

/* Copies `depth` rows of b from row `at` on, in `count` columns from `first` on, to [depth, TRI_PANEL] in fp32,
 * padded with zeros. */
INLINE void copy_panel(tri_dtype type, const tri_cpu_few_rows *job, int64_t at, int64_t depth, int64_t first,
                       int64_t count, float *to) {
  for (int64_t d = 0; d < depth; d++, to += TRI_PANEL) {
    const int64_t from = (at + d) * job->ldb + first;
    if (count == TRI_PANEL) {
      UNROLL for (int v = 0; v < VECTORS; v++)
          vf_store(TRI_FP32, to, v * LANES, vf_load(type, job->b, from + v * LANES));
    } else {
      memset(to, 0, TRI_PANEL * sizeof(float));
      FOR_VECTORS(i, some, 0, count, { vf_put(TRI_FP32, to, i, some, vf_get(type, job->b, from + i, some)); });
    }
  }
}

/* Returns the address of the data of b that follows after the rows up to `at` of the panel from column `first` on: row
 * `at` of the panel, or row 0 of the next panel; NULL after the last panel. */
static const char *after(const tri_cpu_few_rows *job, int64_t at, int64_t first) {
  if (at >= job->k) {
    at = 0;
    first += TRI_PANEL;
  }
  if (first >= job->n) return NULL;
  return (const char *)job->b + (size_t)(at * job->ldb + first) * tri_dtype_bytes(job->b_type);
}

static void multiply_in_place(const tri_cpu_few_rows *job, int64_t panel, int64_t row, int64_t rows) {
  float sums[TRI_MOST_ROWS * TRI_PANEL] __attribute__((aligned(64)));
  float total[TRI_MOST_ROWS * TRI_PANEL] __attribute__((aligned(64)));
  float copy[DEPTH * TRI_PANEL] __attribute__((aligned(64)));
  const int64_t first = panel * TRI_PANEL, count = tri_smaller(TRI_PANEL, job->n - first);
  const int64_t parts = tri_few_rows_parts(job->k, false);
  const int64_t next_bytes = job->ldb * (int64_t)tri_dtype_bytes(job->b_type);
  begin_sums(job, row, rows, first, count, total, TRI_PANEL);
  for (int64_t part = 0; part < parts; part++) {
    const int64_t begin = job->k * part / parts, end = job->k * (part + 1) / parts;
    int64_t at = begin;
    do { /* k is at least 1: no part is empty */
      const int64_t depth = tri_smaller(DEPTH, end - at);
      const rows_of_a a = {(const float *)job->a + row * job->lda + at, job->lda, rows, after(job, at + depth, first),
                           next_bytes};
      if (job->b_type == TRI_BF16) {
        copy_panel(TRI_BF16, job, at, depth, first, count, copy);
      } else {
        copy_panel(TRI_FP32, job, at, depth, first, count, copy);
      }
      multiply_panel(FLOATS, &a, copy, depth, at > begin, sums);
      at += DEPTH;
    } while (at < end);
    for (int64_t r = 0; r < rows; r++) add_sums(count, sums + r * TRI_PANEL, total + r * TRI_PANEL);
  }
  store_sums(job, row, rows, first, count, total, TRI_PANEL);
}

/* The division into tasks. A task has some adjacent panels or, if there are too few panels for the threads, some rows
 * of one panel. */
typedef struct panel_runs {
  const tri_cpu_few_rows *job;
  int64_t panels, runs, cuts;
} panel_runs;

static void multiply_run(const void *context, int64_t task, int worker) {
  const panel_runs *in = context;
  const tri_cpu_few_rows *job = in->job;
  const int64_t run = task / in->cuts, cut = task % in->cuts;
  const int64_t row = job->m * cut / in->cuts, rows = job->m * (cut + 1) / in->cuts - row;
  (void)worker;
  for (int64_t panel = in->panels * run / in->runs; panel < in->panels * (run + 1) / in->runs; panel++) {
    if (job->b_packed) {
      multiply_packed(job, panel, row, rows);
    } else {
      multiply_in_place(job, panel, row, rows);
    }
  }
}

void TRI_KERNEL(multiply_panels)(tri_regions *regions, const tri_cpu_few_rows *job) {
  const int64_t panels = tri_divide_up(job->n, TRI_PANEL), threads = tri_regions_threads(regions);
  panel_runs in = {.job = job, .panels = panels, .runs = tri_smaller(panels, TASKS_EACH * threads)};
  in.cuts = tri_smaller(tri_divide_up(2 * threads, panels), job->m / SPLIT_ROWS);
  if (in.cuts < 1) in.cuts = 1;
  tri_regions_run(job->n * job->k > TRI_ALONE ? regions : NULL, in.runs * in.cuts, multiply_run, &in);
}
