/* c = a b for rows in generation, with b in place. For few rows all time goes into reading b, so b is read once, in
 * contiguous ranges as long as possible, and each number of b is used for all rows while it is in a register.
 *
 * b as [k, n] (weights by inputs), for up to TRI_FEW_ROWS rows: a task has some of b's rows, whole, and keeps its sums
 * for all rows of a in the cache. It reads DEPTH rows of b at a time, as DEPTH streams: it loads each vector of sums,
 * adds DEPTH products in order, and stores it. Then the sums of the parts are added. panels.c computes GEMMs of more
 * rows.
 *
 * b as [n, k] (by outputs), for any number of rows: vectors of sums of some rows and outputs stay in registers over a
 * part of k, then their lanes are added. If a has few rows, each number of b is used for all of them at once, and b is
 * read as a few streams in regions of memory that are far apart, because adjacent streams would reach the end of a page
 * at the same time. If a has more rows, BLOCK outputs stay in the L2 cache and ROWS rows of a in the L1 cache until all
 * have been multiplied.
 *
 * The order of a sum depends only on k, so its bits depend neither on the threads nor on the other rows and columns of
 * the call. k is divided into parts. With b as [k, n], the products of a part are added in the order of k; with b as
 * [n, k], in the order of k's vectors, and then the lanes are added. */
#include "base/count.h"
#include "device/cpu/kernels/row_sums.h"

enum {
  DEPTH = 8,          /* rows of b [k, n] that are read at once */
  AHEAD = 16 * LANES, /* distance, in columns, at which rows of b [k, n] are prefetched */
  SUMS = 8192,        /* sums of all rows of a at once: 32 KiB */
  BLOCK = 48,         /* outputs whose sums are stored together, for many rows of a */
  FAR_BLOCK = 512,    /* outputs whose sums are stored together, for few rows of a */
  LONGEST = 768,      /* maximum length of a part of k in which lanes are summed */
  FAR_AHEAD = 1024,   /* distance, in bytes, at which rows of b [n, k] are prefetched */
  TASKS_EACH = 4,     /* tasks for each thread, if there are enough blocks */
  ALONE_OUTPUTS = 8,  /* outputs in registers at once, if a has only one row */
  MOST = 8,           /* maximum rows or outputs in registers */
#if TRI_VECTOR_BYTES == 64
  TOGETHER = 2, /* vectors of each of DEPTH rows of b that are multiplied together */
  ROWS = 8,     /* rows of a in registers at once */
  OUTPUTS = 3,  /* rows of b in registers at the same time */
#else
  TOGETHER = 1,
  ROWS = 4,
  OUTPUTS = 2,
#endif
};

/* ---- b is [k, n] ------------------------------------------------------------------------------------------------- */

/* Adds the products of all rows of a and `depth` rows of b, from row `at` on, to sums [m, pitch], for `vectors` vectors
 * of columns from `column` on; for only `count` columns if `vectors` is 1. Prefetches b `ahead` elements further. */
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
    const float *a = (const float *)job->a + r * job->lda + at;
    vf sum[TOGETHER];
    for (int64_t v = 0; v < vectors; v++) sum[v] = vf_get(TRI_FP32, sums, r * pitch + v * LANES, count);
    for (int64_t d = 0; d < depth; d++)
      for (int64_t v = 0; v < vectors; v++) sum[v] = vf_fma(vf_splat(a[d]), b[d][v], sum[v]);
    for (int64_t v = 0; v < vectors; v++) vf_put(TRI_FP32, sums, r * pitch + v * LANES, count, sum[v]);
  }
}

/* Adds the products of all rows of a and `depth` rows of b to sums, and prefetches a short distance ahead, in the same
 * rows of b or, near their ends, in the next ones. If all next DEPTH rows were prefetched while these are read, and
 * rows had a length such as 3072 floats, the lines of the rows would be in the same sets of the cache, and would evict
 * each other before they are read. */
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

