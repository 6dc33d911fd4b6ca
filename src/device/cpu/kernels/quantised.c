/* States of optimizers in 8 bits (base/dynamic_map.h), block by block.
 *
 * The code of a number is found by its upper 16 bits: sign, exponent and 7 bits of the fraction. The numbers that share
 * them (a *cell*) contain at most one middle between two codes, so a table gives the lowest code of the cell, and one
 * comparison the rest. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include "base/dynamic_map.h"

#include <math.h>

enum {
  BLOCK = TRI_QUANTISED_BLOCK,
  TOGETHER = 32,                       /* blocks that a thread processes at a time */
  LOWEST_CELL = (127 - 23) * 128,      /* the cell of 2^-23: it and all lower cells are 0 */
  CELLS = 127 * 128 + 1 - LOWEST_CELL, /* number of cells, up to the cell of 1 */
  SIGN = 0x8000
};

typedef struct code_table {
  float middles[TRI_DYNAMIC_CODES]; /* [i]: middle between code i and the next; the last element is infinity, which no
                                       number exceeds */
  uint8_t lowest[2][CELLS];         /* lowest codes of cells of positive numbers, and of negative ones */
} code_table;

INLINE float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Fills the table. Numbers are visited in ascending order, so that the code only ascends. The lowest code of a cell is
 * that of its lowest number: of the smallest magnitude in a cell of positive numbers, and of the largest magnitude in a
 * cell of negative ones. */
static void make_table(bool with_sign, code_table *out) {
  int32_t code = 0;
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES - 1; c++) out->middles[c] = tri_dynamic_middle(with_sign, c);
  out->middles[TRI_DYNAMIC_CODES - 1] = INFINITY;
  for (int cell = CELLS - 1; cell >= 0; cell--) {
    const float least = float_of_bits((uint32_t)(LOWEST_CELL + cell + SIGN) << 16 | 0xffff);
    while (tri_dynamic_is_beyond(least, out->middles[code], code)) code++;
    out->lowest[1][cell] = (uint8_t)code;
  }
  for (int cell = 0; cell < CELLS; cell++) {
    const float least = float_of_bits((uint32_t)(LOWEST_CELL + cell) << 16);
    while (tri_dynamic_is_beyond(least, out->middles[code], code)) code++;
    out->lowest[0][cell] = (uint8_t)code;
  }
}

/* Returns the code of x. |x| is at most 1, or above 1 only by one rounding. */
INLINE uint8_t code_of(const code_table *table, float x) {
  const uint32_t upper = bits_of(x) >> 16;
  const int32_t cell = (int32_t)(upper & (SIGN - 1)) - LOWEST_CELL;
  const int32_t code = table->lowest[upper / SIGN][cell < 0 ? 0 : cell];
  const float middle = table->middles[code];
  return (uint8_t)(code + ((x > middle) | ((x == middle) & (code & 1))));
}

/* Returns the largest magnitude. Magnitudes are compared by their bits, so that NaN is above infinity. */
INLINE float largest_of(const float *in, int64_t count) {
  vi most = {0};
  int32_t largest = 0;
  FOR_VECTORS(i, some, 0, count, {
    vi size = (vi)vf_get(TRI_FP32, in, i, some) & 0x7fffffff;
    most = (vi)vf_select(size > most, (vf)size, (vf)most);
  });
  for (int l = 0; l < LANES; l++) largest = most[l] > largest ? most[l] : largest;
  return float_of_bits((uint32_t)largest);
}

INLINE void quantise_block(const code_table *table, int64_t count, const float *in, uint8_t *codes, float *scale) {
  const float largest = largest_of(in, count), inverse = tri_dynamic_inverse(largest);
  *scale = tri_dynamic_scale(largest);
  if (inverse == 0.0f) {
    memset(codes, 0, (size_t)count);
    return;
  }
  for (int64_t i = 0; i < count; i++) codes[i] = code_of(table, in[i] * inverse);
}

INLINE int64_t length_of(int64_t block, int64_t count) {
  return count - block * BLOCK < BLOCK ? count - block * BLOCK : BLOCK;
}

static tri_status quantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const void *in,
                                  uint8_t *codes, float *scales) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
  code_table table;
  (void)type;
  make_table(with_sign, &table);
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t b = 0; b < blocks; b++)
    quantise_block(&table, length_of(b, count), (const float *)in + b * BLOCK, codes + b * BLOCK, &scales[b]);
  return TRI_OK;
}

INLINE void dequantise_block(const float *numbers, int64_t count, const uint8_t *codes, float scale, float *out) {
  for (int64_t i = 0; i < count; i++) out[i] = numbers[codes[i]] * scale;
}

static tri_status dequantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                    const uint8_t *codes, const float *scales, void *out) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
  float numbers[TRI_DYNAMIC_CODES];
  (void)type;
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES; c++) numbers[c] = tri_dynamic_number(with_sign, c);
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t b = 0; b < blocks; b++)
    dequantise_block(numbers, length_of(b, count), codes + b * BLOCK, scales[b], (float *)out + b * BLOCK);
  return TRI_OK;
}

void TRI_KERNEL(table_quantised)(tri_device_kernels *table) {
  table->quantise_blocks = quantise_blocks;
  table->dequantise_blocks = dequantise_blocks;
}
