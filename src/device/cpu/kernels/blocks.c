/* Weights in blocks of 32 inputs (device/block_weights.h): quantising, and GEMMs that read the codes.
 *
 * A panel of 16 outputs is read from front to back, at nearly the rate of memory if rows are few. A vector has the
 * codes of adjacent outputs for one input, converted to fp32 in a register and used for some rows of a. For each row
 * and block there are two sums of products with the codes, over the first and over the last 16 inputs, in order; their
 * sum times the block's scales is added to the result. So the bits of a row's result do not depend on the other rows of
 * the call. More rows than fit into registers read the codes of the panel again, from the cache.
 *
 * Compiled without contraction, as the codes of Q4_0 need it (cmake/cpu_kernels.cmake). */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "device/cpu/regions.h"

enum {
  VECTORS = TRI_BLOCK_OUTPUTS / LANES, /* vectors of a panel's outputs */
  HALF = TRI_BLOCK_INPUTS / 2,
  TASKS_EACH = 4, /* tasks for each thread, if there are enough panels */
#if TRI_VECTOR_BYTES == 64
  ROWS = 8, /* rows of a in registers at once */
#else
  ROWS = 4,
#endif
};

/* ---- codes --------------------------------------------------------------------------------------------------------
 */

/* Loads LANES bytes as integers: signed ones, or not. */
INLINE vi bytes_to_integers(const uint8_t *from, bool with_sign) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128((const __m128i_u *)(const void *)from);
  return with_sign ? (vi)_mm512_cvtepi8_epi32(bytes) : (vi)_mm512_cvtepu8_epi32(bytes);
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64((const __m128i_u *)(const void *)from);
  return with_sign ? (vi)_mm256_cvtepi8_epi32(bytes) : (vi)_mm256_cvtepu8_epi32(bytes);
#else
  vi out;
  for (int l = 0; l < LANES; l++) out[l] = with_sign ? (int8_t)from[l] : from[l];
  return out;
#endif
}

/* Loads vector `v` of the codes of inputs i and i + 16 of a block, i < 16. */
INLINE void load_codes(tri_block_type type, const uint8_t *codes, int i, int v, vf *first, vf *second) {
  const uint8_t *at = codes + (ptrdiff_t)i * TRI_BLOCK_OUTPUTS + (ptrdiff_t)v * LANES;
  switch (type) {
    case TRI_BLOCKS_Q8_0:
      *first = __builtin_convertvector(bytes_to_integers(at, true), vf);
      *second = __builtin_convertvector(bytes_to_integers(at + (ptrdiff_t)HALF * TRI_BLOCK_OUTPUTS, true), vf);
      break;
    case TRI_BLOCKS_Q4_0: {
      const vi both = bytes_to_integers(at, false);
#if defined(__AVX512F__)
      const __m512 numbers = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
      *first = (vf)_mm512_permutexvar_ps((__m512i)both, numbers); /* uses the lowest four bits of an index */
      *second = (vf)_mm512_permutexvar_ps((__m512i)(both >> 4), numbers);
#else
      *first = __builtin_convertvector((both & 15) - 8, vf);
      *second = __builtin_convertvector((both >> 4) - 8, vf);
#endif
      break;
    }
  }
}

INLINE vf load_scales(const uint8_t *block, int v) {
  const uint8_t *at = block + (ptrdiff_t)2 * v * LANES;
#if defined(__AVX512F__)
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)at));
#elif defined(__F16C__)
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)at));
#else
  vf out;
  for (int l = 0; l < LANES; l++) {
    uint16_t bits;
    memcpy(&bits, at + (ptrdiff_t)2 * l, sizeof bits);
    out[l] = tri_float_of_f16(bits);
  }
  return out;
#endif
}

/* ---- products -----------------------------------------------------------------------------------------------------
 */

/* Rows of a, and a panel of a matrix. */
typedef struct panel_job {
  const float *a;
  int64_t lda, blocks; /* blocks: number of blocks of inputs */
  const uint8_t *panel;
} panel_job;

