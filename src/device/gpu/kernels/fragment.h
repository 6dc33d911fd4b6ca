/* Matrix fragments, the operands of a warp's multiplication. A warp has a 16 x 16 tile of c; each lane holds a few
 * elements of this tile (`fragment`). The warp adds products a * b to the tile, FRAGMENT_K columns of a and rows of b
 * at a time. It loads these operands from shared memory (`fragment_a`, `fragment_b`, whose layout callers do not use).
 *
 * The same functions serve every type and warps of 32 and of 64 threads:
 *
 *   bf16, warp of 32   mma.sync.m16n8k16, twice (PTX ISA, "Matrix fragments for mma.m16n8k16")
 *   bf16, warp of 64   v_mfma_f32_16x16x16_bf16_1k (AMD CDNA2 instruction set, "Matrix arithmetic instructions")
 *   fp32, fp64         multiply-adds in threads: no type is narrowed
 *
 * The emulator uses the layouts of these instructions: a lane's elements are those that the hardware expects. Callers
 * find the place of an element with fragment_row and fragment_column only:
 *
 *   element [r][c] of a lane's `fragment` is that of row fragment_row(r) and column fragment_column(c),
 *
 * so a lane has FRAGMENT_ROWS rows with FRAGMENT_COLUMNS columns each; FRAGMENT_ROW_LANES adjacent lanes share a row.
 *
 * Loads, products, row sums and conversions must be called by all lanes of a warp. No function has a barrier of the
 * block. The `pitch` of a tile is the distance of its stored rows, in elements. Tiles in shared memory
 * are aligned to 16 bytes, and the distance of their rows is a multiple of 16 bytes; an odd multiple of 16 bytes keeps
 * the lanes on different banks. */
#ifndef TRI_DEVICE_GPU_KERNELS_FRAGMENT_H
#define TRI_DEVICE_GPU_KERNELS_FRAGMENT_H

#include "device/gpu/kernels/tile.h"

enum { FRAGMENT = 16 }; /* rows and columns of c */

#if TRI_GPU_TYPE == 16
enum {
  FRAGMENT_K = 16,
  FRAGMENT_ROWS = WARP == 32 ? 2 : 4,
  FRAGMENT_COLUMNS = 256 / WARP / FRAGMENT_ROWS,
  FRAGMENT_WORDS = 128 / WARP /* words of a lane for an operand; a word has two elements */
};
#else
enum { FRAGMENT_K = VECTOR, FRAGMENT_ROWS = 64 / WARP, FRAGMENT_COLUMNS = 4 };
#endif
enum { FRAGMENT_ROW_LANES = FRAGMENT / FRAGMENT_COLUMNS };

/* The elements of c that a lane holds. */
typedef struct fragment {
  wide at[FRAGMENT_ROWS][FRAGMENT_COLUMNS];
} fragment;

/* Return the row, and the column, of this lane's element [r][c] in the 16 x 16 tile. */
DEVICE int fragment_row(int r) {
#if TRI_GPU_TYPE == 16
  return WARP == 32 ? lane() / 4 + 8 * r : lane() / 16 * 4 + r;
#else
  return lane() / 4 + r * (WARP / 4);
#endif
}

DEVICE int fragment_column(int c) {
#if TRI_GPU_TYPE == 16
  return WARP == 32 ? c / 2 * 8 + lane() % 4 * 2 + c % 2 : lane() % 16;
#else
  return lane() % 4 * 4 + c;
#endif
}

DEVICE void fragment_clear(fragment *c) {
  UNROLL
  for (int i = 0; i < FRAGMENT_ROWS; i++) {
    UNROLL
    for (int j = 0; j < FRAGMENT_COLUMNS; j++) c->at[i][j] = 0;
  }
}

/* Return the sum, or the maximum, of `own` over the lanes that share a row, to each of them. */
DEVICE wide fragment_row_sum(wide own) {
  UNROLL
  for (int mask = 1; mask < FRAGMENT_ROW_LANES; mask *= 2) own += shuffle_wide(own, mask);
  return own;
}