/* Multiplies columns [first, end) of a part, as many at once as have sums that fit into the cache. The rows of sums are
 * padded by a vector, to use different cache sets. */
static void multiply_part(const tri_cpu_few_rows *job, int64_t part, int64_t first, int64_t end) {
  float sums[SUMS + TRI_FEW_ROWS * LANES] __attribute__((aligned(64)));
  const int64_t parts = tri_few_rows_parts(job->k, false), most = SUMS / job->m / LANES * LANES, pitch = most + LANES;
  const int64_t at = job->k * part / parts, depth_end = job->k * (part + 1) / parts;
  for (; first < end; first += most) {
    const int64_t columns = tri_smaller(most, end - first);
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

/* Adds columns [first, first + count) of all parts to the initial value of c. */
static void join_parts(const tri_cpu_few_rows *job, int64_t first, int64_t count) {
  const int64_t parts = tri_few_rows_parts(job->k, false);
  float sums[TRI_FEW_ROWS * BLOCK] __attribute__((aligned(64)));
  begin_sums(job, 0, job->m, first, count, sums, BLOCK);
  for (int64_t r = 0; r < job->m; r++) {
    for (int64_t part = 0; part < parts; part++) {
      const float *from = job->parts + (part * job->m + r) * job->n + first;
      for (int64_t i = 0; i < count; i++) sums[r * BLOCK + i] += from[i];
    }
  }
  store_sums(job, 0, job->m, first, count, sums, BLOCK);
}

/* A loop over blocks of columns, divided into ranges. */
typedef struct block_runs {
  const tri_cpu_few_rows *job;
  int64_t blocks, runs;
} block_runs;

static int64_t run_begin(const block_runs *in, int64_t run) {
  return tri_smaller(in->job->n, in->blocks * run / in->runs * BLOCK);
}

static void multiply_task(const void *context, int64_t task, int worker) {
  const block_runs *in = context;
  const int64_t run = task % in->runs;
  (void)worker;
  multiply_part(in->job, task / in->runs, run_begin(in, run), run_begin(in, run + 1));
}

static void join_task(const void *context, int64_t run, int worker) {
  const block_runs *in = context;
  const int64_t end = run_begin(in, run + 1);
  (void)worker;
  for (int64_t at = run_begin(in, run); at < end; at += BLOCK) join_parts(in->job, at, tri_smaller(BLOCK, end - at));
}

/* Multiplies whole rows of b, or, if parts are too few for the threads, ranges of their columns. */
static void multiply_columns(tri_regions *regions, const tri_cpu_few_rows *job) {
  const int64_t parts = tri_few_rows_parts(job->k, false), blocks = tri_divide_up(job->n, BLOCK);
  const int64_t threads = tri_regions_threads(regions);
  const block_runs cut = {job, blocks, tri_smaller(blocks, tri_divide_up(2 * threads, parts))};
  const block_runs joined = {job, blocks, tri_smaller(blocks, TASKS_EACH * threads)};
  tri_regions *some = job->n * job->k > TRI_ALONE ? regions : NULL;
  tri_regions_run(some, parts * cut.runs, multiply_task, &cut);
  tri_regions_run(some, joined.runs, join_task, &joined);
}

/* ---- b is [n, k] ------------------------------------------------------------------------------------------------- */

/* Adds lanes l and l ^ by: of x in the lanes whose bit `by` is not set, and of y in the others. */
#define FROM(l, by) (((l) & (by)) != 0 ? LANES + (l) : (l))
#define ACROSS(l, by) (((l) & (by)) != 0 ? LANES + ((l) ^ (by)) : (l) ^ (by))
#define FOUR(which, l, by) which(l, by), which(l + 1, by), which(l + 2, by), which(l + 3, by)
#if TRI_VECTOR_BYTES == 64
#define ALL_LANES(which, by) FOUR(which, 0, by), FOUR(which, 4, by), FOUR(which, 8, by), FOUR(which, 12, by)
#elif TRI_VECTOR_BYTES == 32
#define ALL_LANES(which, by) FOUR(which, 0, by), FOUR(which, 4, by)
#else
#define ALL_LANES(which, by) FOUR(which, 0, by)
#endif
#define MERGE(by)                                                                                                      \
  __builtin_shufflevector(x, y, ALL_LANES(FROM, by)) + __builtin_shufflevector(x, y, ALL_LANES(ACROSS, by))

INLINE vf merge_lanes(vf x, vf y, int by) {
#if TRI_VECTOR_BYTES == 64
  if (by == 8) return MERGE(8);
#endif
#if TRI_VECTOR_BYTES >= 32
  if (by == 4) return MERGE(4);
#endif
  return by == 2 ? MERGE(2) : MERGE(1);
}

/* Reduces x[count] to half as many vectors, each with the sums of two, and returns their number. A single vector is
 * added to itself with its lanes swapped. */
INLINE int halve(vf *x, int count, int by) {
  if (count == 1) x[0] += (vf)vi_swap((vi)x[0], by);
  UNROLL for (int i = 0; i < count / 2; i++) x[i] = merge_lanes(x[i], x[i + count / 2], by);
  return count > 1 ? count / 2 : 1;
}

/* Returns the sums of lanes of `count` vectors, a power of two up to LANES: the sum of vector i is in lane i * LANES /
 * count. Each sum has the same order, by halves, for any count. */
INLINE vf sums_of_lanes(vf *x, int count) {
#if TRI_VECTOR_BYTES == 64
  count = halve(x, count, 8);
#endif
#if TRI_VECTOR_BYTES >= 32
  count = halve(x, count, 4);
#endif
  count = halve(x, count, 2);
  halve(x, count, 1);
  return x[0];
}

INLINE int power_of_two(int count) { return count > 4 ? 8 : count > 2 ? 4 : count; }

/* A group: `rows` rows of a and `outputs` rows of b that are `next_b` apart; `vectors` whole vectors and `rest` more
 * numbers of each. The sum of a row and of output j is added to sums[j * stride + row]. Prefetches b `ahead`
 * elements further. */
typedef struct group {
  const float *a;
  const void *b;
  int64_t lda, next_b, vectors, rest, ahead, stride;
} group;

/* Sums of one output and ROWS rows. */
typedef float sums_of_rows __attribute__((vector_size(ROWS * sizeof(float)), aligned(4), may_alias));

INLINE sums_of_rows every_row(vf sums) {
#if TRI_VECTOR_BYTES == 64
  return __builtin_shufflevector(sums, sums, 0, 2, 4, 6, 8, 10, 12, 14);
#elif TRI_VECTOR_BYTES == 32
  return __builtin_shufflevector(sums, sums, 0, 2, 4, 6);
#else
  return sums;
#endif
}

/* Forces a load: GCC would read an operand from memory for each use, but loads cost more than multiplications. */
INLINE vf in_register(vf x) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(x));
#elif defined(__x86_64__)
  __asm__("" : "+x"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
  return x;
}

INLINE void add_vector(tri_dtype type, const group *of, const float *a, const void *b, int64_t i, int64_t count,
                       int rows, int outputs, bool fetch, vf (*total)[MOST]) {
  vf values[ALONE_OUTPUTS];
  UNROLL for (int j = 0; j < outputs; j++) {
    const int64_t at = j * of->next_b + i;
    values[j] = vf_get(type, b, at, count);
    if (fetch) __builtin_prefetch((const char *)b + (size_t)(at + of->ahead) * tri_dtype_bytes(type));
  }
  UNROLL for (int r = 0; r < rows; r++) {
    const vf x = in_register(vf_get(TRI_FP32, a, r * of->lda + i, count));
    UNROLL for (int j = 0; j < outputs; j++) total[j][r] = vf_fma(x, values[j], total[j][r]);
  }
}

INLINE void multiply_group(tri_dtype type, const group *of, int rows, int outputs, bool fetch, float *sums) {
  vf total[ALONE_OUTPUTS][MOST];
  UNROLL for (int j = 0; j < outputs; j++) { UNROLL for (int r = 0; r < rows; r++) total[j][r] = (vf){0}; }
  const int64_t whole = of->vectors * LANES;
  for (int64_t i = 0; i < whole; i += LANES) add_vector(type, of, of->a, of->b, i, LANES, rows, outputs, fetch, total);
  if (of->rest > 0) add_vector(type, of, of->a, of->b, whole, of->rest, rows, outputs, fetch, total);
  if (rows == 1) {
    const int all = power_of_two(outputs), some = all < LANES ? all : LANES;
    UNROLL for (int j = 0; j < all; j += some) {
      vf alone[MOST];
      UNROLL for (int l = 0; l < some; l++) alone[l] = j + l < outputs ? total[j + l][0] : (vf){0};
      const vf sum = sums_of_lanes(alone, some);
      UNROLL for (int l = 0; l < some; l++) if (j + l < outputs) sums[(j + l) * of->stride] += sum[l * (LANES / some)];
    }
    return;
  }
  UNROLL for (int j = 0; j < outputs; j++) {
    UNROLL for (int r = rows; r < ROWS; r++) total[j][r] = (vf){0};
    *(sums_of_rows *)(sums + j * of->stride) += every_row(sums_of_lanes(total[j], ROWS));
  }
}

typedef void group_function(const group *of, float *sums);

/* Defines a function for each form of a group, so that each loop has all registers for itself. */
#define GROUP(type, rows, name, outputs, fetch)                                                                        \
  __attribute__((noinline)) static void group_##type##_##rows##_##name(const group *of, float *sums) {                 \
    const group own = *of;                                                                                             \
    multiply_group(TRI_##type, &own, rows, outputs, fetch, sums);                                                      \
  }
#define GROUPS_OF(rows)                                                                                                \
  GROUP(FP32, rows, one, 1, false)                                                                                     \
  GROUP(BF16, rows, one, 1, false)                                                                                     \
  GROUP(FP32, rows, most, OUTPUTS, true)                                                                               \
  GROUP(BF16, rows, most, OUTPUTS, true)
#define NAMES_OF(type, rows)                                                                                           \
  { group_##type##_##rows##_one, group_##type##_##rows##_most }

GROUP(FP32, 1, one, 1, false)
GROUP(BF16, 1, one, 1, false)
GROUP(FP32, 1, most, ALONE_OUTPUTS, false)
GROUP(BF16, 1, most, ALONE_OUTPUTS, false)
GROUPS_OF(2)
GROUPS_OF(3)
GROUPS_OF(4)
#if TRI_VECTOR_BYTES == 64
GROUPS_OF(5)
GROUPS_OF(6)
GROUPS_OF(7)
GROUPS_OF(8)
#define ALL_NAMES(type)                                                                                                \
  {                                                                                                                    \
    NAMES_OF(type, 1), NAMES_OF(type, 2), NAMES_OF(type, 3), NAMES_OF(type, 4), NAMES_OF(type, 5), NAMES_OF(type, 6),  \
        NAMES_OF(type, 7), NAMES_OF(type, 8)                                                                           \
  }
#else
#define ALL_NAMES(type)                                                                                                \
  { NAMES_OF(type, 1), NAMES_OF(type, 2), NAMES_OF(type, 3), NAMES_OF(type, 4) }
#endif
GROUP(FP32, ROWS, near, OUTPUTS, false)
GROUP(BF16, ROWS, near, OUTPUTS, false)

/* A block of outputs, and the current part of k. */
typedef struct outputs_block {
  const tri_cpu_few_rows *job;
  group_function *const (*functions)[2]; /* indexed by rows - 1, and by whether they compute several outputs */
  group_function *near;                  /* for ROWS rows and several outputs, without prefetch */
  int64_t first, count;                  /* range of b's rows */
  float *sums;                           /* [count, pitch] by outputs and rows */
  int64_t pitch;
  const char *b;      /* first row of b in the block, at the current part of k */
  int64_t next_bytes; /* distance between two rows of b, in bytes */
  group of;
} outputs_block;

/* Returns the beginning of part `part` of k: a whole vector. */
static int64_t part_begin(int64_t k, int64_t part) {
  const int64_t parts = tri_divide_up(k, LONGEST), vectors = tri_divide_up(k, LANES);
  return tri_smaller(k, vectors * part / parts * LANES);
}

static void set_part(outputs_block *in, int64_t part) {
  const tri_cpu_few_rows *job = in->job;
  const int64_t begin = part_begin(job->k, part), length = part_begin(job->k, part + 1) - begin;
  in->of.a = (const float *)job->a + begin;
  in->b = (const char *)job->b + (size_t)(in->first * job->ldb + begin) * tri_dtype_bytes(job->b_type);
  in->of.vectors = length / LANES;
  in->of.rest = length % LANES;
}

/* Computes `rows` rows from `row` on, with one output of the block, `output`, or, if `several`, with several outputs
 * from it on, as far apart as set_stride has set. */
INLINE void add_group(const outputs_block *in, int64_t row, int64_t rows, int64_t output, bool several) {
  group of = in->of;
  of.a += row * of.lda;
  of.b = in->b + output * in->next_bytes;
  in->functions[rows - 1][several](&of, in->sums + output * in->pitch + row);
}

static void set_stride(outputs_block *in, int64_t stride) {
  in->of.stride = stride * in->pitch;
  in->of.next_b = stride * in->job->ldb;
}

/* Computes all rows of a with one output of the block, `output`; or, if `several`, with OUTPUTS outputs that are
 * `run` apart (ALONE_OUTPUTS if a has one row). */
static void add_all_rows(const outputs_block *in, int64_t output, int64_t run, bool several) {
  const int64_t m = in->job->m;
  for (int64_t row = 0; row < m; row += ROWS) {
    const int64_t rows = tri_smaller(ROWS, m - row);
    if (rows > 1 || m == 1 || !several) {
      add_group(in, row, rows, output, several);
    } else {
      for (int64_t j = 0; j < OUTPUTS; j++) add_group(in, row, 1, output + j * run, false);
    }
  }
}

/* Multiplies few rows of a. Each number that is read from b is used for all of these rows, and the outputs of a group
 * are far apart. */
static void multiply_far(outputs_block *in) {
  const tri_cpu_few_rows *job = in->job;
  const int64_t parts = tri_divide_up(job->k, LONGEST), together = job->m == 1 ? ALONE_OUTPUTS : OUTPUTS;
  const int64_t run = in->count / together;
  set_stride(in, run);
  in->of.ahead = FAR_AHEAD / (int64_t)tri_dtype_bytes(job->b_type);
  for (int64_t i = 0; i < run; i++) {
    for (int64_t part = 0; part < parts; part++) {
      if (parts > 1 || i == 0) set_part(in, part);
      add_all_rows(in, i, run, true);
    }
  }
  for (int64_t part = 0; part < parts; part++) {
    set_part(in, part);
    for (int64_t i = run * together; i < in->count; i++) add_all_rows(in, i, 0, false);
  }
}

/* Multiplies more rows of a. The last FETCHING groups of rows prefetch the next data: the same outputs in the next part
 * of k, or the next block. */
static void multiply_near(outputs_block *in) {
  enum { FETCHING = 4 };
  const tri_cpu_few_rows *job = in->job;
  const int64_t parts = tri_divide_up(job->k, LONGEST), fetching = tri_smaller(FETCHING, tri_divide_up(job->m, ROWS));
  set_stride(in, 1);
  for (int64_t part = 0; part < parts; part++) {
    const int64_t begin = part_begin(job->k, part), next = part_begin(job->k, part + 1);
    set_part(in, part);
    in->of.ahead = part + 1 < parts ? next - begin : BLOCK * job->ldb - begin;
    for (int64_t row = 0; row < job->m; row += ROWS) {
      const int64_t rows = tri_smaller(ROWS, job->m - row), together = rows == 1 ? ALONE_OUTPUTS : OUTPUTS;
      const int64_t left = (job->m - row - 1) / ROWS;
      int64_t j = 0;
      for (; j + together <= in->count; j += together) {
        const bool fetch = j / OUTPUTS % fetching == left;
        if (rows == ROWS && !fetch) {
          group of = in->of;
          of.a += row * of.lda;
          of.b = in->b + j * in->next_bytes;
          in->near(&of, in->sums + j * in->pitch + row);
        } else {
          add_group(in, row, rows, j, true);
        }
      }
      for (; j < in->count; j++) add_group(in, row, rows, j, false);
    }
  }
}

/* Adds sums [in->count, in->pitch] to their initial values and stores them in c. */
static void store_outputs(const outputs_block *in) {
  float row[FAR_BLOCK] __attribute__((aligned(64)));
  for (int64_t r = 0; r < in->job->m; r++) {
    begin_sums(in->job, r, 1, in->first, in->count, row, FAR_BLOCK);
    for (int64_t j = 0; j < in->count; j++) row[j] += in->sums[j * in->pitch + r];
    store_sums(in->job, r, 1, in->first, in->count, row, FAR_BLOCK);
  }
}

/* Computes outputs [first, end). */
static void multiply_outputs(const tri_cpu_few_rows *job, int64_t first, int64_t end) {
  static group_function *const floats[][2] = ALL_NAMES(FP32), *const narrow[][2] = ALL_NAMES(BF16);
  float sums[BLOCK * (TRI_MOST_ROWS + ROWS)] __attribute__((aligned(64)));
  const bool few = job->m <= TRI_FEW_ROWS, bf16 = job->b_type == TRI_BF16;
  const int64_t block = few ? FAR_BLOCK : BLOCK;
  for (; first < end; first += block) {
    outputs_block in = {
        .job = job,
        .functions = bf16 ? narrow : floats,
        .near = bf16 ? group_BF16_ROWS_near : group_FP32_ROWS_near,
        .first = first,
        .count = tri_smaller(block, end - first),
        .sums = sums,
        .pitch = job->m == 1 ? 1 : tri_divide_up(job->m, ROWS) * ROWS + (few ? 0 : ROWS),
        .next_bytes = job->ldb * (int64_t)tri_dtype_bytes(job->b_type),
        .of = {.lda = job->lda},
    };
    memset(sums, 0, (size_t)(in.count * in.pitch) * sizeof(float));
    if (few) {
      multiply_far(&in);
    } else {
      multiply_near(&in);
    }
    store_outputs(&in);
  }
}

static void outputs_task(const void *context, int64_t run, int worker) {
  const block_runs *in = context;
  (void)worker;
  multiply_outputs(in->job, run_begin(in, run), run_begin(in, run + 1));
}

static void multiply_all_outputs(tri_regions *regions, const tri_cpu_few_rows *job) {
  const int64_t blocks = tri_divide_up(job->n, BLOCK), threads = tri_regions_threads(regions);
  const block_runs cut = {job, blocks, tri_smaller(blocks, TASKS_EACH * threads)};
  tri_regions_run(job->n * job->k > TRI_ALONE ? regions : NULL, cut.runs, outputs_task, &cut);
}

void TRI_KERNEL(few_rows)(tri_regions *regions, const tri_cpu_few_rows *job) {
  if (job->b_packed || (!job->b_transposed && job->m > TRI_FEW_ROWS)) {
    TRI_KERNEL(multiply_panels)(regions, job);
  } else if (job->b_transposed) {
    multiply_all_outputs(regions, job);
  } else {
    multiply_columns(regions, job);
  }
}
