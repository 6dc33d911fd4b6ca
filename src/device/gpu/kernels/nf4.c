/* Weights in 4 bits (device/nf4.h). An element is stored as the code of its value divided by the largest magnitude of
 * its block of NF4_BLOCK elements. The largest magnitudes are quantised, too (kernels/quantised.c).
 *
 *   nf4_largest      a warp per block: its largest magnitude
 *   nf4_offset       one block of threads: the mean of the magnitudes, which is subtracted from them
 *   nf4_codes        a warp per block: the codes; lane l has the elements 2 l and 2 l + 1
 *   cut_nf4          the part of a quantised matrix that a rank keeps, a thread per word
 *   dequantise_nf4   a thread per 8 elements (a word of codes)
 *
 * Quantisation happens once, so only dequantise_nf4 has to be fast. */
#include "device/gpu/kernels/nf4.h"

#include "base/dynamic_map.h"
#include "device/gpu/kernels/primitives.h"
#include "device/nf4.h"

/* ---- to codes ---------------------------------------------------------------------------------------------------- */

/* Return the first block of this warp, and the step to its next. */
DEVICE int64_t first_block(void) { return block_x() * block_warps() + warp(); }
DEVICE int64_t block_step(void) { return blocks_x() * block_warps(); }

/* Loads the two elements whose codes are in byte `lane` of a block's codes. Elements beyond the end of the array are
 * zeros, and so are those of the lanes that have no byte (in a warp of 64). */
DEVICE void get_two(const element *values, int64_t block, int64_t count, float out[2]) {
  for (int j = 0; j < 2; j++) {
    const int64_t at = block * NF4_BLOCK + 2 * lane() + j;
    out[j] = lane() < NF4_BLOCK_BYTES && at < count ? (float)load(values + at) : 0.0f;
  }
}

/* Returns the largest magnitude in the warp to all lanes. Magnitudes are compared by the bits, so that NaN is above
 * infinity. */
DEVICE float largest_of(const float x[2]) {
  int bits = 0;
  for (int j = 0; j < 2; j++) {
    const int size = (int)(bits_of_float(x[j]) & 0x7fffffffu);
    if (size > bits) bits = size;
  }
  for (int mask = WARP / 2; mask > 0; mask /= 2) {
    const int other = shuffle_int(bits, mask);
    if (other > bits) bits = other;
  }
  return float_of_bits((uint32_t)bits);
}

KERNEL(nf4_largest) {
  const element *values = (const element *)a.values;
  for (int64_t block = first_block(); block * NF4_BLOCK < a.count; block += block_step()) {
    float x[2];
    get_two(values, block, a.count, x);
    const float largest = largest_of(x);
    if (lane() == 0) a.largest[block] = largest;
  }
}

typedef struct offset_sums {
  double at[nf4_offset_threads];
} offset_sums;

/* Computes the mean by the same additions in the same order as tri_nf4_mean (device/nf4.h), so that all devices get the
 * same bits. If the mean is not finite, the offset and all magnitudes become NaN. */
KERNEL(nf4_offset) {
  SHARED(offset_sums, sums);
  double sum = 0;
  for (int64_t b = thread(); b < a.blocks; b += nf4_offset_threads) sum += (double)a.largest[b];
  sums->at[thread()] = sum;
  for (int half = nf4_offset_threads / 2; half > 0; half /= 2) {
    barrier();
    if (thread() < half) sums->at[thread()] += sums->at[thread() + half];
  }
  barrier();
  const float mean = (float)(sums->at[0] / (double)a.blocks);
  const int is_finite = (bits_of_float(mean) & 0x7f800000u) != 0x7f800000u;
  const float none = float_of_bits(TRI_NF4_NOT_A_NUMBER);
  if (thread() == 0) *a.offset = is_finite ? mean : none;
  for (int64_t b = thread(); b < a.blocks; b += nf4_offset_threads)
    a.largest[b] = is_finite ? a.largest[b] - mean : none;
}

