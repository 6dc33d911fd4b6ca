/* c = a b for few rows of a. All time goes into reading b, so b is read in runs of memory as long as can be, once, and
 * what is done with a number of b while it is in a register is done for all rows.
 *
 * b as [k, n] (weights by inputs): a task has some of b's rows, whole, and keeps its sums of all rows of a in the
 * cache. It takes DEPTH rows of b at a time, as DEPTH streams: each vector of sums is loaded, gets DEPTH products in
 * their order, and is stored. Then the sums of the parts are added up. b as [n, k] (by outputs): a task has some of b's
 * rows and takes a few at a time; vectors of sums stay in registers, and lanes are added at the end.
 *
 * A sum is made in the order of k, in parts that k alone decides, or in that of k's vectors and then of the lanes,
 * whatever rows or columns it is computed beside: so bits depend neither on threads nor on the number of rows. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "device/cpu/skinny_gemm.h"

enum {
  DEPTH = 8,          /* of b's rows [k, n] at once                                             */
  AHEAD = 16 * LANES, /* columns of each that are fetched beforehand */
  SUMS = 8192,        /* of all rows of a that are made at once: 32 KiB                         */
  BLOCK = 48,         /* outputs whose sums are stored together: a multiple of all groups below */
  TASKS_EACH = 4,     /* of a thread, at least                                                  */
#if TRI_VECTOR_BYTES == 64
  TOGETHER = 2,      /* vectors of DEPTH rows of b     */
  MOST_ROWS = 8,     /* of a in registers at once ...  */
  MOST_OUTPUTS = 3,  /* ... with that many rows of b   */
  ALONE_OUTPUTS = 8, /* of b, where a has only one row */
#else
  TOGETHER = 1,
  MOST_ROWS = 4,
  MOST_OUTPUTS = 2,
  ALONE_OUTPUTS = 6,
#endif
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* c[m, columns [first, first + count)] gets sums [m, pitch]. */
static void store_sums(const tri_cpu_few_rows *job, int64_t first, int64_t count, const float *sums, int64_t pitch) {
  for (int64_t r = 0; r < job->m; r++) {
    const int64_t to = r * job->ldc + first;
    if (job->c_type == TRI_BF16) {
      FOR_VECTORS(i, some, 0, count,
                  { vf_put(TRI_BF16, job->c, to + i, some, vf_get(TRI_FP32, sums + r * pitch, i, some)); });
    } else {
      memcpy((float *)job->c + to, sums + r * pitch, (size_t)count * sizeof(float));
    }
  }
}

/* What sums begin with. */
static void begin_sums(const tri_cpu_few_rows *job, int64_t first, int64_t count, float *sums, int64_t pitch) {
  for (int64_t r = 0; r < job->m; r++) {
    const int64_t from = r * job->ldc + first;
    float *row = sums + r * pitch;
    if (job->accumulate && job->c_type == TRI_BF16) {
      FOR_VECTORS(i, some, 0, count, { vf_put(TRI_FP32, row, i, some, vf_get(TRI_BF16, job->c, from + i, some)); });
    } else if (job->accumulate) {
      memcpy(row, (const float *)job->c + from, (size_t)count * sizeof(float));
    } else if (job->bias != NULL) {
      memcpy(row, job->bias + first, (size_t)count * sizeof(float));
    } else {
      memset(row, 0, (size_t)count * sizeof(float));
    }
  }
}

/* ---- b is [k, n] ------------------------------------------------------------------------------------------------- */

/* All rows of a times `depth` rows of b from row `at` on, at `vectors` vectors of columns from `column` on, of `count`
 * columns where that is one; into sums [m, pitch]. What lies `ahead` elements further in b is fetched for later. */
INLINE void add_vectors(tri_dtype type, const tri_cpu_few_rows *job, int64_t at, int64_t depth, int64_t column,
                        int64_t vectors, int64_t count, int64_t ahead, float *sums, int64_t pitch) {
  vf b[DEPTH][TOGETHER];
  for (int64_t d = 0; d < depth; d++) {
    const int64_t i = (at + d) * job->ldb + column;
    for (int64_t v = 0; v < vectors; v++) b[d][v] = vf_get(type, job->b, i + v * LANES, count);
    for (int64_t v = 0; v < vectors; v++)
      __builtin_prefetch((const char *)job->b + (size_t)(i + v * LANES + ahead) * tri_dtype_bytes(type));
  }
  for (int64_t r = 0; r < job->m; r++) {
    const float *a = job->a + r * job->lda + at;
    vf sum[TOGETHER];
    for (int64_t v = 0; v < vectors; v++) sum[v] = vf_get(TRI_FP32, sums, r * pitch + v * LANES, count);
    for (int64_t d = 0; d < depth; d++)
      for (int64_t v = 0; v < vectors; v++) sum[v] += a[d] * b[d][v];
    for (int64_t v = 0; v < vectors; v++) vf_put(TRI_FP32, sums, r * pitch + v * LANES, count, sum[v]);
  }
}

