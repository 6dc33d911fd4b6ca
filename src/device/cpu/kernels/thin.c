/* GEMMs with few columns, by fp32 multiplications of a number by a vector, whose sums stay in registers.
 *
 * For c += a b^T, b^T is first copied to panels of TRI_THIN_COLUMNS columns, which stay in the L2 cache. Some rows of a
 * at a time are multiplied by all panels, and c is read and written sequentially.
 *
 * For c = a^T b, vectors run along the rows of a, that is, along c's columns: only the result is transposed, which is
 * small. The terms of some rows of a, which stay in the cache, are added to all of the sums, [n, m], before the terms
 * of the next rows. */
#include "device/cpu/thin.h"
#include "base/count.h"
#include "device/cpu/kernels/row_sums.h"

enum {
  STRIP = TRI_THIN_COLUMNS / LANES, /* vectors of a panel */
#if TRI_VECTOR_BYTES == 64
  TOGETHER = STRIP, /* vectors of columns whose sums are in registers */
  ROWS = 8,         /* rows of c, or ranks, whose sums are in registers */
#else
  TOGETHER = 2,
  ROWS = 4,
#endif
  ROWS_AT_ONCE = 64, /* rows of a that are added to all sums at once */
  ROWS_OF_TASK = 32, /* rows of c that a task computes */
};

/* ---- c += a b^T -------------------------------------------------------------------------------------------------- */

/* Copies columns of b^T, from number `first` on, to a panel [k, TRI_THIN_COLUMNS]; the panel has zeros beyond n. */
static void fill_panel(const tri_cpu_thin_depth *job, int64_t first, float *to) {
  for (int64_t j = 0; j < TRI_THIN_COLUMNS; j++) {
    for (int64_t i = 0; i < job->k; i++) to[i * TRI_THIN_COLUMNS + j] = 0;
    if (first + j >= job->n) continue;
    FOR_VECTORS(i, some, 0, job->k, {
      uint16_t narrow[LANES];
      vf_put(TRI_BF16, narrow, 0, some, vf_get(TRI_FP32, job->b, (first + j) * job->ldb + i, some));
      for (int64_t l = 0; l < some; l++) {
        const uint32_t bits = (uint32_t)narrow[l] << 16;
        memcpy(&to[(i + l) * TRI_THIN_COLUMNS + j], &bits, sizeof bits);
      }
    });
  }
}

/* Adds the products of `rows` rows of a in fp32, [rows, TRI_MOST_THIN], and some vectors of a panel to the rows of c,
 * which have `left` columns. */