/* Multiplies `rows` rows of a by vector `v` of the panel's outputs. */
INLINE void multiply_vector(tri_block_type type, const panel_job *job, int rows, int v, vf *sums) {
  const int64_t block_bytes = tri_block_bytes(type);
  const uint8_t *block = job->panel;
  const float *a = job->a;
  UNROLL for (int r = 0; r < rows; r++) sums[r] = (vf){0};
  for (int64_t b = 0; b < job->blocks; b++, block += block_bytes, a += TRI_BLOCK_INPUTS) {
    vf total[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = (vf){0};
    UNROLL for (int i = 0; i < HALF; i++) {
      vf first, second;
      load_codes(type, block + TRI_BLOCK_SCALE_BYTES, i, v, &first, &second);
      UNROLL for (int r = 0; r < rows; r++) {
        total[r][0] = vf_fma(vf_splat(a[r * job->lda + i]), first, total[r][0]);
        total[r][1] = vf_fma(vf_splat(a[r * job->lda + i + HALF]), second, total[r][1]);
      }
    }
    const vf scales = load_scales(block, v);
    UNROLL for (int r = 0; r < rows; r++) sums[r] = vf_fma(total[r][0] + total[r][1], scales, sums[r]);
  }
}

/* Multiplies `rows` rows of a by a panel; c has `count` columns of it. */
INLINE void multiply_rows(tri_block_type type, const panel_job *job, int rows, int64_t count, const float *bias,
                          float *c, int64_t ldc) {
  for (int v = 0; v < VECTORS && v * LANES < count; v++) {
    vf sums[ROWS];
    const int64_t left = count - (int64_t)v * LANES, some = left < LANES ? left : LANES;
    multiply_vector(type, job, rows, v, sums);
    UNROLL for (int r = 0; r < rows; r++) {
      float *to = c + r * ldc + (ptrdiff_t)v * LANES;
      if (bias != NULL) sums[r] += vf_get(TRI_FP32, bias, (int64_t)v * LANES, some);
      vf_put(TRI_FP32, to, 0, some, sums[r]);
    }
  }
}

/* Multiplies rows [row, end) of a by panel number `panel`. */
INLINE void multiply_panel(tri_block_type type, const tri_block_product *p, int64_t row, int64_t end, int64_t panel,
                           const float *a, const uint8_t *b, const float *bias, float *c) {
  const int64_t column = panel * TRI_BLOCK_OUTPUTS, left = p->matrix.out - column;
  const int64_t count = left < TRI_BLOCK_OUTPUTS ? left : TRI_BLOCK_OUTPUTS;
  panel_job job = {
      .lda = p->lda, .blocks = p->matrix.in / TRI_BLOCK_INPUTS, .panel = b + panel * tri_block_panel_bytes(&p->matrix)};
  if (bias != NULL) bias += column;
  for (; row < end; row += ROWS) {
    float *to = c + row * p->ldc + column;
    job.a = a + row * p->lda;
    switch (tri_smaller(ROWS, end - row)) {
      case 1: multiply_rows(type, &job, 1, count, bias, to, p->ldc); break;
      case 2: multiply_rows(type, &job, 2, count, bias, to, p->ldc); break;
      case 3: multiply_rows(type, &job, 3, count, bias, to, p->ldc); break;
#if TRI_VECTOR_BYTES == 64
      case 4: multiply_rows(type, &job, 4, count, bias, to, p->ldc); break;
      case 5: multiply_rows(type, &job, 5, count, bias, to, p->ldc); break;
      case 6: multiply_rows(type, &job, 6, count, bias, to, p->ldc); break;
      case 7: multiply_rows(type, &job, 7, count, bias, to, p->ldc); break;
#endif
      default: multiply_rows(type, &job, ROWS, count, bias, to, p->ldc); break;
    }
  }
}

/* A GEMM divided into tasks: for each group, runs of adjacent panels. */
typedef struct block_runs {
  const tri_block_product *product;
  const int32_t *begins;
  const float *a, *bias;
  const uint8_t *b;
  float *c;
  int64_t panels, runs;
} block_runs;

static void multiply_run(const void *context, int64_t task, int worker) {
  const block_runs *in = context;
  const tri_block_product *p = in->product;
  const int64_t group = task / in->runs, run = task % in->runs;
  const int64_t row = in->begins == NULL ? 0 : in->begins[group];
  const int64_t end = in->begins == NULL ? p->rows : in->begins[group + 1];
  const uint8_t *b = in->b + group * p->stride;
  (void)worker;
  for (int64_t panel = in->panels * run / in->runs; panel < in->panels * (run + 1) / in->runs && row < end; panel++) {
    switch (p->matrix.type) {
      case TRI_BLOCKS_Q8_0: multiply_panel(TRI_BLOCKS_Q8_0, p, row, end, panel, in->a, b, in->bias, in->c); break;
      case TRI_BLOCKS_Q4_0: multiply_panel(TRI_BLOCKS_Q4_0, p, row, end, panel, in->a, b, in->bias, in->c); break;
    }
  }
}

static tri_status block_matmul(tri_queue *queue, tri_dtype type, const tri_block_product *product,
                               const int32_t *begins, const void *a, const void *b, const void *bias, void *c) {
  tri_regions *regions = REGIONS;
  const int64_t panels = tri_block_panels(&product->matrix);
  const block_runs in = {.product = product,
                         .begins = product->groups == 0 ? NULL : begins,
                         .a = a,
                         .bias = product->groups == 0 ? bias : NULL,
                         .b = b,
                         .c = c,
                         .panels = panels,
                         .runs = tri_smaller(panels, (int64_t)TASKS_EACH * tri_regions_threads(regions))};
  const int64_t groups = tri_larger(product->groups, 1);
  (void)type; /* fp32, the only wide type of this device */
  if (panels == 0) return TRI_OK;
  const bool alone = product->matrix.in * product->matrix.out * groups <= TRI_ALONE;
  tri_regions_run(alone ? NULL : regions, groups * in.runs, multiply_run, &in);
  return TRI_OK;
}

/* ---- values -------------------------------------------------------------------------------------------------------
 */

static void pack_block(const tri_block_matrix *matrix, const tri_block_part *part, int64_t output, int64_t block,
                       const float *values, uint8_t *kept) {
  float in[TRI_BLOCK_INPUTS] = {0};
  int8_t codes[TRI_BLOCK_INPUTS];
  const float *from = values + (output - part->first_out) * part->out_stride +
                      (block * TRI_BLOCK_INPUTS - part->first_in) * part->in_stride;
  for (int i = 0; i < TRI_BLOCK_INPUTS && output < matrix->out; i++) in[i] = from[i * part->in_stride];
  const uint16_t scale = tri_block_encode(matrix->type, in, codes);
  tri_block_put(matrix, output, block, scale, codes, kept);
}

static tri_status pack_blocks(tri_queue *queue, tri_dtype type, const tri_block_matrix *matrix,
                              const tri_block_part *part, const void *values, void *kept) {
  const int64_t end = tri_round_up(part->first_out + part->outputs, TRI_BLOCK_OUTPUTS);
  const int64_t first = part->first_in / TRI_BLOCK_INPUTS, blocks = part->inputs / TRI_BLOCK_INPUTS;
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (part->outputs * part->inputs > TRI_ALONE)
  for (int64_t panel = part->first_out; panel < end; panel += TRI_BLOCK_OUTPUTS) {
    for (int64_t b = first; b < first + blocks; b++)
      for (int64_t o = panel; o < panel + TRI_BLOCK_OUTPUTS; o++) pack_block(matrix, part, o, b, values, kept);
  }
  return TRI_OK;
}

/* Decodes inputs [first, first + count) of an output to to[i * stride]. */
static void unpack_row(const tri_block_matrix *matrix, int64_t output, int64_t first, int64_t count,
                       const uint8_t *kept, float *to, int64_t stride) {
  float numbers[TRI_BLOCK_INPUTS];
  for (int64_t i = 0; i < count; i++) {
    const int64_t input = first + i;
    if (i == 0 || input % TRI_BLOCK_INPUTS == 0) tri_block_get(matrix, output, input / TRI_BLOCK_INPUTS, kept, numbers);
    to[i * stride] = numbers[input % TRI_BLOCK_INPUTS];
  }
}

static tri_status unpack_blocks(tri_queue *queue, tri_dtype type, const tri_block_matrix *matrix,
                                const tri_block_part *part, const void *kept, void *values) {
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (part->outputs * part->inputs > TRI_ALONE)
  for (int64_t o = 0; o < part->outputs; o++)
    unpack_row(matrix, part->first_out + o, part->first_in, part->inputs, kept, (float *)values + o * part->out_stride,
               part->in_stride);
  return TRI_OK;
}

static tri_status embedding_blocks(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_block_matrix *matrix,
                                   const int32_t *ids, int64_t first_id, const void *table, const int32_t *positions,
                                   const void *position_table, void *out) {
  const int64_t live = tri_rows_live(rows), width = matrix->in;
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) {
    const int64_t id = ids[r] - first_id;
    float *to = (float *)out + r * width;
    if (id >= 0 && id < matrix->out) {
      unpack_row(matrix, id, 0, width, table, to, 1);
    } else {
      memset(to, 0, (size_t)width * sizeof *to);
    }
    const float *position = position_table == NULL ? NULL : (const float *)position_table + positions[r] * width;
    for (int64_t c = 0; c < width && position != NULL; c++) to[c] += position[c];
  }
  return TRI_OK;
}

void TRI_KERNEL(table_blocks)(tri_device_kernels *table) {
  table->pack_blocks = pack_blocks;
  table->unpack_blocks = unpack_blocks;
  table->embedding_blocks = embedding_blocks;
  table->block_matmul = block_matmul;
}
