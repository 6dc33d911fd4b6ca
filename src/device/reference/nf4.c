/* Weights in 4 bits (device/nf4.h). */
#include "device/nf4.h"
#include "base/dynamic_map.h"
#include "device/reference/reference.h"

#include <math.h>
#include <string.h>

/* Arithmetic is in fp32 for every type, so that the codes are the same on all devices. */

static float value_of(tri_dtype type, const void *values, int64_t i) {
  return (float)tri_reference_load(type, values, i);
}

/* Returns the largest magnitude of a block; NaN wins. */
static float largest_of(tri_dtype type, int64_t count, const void *values, int64_t block) {
  float largest = 0;
  for (int64_t i = block * TRI_NF4_BLOCK; i < (block + 1) * TRI_NF4_BLOCK && i < count; i++) {
    const float size = fabsf(value_of(type, values, i));
    if (!(size <= largest) && !isnan(largest)) largest = size;
  }
  return largest;
}

static uint8_t nearest_code(float x) {
  int32_t code = 0;
  while (code < TRI_NF4_CODES - 1 && x > tri_nf4_middle(code)) code++;
  return (uint8_t)code;
}

/* Stores the code of element i. Elements are stored in order: an even i sets the code of element i + 1 to
 * TRI_NF4_ZERO. */
static void store_code(uint8_t *codes, int64_t i, uint8_t code) {
  const uint8_t upper = i % 2 == 0 ? code : codes[i / 2] >> 4, lower = i % 2 == 0 ? TRI_NF4_ZERO : code;
  codes[i / 2] = (uint8_t)(upper << 4 | lower);
}

static void quantise_block(tri_dtype type, int64_t count, const void *values, int64_t block, uint8_t *codes) {
  const float inverse = tri_nf4_inverse(largest_of(type, count, values, block));
  for (int64_t i = block * TRI_NF4_BLOCK; i < (block + 1) * TRI_NF4_BLOCK; i++)
    store_code(codes, i, i < count ? nearest_code(value_of(type, values, i) * inverse) : TRI_NF4_ZERO);
}

/* Subtracts the mean of the blocks' largest magnitudes from each magnitude, and stores the mean in *offset. If the mean
 * is not finite, *offset and all magnitudes become NaN. */
static void subtract_mean(int64_t blocks, float *largest, float *offset) {
  const uint32_t none = TRI_NF4_NOT_A_NUMBER;
  const float mean = tri_nf4_mean(blocks, largest);
  memcpy(offset, isfinite(mean) ? (const void *)&mean : &none, sizeof *offset);
  for (int64_t b = 0; b < blocks; b++) {
    largest[b] -= mean;
    if (!isfinite(mean)) memcpy(&largest[b], &none, sizeof none);
  }
}

/* Quantises an array. The memory of the codes has the blocks' largest magnitudes until these are quantised
 * themselves. */
tri_status tri_reference_quantise_nf4(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept) {
  const tri_nf4_layout at = tri_nf4_layout_of(count);
  char *const begin = kept;
  float *const largest = kept;
  if (count == 0) return TRI_OK;
  for (int64_t b = 0; b < at.blocks; b++) largest[b] = largest_of(type, count, values, b);
  subtract_mean(at.blocks, largest, (float *)(void *)(begin + at.offset));
  TRI_TRY(tri_reference_quantise_blocks(queue, TRI_FP32, at.blocks, true, largest, (uint8_t *)begin + at.largest,
                                        (float *)(void *)(begin + at.scales)));
  for (int64_t b = 0; b < at.blocks; b++) quantise_block(type, count, values, b, kept);
  return TRI_OK;
}

tri_status tri_reference_cut_nf4(tri_queue *queue, const tri_nf4_cut *cut, const void *whole, void *kept) {
  const tri_nf4_layout from = tri_nf4_layout_of(cut->total), to = tri_nf4_layout_of_cut(cut);
  const uint8_t *in = whole;
  uint8_t *out = kept;
  (void)queue;
  if (cut->total == 0) return TRI_OK;
  for (int64_t i = 0; i < to.blocks; i++) {
    const int64_t begin = tri_nf4_row_begin(*cut, i / cut->row_blocks), end = begin + cut->width;
    int64_t block = begin / TRI_NF4_BLOCK + i % cut->row_blocks;
    if (block > (end - 1) / TRI_NF4_BLOCK) block = (end - 1) / TRI_NF4_BLOCK;
    memcpy(out + i * TRI_NF4_BLOCK_BYTES, in + block * TRI_NF4_BLOCK_BYTES, TRI_NF4_BLOCK_BYTES);
    out[to.largest + (size_t)i] = in[from.largest + (size_t)block];
  }
  memcpy(out + to.scales, in + from.scales, from.bytes - from.scales);
  return TRI_OK;
}

tri_status tri_reference_dequantise_nf4(tri_queue *queue, tri_dtype type, const tri_nf4_cut *cut, int64_t first,
                                        int64_t count, const void *kept, void *values) {
  const tri_nf4_layout at = tri_nf4_layout_of_cut(cut);
  const uint8_t *codes = kept, *largest_codes = codes + at.largest;
  const float *scales = (const float *)(const void *)(codes + at.scales);
  const float *offset = (const float *)(const void *)(codes + at.offset);
  (void)queue;
  for (int64_t i = first; i < first + count; i++) {
    const int64_t row = i / cut->width, begin = tri_nf4_row_begin(*cut, row), element = begin + i % cut->width;
    const int64_t block = element / TRI_NF4_BLOCK;
    const int64_t own = row * cut->row_blocks + block - begin / TRI_NF4_BLOCK; /* index among the kept blocks */
    const float difference = tri_dynamic_number(true, largest_codes[own]) * scales[block / TRI_NF4_GROUP];
    const float largest = difference + *offset;
    const uint8_t two = codes[own * TRI_NF4_BLOCK_BYTES + element % TRI_NF4_BLOCK / 2];
    const int32_t code = element % 2 == 0 ? two >> 4 : two & 15;
    const float value = tri_nf4_number(code) * largest;
    tri_reference_store(type, values, i - first, (double)value);
  }
  return TRI_OK;
}
