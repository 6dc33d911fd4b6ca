/* The GEMM of the attention kernels: c[rows, columns] (+)= a[rows, depth] * b[depth, columns].
 *
 * a is read one cell at a time, with any strides (so it may be the transpose of a stored matrix); rows of b are read as
 * vectors. A block of c of up to 6 rows and PANEL vectors stays in registers over the whole depth: each loaded vector
 * of b is used 6 times and each cell of a PANEL times, so that the multiply-add units are the only bottleneck. Each
 * element of c is one chain of multiply-adds in the order of depth, in any block.
 *
 * The keys of a tile that its queries attend to form a band between two staircases; the masked part is skipped here,
 * block by block. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_PRODUCT_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_PRODUCT_H

#include "device/cpu/kernels/attention_cells.h"

/* Number of vectors of a block of c: 24 sums with their operands fit into 32 registers, 12 into 16. */
#if TRI_VECTOR_BYTES == 64 || defined(__aarch64__)
#define PANEL 4
#else
#define PANEL 2
#endif
#define BLOCK_ROWS 6

/* The part of a tile of keys to which a tile of queries attends: query r attends to the keys r + low .. r + high. */
typedef struct band {
  int64_t low, high;
} band;

/* The dimensions of a GEMM that the band trims. */
typedef enum trim {
  TRIM_NOTHING,
  TRIM_COLUMNS,       /* rows are queries, columns are keys */
  TRIM_DEPTH_KEYS,    /* rows are queries, depth is keys */
  TRIM_DEPTH_QUERIES, /* rows are keys, depth is queries */
} trim;

typedef struct product {
  const cell *a;
  int64_t a_row, a_step;
  const cell *b;
  int64_t b_step;
  float *c;
  int64_t c_row;
  int64_t rows, columns;
  int64_t depth;          /* depth in elements */
  const float *row_scale; /* if not NULL, c = row_scale[r] * c + a * b */
  bool accumulate;        /* whether c += a * b; false: c = a * b, unless row_scale is set */
  trim trim;
  band band;
} product;

#if TRI_PAIRS
INLINE vf multiply_add(vf sum, cell a, const cell *b) {
  return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)_mm512_loadu_si512(b));
}
#else
INLINE vf multiply_add(vf sum, cell a, const cell *b) { return sum + vf_splat(a) * vf_load(TRI_FP32, b, 0); }
#endif

INLINE void product_block(const product *p, int rows, int vectors, int64_t row, int64_t column, int64_t begin,
                          int64_t end) {
  vf sum[BLOCK_ROWS][PANEL];
  const int64_t c_row = p->c_row, a_row = p->a_row, a_step = p->a_step, b_step = p->b_step;
  float *c = p->c + row * c_row + column;
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int v = 0; v < vectors; v++) {
      if (p->row_scale)
        sum[i][v] = vf_load(TRI_FP32, c + i * c_row, v * LANES) * p->row_scale[row + i];
      else if (p->accumulate)
        sum[i][v] = vf_load(TRI_FP32, c + i * c_row, v * LANES);
      else
        sum[i][v] = (vf){0};
    }
  }
  const cell *a = p->a + row * a_row + begin * a_step, *b = p->b + column + begin * b_step;
  for (int64_t k = begin; k < end; k++) {
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = multiply_add(sum[i][v], a[i * a_row], b + v * LANES);
    }
    a += a_step;
    b += b_step;
  }
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int v = 0; v < vectors; v++) vf_store(TRI_FP32, c + i * c_row, v * LANES, sum[i][v]);
  }
}

typedef void block_function(const product *p, int64_t row, int64_t column, int64_t begin, int64_t end);

#define BLOCK(rows, vectors)                                                                                           \
  static void block_##rows##_##vectors(const product *p, int64_t row, int64_t column, int64_t begin, int64_t end) {    \
    product_block(p, rows, vectors, row, column, begin, end);                                                          \
  }
#if PANEL == 4
#define BLOCKS_OF(rows) BLOCK(rows, 1) BLOCK(rows, 2) BLOCK(rows, 3) BLOCK(rows, 4)
#define NAMES_OF(rows)                                                                                                 \
  { NULL, block_##rows##_1, block_##rows##_2, block_##rows##_3, block_##rows##_4 }
#else
#define BLOCKS_OF(rows) BLOCK(rows, 1) BLOCK(rows, 2)
#define NAMES_OF(rows)                                                                                                 \
  { NULL, block_##rows##_1, block_##rows##_2 }
#endif

BLOCKS_OF(1)
BLOCKS_OF(2)
BLOCKS_OF(3)
BLOCKS_OF(4)
BLOCKS_OF(5)
BLOCKS_OF(6)

static void multiply(const product *p) {
  static block_function *const blocks[BLOCK_ROWS + 1][PANEL + 1] = {{NULL},      NAMES_OF(1), NAMES_OF(2), NAMES_OF(3),
                                                                    NAMES_OF(4), NAMES_OF(5), NAMES_OF(6)};
  for (int64_t row = 0; row < p->rows; row += BLOCK_ROWS) {
    const int64_t rows = smaller(BLOCK_ROWS, p->rows - row);
    int64_t begin = 0, end = p->depth, first = 0, columns = p->columns;
    if (p->trim == TRIM_COLUMNS) {
      columns = clamp(row + rows + p->band.high, 0, columns);
      first = clamp(row + p->band.low, 0, columns) / LANES * LANES;
    }
    if (p->trim == TRIM_DEPTH_KEYS) {
      end = clamp(row + rows + p->band.high, 0, end);
      begin = clamp(row + p->band.low, 0, end);
    }
    if (p->trim == TRIM_DEPTH_QUERIES) {
      begin = clamp(row - p->band.high, 0, end);
      end = clamp(row + rows - p->band.low, begin, end);
    }
    for (int64_t column = first; column < columns; column += PANEL * LANES) {
      int64_t vectors = smaller(PANEL, divide_up(columns - column, LANES));
      blocks[rows][vectors](p, row, column, begin / CELL_ELEMENTS, cells(end));
    }
  }
}

#endif