INLINE void add_strip(int rows, int64_t k, const float *a, const float *panel, int64_t ldc, uint16_t *c, int64_t left) {
  vf sum[ROWS][TOGETHER];
  UNROLL for (int r = 0; r < rows; r++) { UNROLL for (int v = 0; v < TOGETHER; v++) sum[r][v] = (vf){0}; }
  for (int64_t i = 0; i < k; i++, panel += TRI_THIN_COLUMNS) {
    vf b[TOGETHER];
    UNROLL for (int v = 0; v < TOGETHER; v++) b[v] = vf_load(TRI_FP32, panel, v * LANES);
    UNROLL for (int r = 0; r < rows; r++) {
      const vf number = vf_splat(a[r * TRI_MOST_THIN + i]);
      UNROLL for (int v = 0; v < TOGETHER; v++) sum[r][v] = vf_fma(number, b[v], sum[r][v]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < TOGETHER; v++) {
      const int64_t count = left - v * LANES;
      if (count >= LANES) {
        vf_store(TRI_BF16, c + r * ldc, v * LANES, vf_load(TRI_BF16, c + r * ldc, v * LANES) + sum[r][v]);
      } else if (count > 0) {
        const vf before = vf_load_some(TRI_BF16, c + r * ldc, v * LANES, count, 0.0f);
        vf_store_some(TRI_BF16, c + r * ldc, v * LANES, count, before + sum[r][v]);
      }
    }
  }
}

static void add_rows(const tri_cpu_thin_depth *job, int64_t row, int64_t rows) {
  float a[ROWS * TRI_MOST_THIN] __attribute__((aligned(64)));
  for (int64_t r = 0; r < rows; r++) {
    FOR_VECTORS(i, some, 0, job->k, {
      vf_put(TRI_FP32, a + r * TRI_MOST_THIN, i, some, vf_get(TRI_BF16, job->a, (row + r) * job->lda + i, some));
    });
  }
  uint16_t *c = (uint16_t *)job->c + row * job->ldc;
  for (int64_t j = 0; j < job->n; j += TOGETHER * LANES) {
    const float *panel = job->panels + j / TRI_THIN_COLUMNS * TRI_THIN_COLUMNS * job->k + j % TRI_THIN_COLUMNS;
    if (rows == ROWS) {
      add_strip(ROWS, job->k, a, panel, job->ldc, c + j, job->n - j);
    } else {
      for (int64_t r = 0; r < rows; r++)
        add_strip(1, job->k, a + r * TRI_MOST_THIN, panel, job->ldc, c + r * job->ldc + j, job->n - j);
    }
  }
}

void TRI_KERNEL(thin_depth)(int threads, const tri_cpu_thin_depth *job) {
  const int64_t panels = tri_divide_up(job->n, TRI_THIN_COLUMNS), tasks = tri_divide_up(job->m, ROWS_OF_TASK);
#pragma omp parallel for schedule(static) num_threads(threads) if (job->n * job->k > TRI_ALONE)
  for (int64_t panel = 0; panel < panels; panel++)
    fill_panel(job, panel * TRI_THIN_COLUMNS, job->panels + panel * TRI_THIN_COLUMNS * job->k);
#pragma omp parallel for schedule(static) num_threads(threads) if (job->m * job->n > TRI_ALONE)
  for (int64_t task = 0; task < tasks; task++) {
    const int64_t end = tri_smaller(job->m, (task + 1) * ROWS_OF_TASK);
    for (int64_t row = task * ROWS_OF_TASK; row < end; row += ROWS) add_rows(job, row, tri_smaller(ROWS, end - row));
  }
}

/* ---- c = a^T b --------------------------------------------------------------------------------------------------- */

/* Multiplies rows [row, row + rows) of a, in TOGETHER vectors of columns from `first` on, by the same rows of b, in
 * ROWS columns, and adds the products to sums [ROWS, pitch]. Prefetches the next columns of these rows of a. */
INLINE void add_outer(const tri_cpu_thin_gradient *job, int64_t row, int64_t rows, int64_t first, int64_t left,
                      const float *b, int64_t b_pitch, int64_t pitch, float *sums) {
  vf sum[ROWS][TOGETHER];
  UNROLL for (int r = 0; r < ROWS; r++) {
    UNROLL for (int v = 0; v < TOGETHER; v++) sum[r][v] = vf_load(TRI_FP32, sums, r * pitch + v * LANES);
  }
  const uint16_t *a = (const uint16_t *)job->a + row * job->lda + first;
  for (int64_t i = 0; i < rows; i++, a += job->lda, b += b_pitch) {
    vf x[TOGETHER];
    __builtin_prefetch(a + 2 * TOGETHER * LANES, 0, 3);
    UNROLL for (int v = 0; v < TOGETHER; v++) {
      const int64_t count = left - v * LANES;
      x[v] = count >= LANES ? vf_load(TRI_BF16, a, v * LANES) : (vf){0};
      if (count > 0 && count < LANES) x[v] = vf_load_some(TRI_BF16, a, v * LANES, count, 0.0f);
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
      const vf number = vf_splat(b[r]);
      UNROLL for (int v = 0; v < TOGETHER; v++) sum[r][v] = vf_fma(number, x[v], sum[r][v]);
    }
  }
  UNROLL for (int r = 0; r < ROWS; r++) {
    UNROLL for (int v = 0; v < TOGETHER; v++) vf_store(TRI_FP32, sums, r * pitch + v * LANES, sum[r][v]);
  }
}

/* Computes columns [first, end) of a, which are rows of c. */
static void sum_columns(const tri_cpu_thin_gradient *job, int64_t first, int64_t end, const float *b, float *sums) {
  enum { WIDTH = TOGETHER * LANES };
  const int64_t ranks = tri_round_up(job->n, TRI_THIN_RANKS), pitch = tri_round_up(job->m, TRI_THIN_COLUMNS);
  const int64_t padded = tri_round_up(end - first, TRI_THIN_COLUMNS);
  for (int64_t r = 0; r < ranks; r++) memset(sums + r * pitch + first, 0, (size_t)padded * sizeof(float));
  for (int64_t row = 0; row < job->k; row += ROWS_AT_ONCE) {
    const int64_t rows = tri_smaller(ROWS_AT_ONCE, job->k - row);
    for (int64_t j = first; j < end; j += WIDTH) {
      for (int64_t r = 0; r < ranks; r += ROWS) {
        const float *numbers = b + row * ranks + r;
        float *to = sums + r * pitch + j;
        if (end - j >= WIDTH) {
          add_outer(job, row, rows, j, WIDTH, numbers, ranks, pitch, to);
        } else {
          add_outer(job, row, rows, j, end - j, numbers, ranks, pitch, to);
        }
      }
    }
  }
  for (int64_t j = first; j < end; j++) {
    for (int64_t r = 0; r < job->n; r++) {
      float *to = job->c + j * job->ldc + r;
      *to = (job->accumulate ? *to : 0.0f) + sums[r * pitch + j];
    }
  }
}

void TRI_KERNEL(thin_gradient)(int threads, const tri_cpu_thin_gradient *job) {
  const int64_t ranks = tri_round_up(job->n, TRI_THIN_RANKS), strips = tri_divide_up(job->m, TRI_THIN_COLUMNS);
  float *b = job->wide, *sums = job->wide + job->k * ranks;
  for (int64_t i = 0; i < job->k; i++) {
    for (int64_t r = 0; r < ranks; r++) {
      const uint32_t bits = r < job->n ? (uint32_t)((const uint16_t *)job->b)[i * job->ldb + r] << 16 : 0;
      memcpy(&b[i * ranks + r], &bits, sizeof bits);
    }
  }
  const int64_t tasks = tri_smaller(threads, strips);
#pragma omp parallel for schedule(static) num_threads(threads) if (tasks > 1)
  for (int64_t task = 0; task < tasks; task++) {
    const int64_t first = strips * task / tasks * TRI_THIN_COLUMNS;
    const int64_t end = tri_smaller(job->m, strips * (task + 1) / tasks * TRI_THIN_COLUMNS);
    sum_columns(job, first, end, b, sums);
  }
}