/* A little ahead, in the same rows or the next: a whole sweep of columns ahead, lines of DEPTH rows whose lengths are a
 * multiple of the cache's sets (3072 floats) would drive each other out before they are read. */
INLINE void add_depth(tri_dtype type, const tri_cpu_few_rows *job, int64_t at, int64_t depth, int64_t first,
                      int64_t columns, float *sums, int64_t pitch) {
  int64_t done = 0;
  for (; done + TOGETHER * LANES <= columns; done += TOGETHER * LANES) {
    const int64_t ahead = done + AHEAD < columns ? AHEAD : AHEAD - columns + depth * job->ldb;
    add_vectors(type, job, at, depth, first + done, TOGETHER, LANES, ahead, sums + done, pitch);
  }
  FOR_VECTORS(i, count, done, columns, { add_vectors(type, job, at, depth, first + i, 1, count, 0, sums + i, pitch); });
}

INLINE void add_rows(tri_dtype type, const tri_cpu_few_rows *job, int64_t at, int64_t end, int64_t first,
                     int64_t columns, float *sums, int64_t pitch) {
  for (; at + DEPTH <= end; at += DEPTH) add_depth(type, job, at, DEPTH, first, columns, sums, pitch);
  for (; at < end; at++) add_depth(type, job, at, 1, first, columns, sums, pitch);
}

/* Columns [first, end) of a part, as many at once as leave their sums in the cache; a vector between their rows keeps
 * those apart there. */
static void multiply_part(const tri_cpu_few_rows *job, int64_t part, int64_t first, int64_t end) {
  float sums[SUMS + TRI_FEW_ROWS * LANES] __attribute__((aligned(64)));
  const int64_t parts = tri_few_rows_parts(job->k, false), most = SUMS / job->m / LANES * LANES, pitch = most + LANES;
  const int64_t at = job->k * part / parts, depth_end = job->k * (part + 1) / parts;
  for (; first < end; first += most) {
    const int64_t columns = smaller(most, end - first);
    for (int64_t r = 0; r < job->m; r++) memset(sums + r * pitch, 0, (size_t)columns * sizeof(float));
    if (job->b_type == TRI_BF16) {
      add_rows(TRI_BF16, job, at, depth_end, first, columns, sums, pitch);
    } else {
      add_rows(TRI_FP32, job, at, depth_end, first, columns, sums, pitch);
    }
    float *to = job->parts + part * job->m * job->n + first;
    for (int64_t r = 0; r < job->m; r++) memcpy(to + r * job->n, sums + r * pitch, (size_t)columns * sizeof(float));
  }
}

/* Columns [first, first + count) of all parts, and what c begins with. */
static void join_parts(const tri_cpu_few_rows *job, int64_t first, int64_t count) {
  const int64_t parts = tri_few_rows_parts(job->k, false);
  float sums[TRI_FEW_ROWS * BLOCK] __attribute__((aligned(64)));
  begin_sums(job, first, count, sums, BLOCK);
  for (int64_t r = 0; r < job->m; r++) {
    for (int64_t part = 0; part < parts; part++) {
      const float *from = job->parts + (part * job->m + r) * job->n + first;
      for (int64_t i = 0; i < count; i++) sums[r * BLOCK + i] += from[i];
    }
  }
  store_sums(job, first, count, sums, BLOCK);
}

/* Whole rows of b, or where parts are too few for the threads, some of their columns. */
static void multiply_columns(int threads, const tri_cpu_few_rows *job) {
  const int64_t parts = tri_few_rows_parts(job->k, false), blocks = divide_up(job->n, BLOCK);
  const int64_t cuts = smaller(blocks, divide_up(2 * (int64_t)threads, parts));
#pragma omp parallel num_threads(threads) if (job->n * job->k > TRI_ALONE)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < parts * cuts; t++) {
      const int64_t cut = t % cuts;
      multiply_part(job, t / cuts, blocks * cut / cuts * BLOCK, smaller(job->n, blocks * (cut + 1) / cuts * BLOCK));
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks; i++) join_parts(job, i * BLOCK, smaller(BLOCK, job->n - i * BLOCK));
  }
}