DEVICE wide fragment_row_maximum(wide own) {
  UNROLL
  for (int mask = 1; mask < FRAGMENT_ROW_LANES; mask *= 2) {
    wide other = shuffle_wide(own, mask);
    if (!(other <= own)) own = other; /* this form of the comparison lets NaN win */
  }
  return own;
}

#if TRI_GPU_TYPE == 16
/* ---- bf16: two elements to a word -------------------------------------------------------------------------------- */

typedef struct fragment_a {
  uint32_t words[FRAGMENT_WORDS];
} fragment_a;
typedef struct fragment_b {
  uint32_t words[FRAGMENT_WORDS];
} fragment_b;

/* Return a word of two elements, `low` in its lower half. bf16_pair rounds two numbers; bf16_pair_of reads two stored
 * elements. */
DEVICE uint32_t bf16_pair(float low, float high) {
#if defined(TRI_GPU_CUDA)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return (uint32_t)bf16_of_float(low).bits | (uint32_t)bf16_of_float(high).bits << 16;
#endif
}

DEVICE uint32_t bf16_pair_of(const bf16 *low, const bf16 *high) {
  return (uint32_t)low->bits | (uint32_t)high->bits << 16;
}

#if !defined(TRI_GPU_HIP)
/* Loads four matrices of 8 x 8 elements, whose 32 rows of 16 bytes each begin at the addresses of the lanes, in the
 * order of the lanes. In words[i], lane l receives elements 2 (l % 4) and the next of row l / 4 of matrix i;
 * transposed, of column l / 4. */
#if defined(TRI_GPU_CUDA)
DEVICE void load_matrices(const bf16 *row, int transposed, uint32_t words[4]) {
  unsigned from = (unsigned)__cvta_generic_to_shared(row);
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
  }
}