/* Returns the code whose number is nearest to a value in [-1, 1]. The code is the number of midpoints between adjacent
 * codes (tri_nf4_middle) that are below the value; 0 for NaN. */
DEVICE uint32_t code_of(float x) {
  uint32_t code = 0;
  for (int32_t c = 0; c < TRI_NF4_CODES - 1; c++) code += x > tri_nf4_middle(c) ? 1u : 0u;
  return code;
}

KERNEL(nf4_codes) {
  const element *values = (const element *)a.values;
  for (int64_t block = first_block(); block * NF4_BLOCK < a.count; block += block_step()) {
    float x[2];
    get_two(values, block, a.count, x);
    const float inverse = tri_nf4_inverse(largest_of(x));
    if (lane() < NF4_BLOCK_BYTES)
      a.codes[block * NF4_BLOCK_BYTES + lane()] = (uint8_t)(code_of(x[0] * inverse) << 4 | code_of(x[1] * inverse));
  }
}

/* ---- from codes -------------------------------------------------------------------------------------------------- */

/* TAKEN: elements that a thread processes at a time, whose codes are one word. PIECES: such words per block. */
enum { TAKEN = 8, PIECES = NF4_BLOCK / TAKEN };

typedef struct nf4_shared {
  float numbers[TRI_NF4_CODES], map[TRI_DYNAMIC_CODES];
} nf4_shared;

/* Stores values at to[at] and after, limited to elements [low, high). */
DEVICE void store_elements(element *to, int64_t at, int64_t low, int64_t high, const wide values[TAKEN]) {
  if (at >= low && at + TAKEN <= high && is_aligned(to + at)) {
    for (int j = 0; j < TAKEN; j += VECTOR) store_vector(to + at + j, values + j);
  } else {
    for (int j = 0; j < TAKEN; j++) {
      if (at + j >= low && at + j < high) store(to + at + j, values[j]);
    }
  }
}

KERNEL(dequantise_nf4) {
  SHARED(nf4_shared, shared);
  if (thread() < TRI_NF4_CODES) shared->numbers[thread()] = tri_nf4_number(thread());
  if (thread() < TRI_DYNAMIC_CODES) shared->map[thread()] = tri_dynamic_number(1, thread());
  barrier();
  const float offset = *a.offset;
  for (int64_t i = block_x() * threads() + thread(); i < a.pieces; i += blocks_x() * threads()) {
    const int64_t block = a.first_block + i / PIECES;
    const tri_nf4_span span = tri_nf4_span_of(a.cut, block);
    const uint32_t word = ((const uint32_t *)(const void *)a.codes)[a.first_block * PIECES + i];
    const float difference = shared->map[a.largest[block]] * a.scales[span.whole / NF4_GROUP];
    const float largest = difference + offset;
    wide x[TAKEN];
    for (int j = 0; j < TAKEN; j++) {
      const float value = shared->numbers[word >> (8 * (j / 2) + 4 * (1 - j % 2)) & 15u] * largest;
      x[j] = (wide)value;
    }
    const int64_t low = span.local > a.first ? span.local : a.first;
    const int64_t high = span.local + span.count < a.end ? span.local + span.count : a.end;
    const int64_t at = span.local - span.from + i % PIECES * TAKEN;
    store_elements((element *)a.values, at - a.first, low - a.first, high - a.first, x);
  }
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

KERNEL(cut_nf4) {
  const int64_t pieces = a.blocks * PIECES;
  for (int64_t i = block_x() * threads() + thread(); i < pieces; i += blocks_x() * threads()) {
    const int64_t block = i / PIECES, whole = tri_nf4_span_of(a.cut, block).whole;
    ((uint32_t *)a.to_codes)[i] = ((const uint32_t *)a.codes)[whole * PIECES + i % PIECES];
    if (i % PIECES == 0) a.to_largest[block] = a.largest[whole];
  }
  for (int64_t i = block_x() * threads() + thread(); i < a.words; i += blocks_x() * threads())
    a.to_scales[i] = a.scales[i];
}
