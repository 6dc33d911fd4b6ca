/* Numbers in 8 bits (base/dynamic_map.h), such as states of optimizers and the magnitudes of NF4 (kernels/nf4.c): a
 * scale for each block of QUANTISED_BLOCK elements, and a code for each element. One warp processes a block of
 * elements; a lane has TAKEN adjacent elements in each of ROUNDS rounds. */
#include "device/gpu/kernels/quantised.h"

#include "device/gpu/kernels/wide.h"

/* A lane processes 4 elements at a time: their codes are one word. */
enum { TAKEN = 4, ROUNDS = QUANTISED_BLOCK / (TAKEN * WARP) };

/* The map of codes in shared memory: numbers of codes, or middles between them. */
typedef struct map_shared {
  float at[TRI_DYNAMIC_CODES];
} map_shared;

/* Load and store TAKEN numbers, or the `left` remaining ones; the others are loaded as 0. */
DEVICE void get_numbers(const wide *from, int aligned, int64_t left, float out[TAKEN]) {
  wide values[TAKEN];
  if (aligned && left >= TAKEN) {
    for (int j = 0; j < TAKEN; j += WIDE_VECTOR) load_16_bytes(from + j, values + j);
  } else {
    for (int j = 0; j < TAKEN; j++) values[j] = j < left ? from[j] : 0;
  }
  for (int j = 0; j < TAKEN; j++) out[j] = (float)values[j];
}

DEVICE void store_numbers(wide *to, int aligned, int64_t left, const float numbers[TAKEN]) {
  wide values[TAKEN];
  for (int j = 0; j < TAKEN; j++) values[j] = (wide)numbers[j];
  if (aligned && left >= TAKEN) {
    for (int j = 0; j < TAKEN; j += WIDE_VECTOR) store_16_bytes(to + j, values + j);
  } else {
    for (int j = 0; j < TAKEN; j++) {
      if (j < left) to[j] = values[j];
    }
  }
}

/* Returns whether codes can be moved as a word of four. */
DEVICE int is_of_words(const uint8_t *codes) { return ((uintptr_t)codes & 3u) == 0; }

/* Return the first block of this warp, and the step to its next. */
DEVICE int64_t first_block(void) { return block_x() * block_warps() + warp(); }
DEVICE int64_t block_step(void) { return blocks_x() * block_warps(); }

/* ---- to codes ---------------------------------------------------------------------------------------------------- */

/* Returns the code of x, which is the number of middles[0 .. 254] that x is beyond, by bisection. The parity of a
 * middle's index, code + half - 1, decides ties. It is the parity of half - 1, a constant of the unrolled loop, because
 * `code` is a multiple of 2 half. */
DEVICE uint32_t code_of(const map_shared *middles, float x) {
  int32_t code = 0;
  UNROLL for (int half = TRI_DYNAMIC_CODES / 2; half > 0; half /= 2) {
    code += tri_dynamic_is_beyond(x, middles->at[code + half - 1], half - 1) ? half : 0;
  }
  return (uint32_t)code;
}

/* Returns the largest magnitude of the warp to all lanes, from the bits of magnitudes, so that NaN is above infinity.
 */
DEVICE float warp_largest(int bits) {
  for (int mask = WARP / 2; mask > 0; mask /= 2) {
    const int other = shuffle_int(bits, mask);
    if (other > bits) bits = other;
  }
  return float_of_bits((uint32_t)bits);
}

/* Stores TAKEN codes, or the `left` remaining ones. */
DEVICE void put_codes(uint8_t *to, int64_t left, const uint32_t codes[TAKEN]) {
  if (is_of_words(to) && left >= TAKEN) {
    *(uint32_t *)(void *)to = codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24;
  } else {
    for (int j = 0; j < TAKEN; j++) {
      if (j < left) to[j] = (uint8_t)codes[j];
    }
  }
}

KERNEL(quantise_blocks) {
  SHARED(map_shared, middles);
  const wide *in = (const wide *)a.in;
  const int aligned = is_aligned(in);
  if (thread() < TRI_DYNAMIC_CODES - 1) middles->at[thread()] = tri_dynamic_middle(a.with_sign, thread());
  barrier();
  for (int64_t block = first_block(); block * QUANTISED_BLOCK < a.count; block += block_step()) {
    const int64_t first = block * QUANTISED_BLOCK + (int64_t)lane() * TAKEN;
    float x[ROUNDS][TAKEN];
    int bits = 0;
    UNROLL for (int k = 0; k < ROUNDS; k++) {
      const int64_t at = first + k * TAKEN * WARP;
      get_numbers(in + at, aligned, a.count - at, x[k]);
      for (int j = 0; j < TAKEN; j++) {
        const int size = (int)(bits_of_float(x[k][j]) & 0x7fffffffu);
        bits = size > bits ? size : bits;
      }
    }
    const float largest = warp_largest(bits), inverse = tri_dynamic_inverse(largest);
    if (lane() == 0) a.scales[block] = tri_dynamic_scale(largest);
    UNROLL for (int k = 0; k < ROUNDS; k++) {
      const int64_t at = first + k * TAKEN * WARP;
      uint32_t codes[TAKEN];
      for (int j = 0; j < TAKEN; j++) codes[j] = inverse == 0 ? 0 : code_of(middles, x[k][j] * inverse);
      put_codes(a.codes + at, a.count - at, codes);
    }
  }
}

/* ---- from codes -------------------------------------------------------------------------------------------------- */

/* Loads TAKEN codes, or the `left` remaining ones and zeros. */
DEVICE void get_codes(const uint8_t *from, int64_t left, uint32_t codes[TAKEN]) {
  if (is_of_words(from) && left >= TAKEN) {
    const uint32_t word = *(const uint32_t *)(const void *)from;
    for (int j = 0; j < TAKEN; j++) codes[j] = word >> (8 * j) & 0xffu;
  } else {
    for (int j = 0; j < TAKEN; j++) codes[j] = j < left ? from[j] : 0;
  }
}

KERNEL(dequantise_blocks) {
  SHARED(map_shared, numbers);
  wide *out = (wide *)a.out;
  const int aligned = is_aligned(out);
  if (thread() < TRI_DYNAMIC_CODES) numbers->at[thread()] = tri_dynamic_number(a.with_sign, thread());
  barrier();
  for (int64_t block = first_block(); block * QUANTISED_BLOCK < a.count; block += block_step()) {
    const float scale = a.scales[block];
    UNROLL for (int k = 0; k < ROUNDS; k++) {
      const int64_t at = block * QUANTISED_BLOCK + (int64_t)(k * WARP + lane()) * TAKEN;
      uint32_t codes[TAKEN];
      float x[TAKEN];
      get_codes(a.codes + at, a.count - at, codes);
      for (int j = 0; j < TAKEN; j++) x[j] = numbers->at[codes[j]] * scale;
      store_numbers(out + at, aligned, a.count - at, x);
    }
  }
}