/* c (16 x 8) += a (16 x 16) * b (16 x 8). */
DEVICE void multiply_add_8(float *c0, float *c1, float *c2, float *c3, const uint32_t a[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(*c0), "+f"(*c1), "+f"(*c2), "+f"(*c3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
DEVICE void load_matrices(const bf16 *row, int transposed, uint32_t words[4]) {
  const bf16 *const *rows = (const bf16 *const *)tri_emulator_share(&row, sizeof row, __FILE__, __LINE__);
  for (int i = 0; i < 4; i++) {
    const bf16 *const *of = rows + 8 * i;
    const int l = lane() / 4, pair = lane() % 4 * 2;
    words[i] = transposed ? bf16_pair_of(of[pair] + l, of[pair + 1] + l) : bf16_pair_of(of[l] + pair, of[l] + pair + 1);
  }
}

/* Returns one of the two elements of a word. */
DEVICE float half_of(uint32_t word, int upper) { return float_of_bits(upper ? word & 0xffff0000u : word << 16); }

/* Element (i, k) of a is in word i / 8 + 2 (k / 8) of lane 4 (i % 8) + k % 8 / 2, and (k, j) of b in word k / 8 of lane
 * 4 j + k % 8 / 2, even k in the lower half. */
DEVICE void multiply_add_8(float *c0, float *c1, float *c2, float *c3, const uint32_t a[4], uint32_t b0, uint32_t b1) {
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const uint32_t *all = (const uint32_t *)tri_emulator_share(own, sizeof own, __FILE__, __LINE__);
  float *c[2][2] = {{c0, c1}, {c2, c3}};
  for (int k = 0; k < 16; k++) {
    const uint32_t *of = all + k % 8 / 2 * 6;
    for (int r = 0; r < 2; r++) {
      const float x = half_of(of[lane() / 4 * 24 + r + k / 8 * 2], k % 2);
      for (int j = 0; j < 2; j++) *c[r][j] += x * half_of(of[(lane() % 4 * 2 + j) * 24 + 4 + k / 8], k % 2);
    }
  }
}
#endif
#endif

#if defined(TRI_GPU_HIP)
typedef short mfma_operand __attribute__((ext_vector_type(4)));
typedef float mfma_result __attribute__((ext_vector_type(4)));

/* c (16 x 16) += a (16 x 16) * b (16 x 16), in a warp of 64. */
DEVICE void multiply_add_16(float c[4], const uint32_t a[2], const uint32_t b[2]) {
  mfma_operand x = {(short)a[0], (short)(a[0] >> 16), (short)a[1], (short)(a[1] >> 16)};
  mfma_operand y = {(short)b[0], (short)(b[0] >> 16), (short)b[1], (short)(b[1] >> 16)};
  mfma_result z = {c[0], c[1], c[2], c[3]};
  z = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0);
  UNROLL
  for (int i = 0; i < 4; i++) c[i] = z[i];
}
#elif defined(TRI_GPU_HOST)
/* Element (i, k) of a is number k % 4 of lane 16 (k / 4) + i; element (k, j) of b is number k % 4 of lane 16 (k / 4) +
 * j. */
DEVICE void multiply_add_16(float c[4], const uint32_t a[2], const uint32_t b[2]) {
  const uint32_t own[4] = {a[0], a[1], b[0], b[1]};
  const uint32_t *all = (const uint32_t *)tri_emulator_share(own, sizeof own, __FILE__, __LINE__);
  for (int k = 0; k < 16; k++) {
    const uint32_t *of = all + k / 4 * 64 + k % 4 / 2;
    const float y = half_of(of[lane() % 16 * 4 + 2], k % 2);
    for (int r = 0; r < 4; r++) c[r] += half_of(of[(lane() / 16 * 4 + r) * 4], k % 2) * y;
  }
}
#endif

/* Loads an operand in a warp of 64. A lane gets four elements along k, from k = lane / 16 * 4 on, of one row of a or of
 * one column of b, number lane % 16. along_rows: whether elements along k are adjacent in memory. */
DEVICE void load_four(const bf16 *from, int pitch, int along_rows, uint32_t words[2]) {
  const int line = lane() % 16, k = lane() / 16 * 4;
  UNROLL
  for (int i = 0; i < 2; i++) {
    const bf16 *at = along_rows ? from + line * pitch + k + 2 * i : from + (k + 2 * i) * pitch + line;
    words[i] = bf16_pair_of(at, at + (along_rows ? 1 : pitch));
  }
}

/* Loads a (16 x FRAGMENT_K), stored in this order or, transposed, as [FRAGMENT_K, 16]. */
DEVICE fragment_a fragment_load_a(const element *from, int pitch, int transposed) {
  fragment_a a;
#if !defined(TRI_GPU_HIP)
  if (WARP == 32) {
    const int l = lane() % 16, right = lane() / 16;
    load_matrices(transposed ? from + (right * 8 + l % 8) * pitch + l / 8 * 8 : from + l * pitch + right * 8,
                  transposed, a.words);
    return a;
  }
#endif
  load_four(from, pitch, !transposed, a.words);
  return a;
}

/* Loads b (FRAGMENT_K x 16), stored in this order or, transposed, as [16, FRAGMENT_K]. */
DEVICE fragment_b fragment_load_b(const element *from, int pitch, int transposed) {
  fragment_b b;
#if !defined(TRI_GPU_HIP)
  if (WARP == 32) {
    const int l = lane() % 16, right = lane() / 16;
    load_matrices(transposed ? from + (right * 8 + l % 8) * pitch + l / 8 * 8 : from + l * pitch + right * 8,
                  !transposed, b.words);
    return b;
  }
#endif
  load_four(from, pitch, transposed, b.words);
  return b;
}

/* c (16 x 16) += a (16 x FRAGMENT_K) * b (FRAGMENT_K x 16). */
DEVICE void fragment_multiply_add(fragment *c, const fragment_a *a, const fragment_b *b) {
#if !defined(TRI_GPU_HIP)
  if (WARP == 32) {
    UNROLL
    for (int half = 0; half < 2; half++)
      multiply_add_8(&c->at[0][2 * half], &c->at[0][2 * half + 1], &c->at[1][2 * half], &c->at[1][2 * half + 1],
                     a->words, b->words[2 * half], b->words[2 * half + 1]);
    return;
  }
#endif
#if !defined(TRI_GPU_CUDA)
  multiply_add_16((float *)c, a->words, b->words);
#endif
}

#else
/* ---- fp32 and fp64: FRAGMENT_K elements are 16 bytes ------------------------------------------------------------- */

/* A lane's operands: the rows of a, and the columns of b, that its elements of c need. */
typedef struct fragment_a {
  wide at[FRAGMENT_ROWS][FRAGMENT_K];
} fragment_a;
typedef struct fragment_b {
  wide at[FRAGMENT_K][FRAGMENT_COLUMNS];
} fragment_b;

DEVICE fragment_a fragment_load_a(const element *from, int pitch, int transposed) {
  fragment_a a;
  UNROLL
  for (int r = 0; r < FRAGMENT_ROWS; r++) {
    if (!transposed) {
      load_vector(from + fragment_row(r) * pitch, a.at[r]);
    } else {
      UNROLL
      for (int k = 0; k < FRAGMENT_K; k++) a.at[r][k] = from[k * pitch + fragment_row(r)];
    }
  }
  return a;
}

DEVICE fragment_b fragment_load_b(const element *from, int pitch, int transposed) {
  fragment_b b;
  if (!transposed) {
    UNROLL
    for (int k = 0; k < FRAGMENT_K; k++) {
      UNROLL
      for (int c = 0; c < FRAGMENT_COLUMNS; c += VECTOR)
        load_vector(from + k * pitch + fragment_column(c), &b.at[k][c]);
    }
    return b;
  }
  UNROLL
  for (int c = 0; c < FRAGMENT_COLUMNS; c++) {
    wide column[FRAGMENT_K];
    load_vector(from + fragment_column(c) * pitch, column);
    UNROLL
    for (int k = 0; k < FRAGMENT_K; k++) b.at[k][c] = column[k];
  }
  return b;
}

DEVICE void fragment_multiply_add(fragment *c, const fragment_a *a, const fragment_b *b) {
  UNROLL
  for (int k = 0; k < FRAGMENT_K; k++) {
    UNROLL
    for (int i = 0; i < FRAGMENT_ROWS; i++) {
      UNROLL
      for (int j = 0; j < FRAGMENT_COLUMNS; j++) c->at[i][j] = wide_multiply_add(a->at[i][k], b->at[k][j], c->at[i][j]);
    }
  }
}
#endif

/* ---- results as operands ----------------------------------------------------------------------------------------- */

enum { FRAGMENT_PITCH = FRAGMENT + VECTOR, FRAGMENT_STEPS = FRAGMENT / FRAGMENT_K };

/* Shared memory of a warp for the conversion of one tile. */
typedef struct fragment_scratch {
  element at[FRAGMENT * FRAGMENT_PITCH];
} fragment_scratch;

/* Converts a tile of c, rounded to elements, to an operand `a` of 16 x 16, which fragment_take then returns in
 * FRAGMENT_STEPS steps. In a warp of 32, bf16 elements are already in the right lanes, and stay in *kept; else they go
 * through shared memory. */
DEVICE void fragment_give(const fragment *c, fragment_scratch *scratch, fragment_a *kept) {
#if TRI_GPU_TYPE == 16
  if (WARP == 32) {
    UNROLL
    for (int right = 0; right < 2; right++) {
      UNROLL
      for (int r = 0; r < 2; r++) kept->words[2 * right + r] = bf16_pair(c->at[r][2 * right], c->at[r][2 * right + 1]);
    }
    return;
  }
#endif
  (void)kept;
  warp_barrier(); /* all lanes have read the previous tile */
  UNROLL
  for (int i = 0; i < FRAGMENT_ROWS; i++) {
    UNROLL
    for (int j = 0; j < FRAGMENT_COLUMNS; j++)
      store(&scratch->at[fragment_row(i) * FRAGMENT_PITCH + fragment_column(j)], c->at[i][j]);
  }
  warp_barrier();
}

/* Returns FRAGMENT_K columns, from column step * FRAGMENT_K on, of the tile that fragment_give has converted. */
DEVICE fragment_a fragment_take(const fragment_scratch *scratch, const fragment_a *kept, int step) {
#if TRI_GPU_TYPE == 16
  if (WARP == 32) return *kept;
#endif
  (void)kept;
  return fragment_load_a(scratch->at + step * FRAGMENT_K, FRAGMENT_PITCH, 0);
}

#endif