/* ---- b is [n, k] ------------------------------------------------------------------------------------------------- */

INLINE float sum_of_lanes(vf x) {
  for (int by = LANES / 2; by > 0; by /= 2) x += (vf)vi_swap((vi)x, by);
  return x[0];
}

/* `rows` rows of a from `row` on, with `outputs` rows of b from `output` on: adds to sums[r][j]. */
INLINE void multiply_group(tri_dtype type, const tri_cpu_few_rows *job, int64_t row, int64_t rows, int64_t output,
                           int64_t outputs, float *sums) {
  vf total[MOST_ROWS][ALONE_OUTPUTS];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < outputs; j++) total[r][j] = (vf){0};
  FOR_VECTORS(i, count, 0, job->k, {
    vf b[ALONE_OUTPUTS];
    for (int64_t j = 0; j < outputs; j++) {
      const int64_t at = (output + j) * job->ldb + i;
      b[j] = vf_get(type, job->b, at, count);
      __builtin_prefetch((const char *)job->b + (size_t)(at + outputs * job->ldb) * tri_dtype_bytes(type));
    }
    for (int64_t r = 0; r < rows; r++) {
      const vf a = vf_get(TRI_FP32, job->a, (row + r) * job->lda + i, count);
      for (int64_t j = 0; j < outputs; j++) total[r][j] += a * b[j];
    }
  });
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < outputs; j++) sums[(row + r) * BLOCK + j] += sum_of_lanes(total[r][j]);
}

/* All rows of a: as many at once as registers hold, then half as many, down to one. */
INLINE void multiply_rows(tri_dtype type, const tri_cpu_few_rows *job, int64_t output, int64_t outputs, float *sums) {
  int64_t row = 0;
  for (; row + MOST_ROWS <= job->m; row += MOST_ROWS) multiply_group(type, job, row, MOST_ROWS, output, outputs, sums);
  for (; row + 2 <= job->m; row += 2) multiply_group(type, job, row, 2, output, outputs, sums);
  for (; row < job->m; row++) multiply_group(type, job, row, 1, output, outputs, sums);
}

INLINE void multiply_block(tri_dtype type, const tri_cpu_few_rows *job, int64_t first, int64_t count, float *sums) {
  int64_t j = 0;
  if (job->m == 1) {
    for (; j + ALONE_OUTPUTS <= count; j += ALONE_OUTPUTS)
      multiply_group(type, job, 0, 1, first + j, ALONE_OUTPUTS, sums + j);
  } else {
    for (; j + MOST_OUTPUTS <= count; j += MOST_OUTPUTS) multiply_rows(type, job, first + j, MOST_OUTPUTS, sums + j);
  }
  for (; j < count; j++) multiply_rows(type, job, first + j, 1, sums + j);
}

/* Outputs [first, end). */
static void multiply_outputs(const tri_cpu_few_rows *job, int64_t first, int64_t end) {
  float sums[TRI_FEW_ROWS * BLOCK] __attribute__((aligned(64)));
  for (; first < end; first += BLOCK) {
    const int64_t count = smaller(BLOCK, end - first);
    begin_sums(job, first, count, sums, BLOCK);
    if (job->b_type == TRI_BF16) {
      multiply_block(TRI_BF16, job, first, count, sums);
    } else {
      multiply_block(TRI_FP32, job, first, count, sums);
    }
    store_sums(job, first, count, sums, BLOCK);
  }
}

/* Tasks begin where a block does. */
static void multiply_all_outputs(int threads, const tri_cpu_few_rows *job) {
  const int64_t blocks = divide_up(job->n, BLOCK), tasks = smaller(blocks, (int64_t)TASKS_EACH * threads);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (job->n * job->k > TRI_ALONE)
  for (int64_t t = 0; t < tasks; t++)
    multiply_outputs(job, blocks * t / tasks * BLOCK, smaller(job->n, blocks * (t + 1) / tasks * BLOCK));
}

void TRI_KERNEL(few_rows)(int threads, const tri_cpu_few_rows *job) {
  if (job->b_transposed) {
    multiply_all_outputs(threads, job);
  } else {
    multiply_columns(threads, job);
  }
}
