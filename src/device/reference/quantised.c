/* States of optimizers in 8 bits (base/dynamic_map.h). */
#include "device/reference/reference.h"

#include "base/dynamic_map.h"

#include <math.h>

/* Arithmetic is in fp32 for every type, so that the codes are the same on all devices. */

/* Returns the largest magnitude of a block; NaN wins. */
static float largest_of(tri_dtype wide, const void *in, int64_t first, int64_t end) {
  float largest = 0;
  for (int64_t i = first; i < end; i++) {
    const float size = fabsf((float)tri_reference_load(wide, in, i));
    if (!(size <= largest) && !isnan(largest)) largest = size;
  }
  return largest;
}

static uint8_t nearest_code(const float *middles, float x) {
  int32_t code = 0;
  while (code < TRI_DYNAMIC_CODES - 1 && tri_dynamic_is_beyond(x, middles[code], code)) code++;
  return (uint8_t)code;
}

tri_status tri_reference_quantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                         const void *in, uint8_t *codes, float *scales) {
  const tri_dtype wide = tri_dtype_wide(type);
  float middles[TRI_DYNAMIC_CODES - 1];
  (void)queue;
  for (int32_t code = 0; code < TRI_DYNAMIC_CODES - 1; code++) middles[code] = tri_dynamic_middle(with_sign, code);
  for (int64_t first = 0; first < count; first += TRI_QUANTISED_BLOCK) {
    const int64_t end = first + TRI_QUANTISED_BLOCK < count ? first + TRI_QUANTISED_BLOCK : count;
    const float largest = largest_of(wide, in, first, end), inverse = tri_dynamic_inverse(largest);
    scales[first / TRI_QUANTISED_BLOCK] = tri_dynamic_scale(largest);
    for (int64_t i = first; i < end; i++)
      codes[i] = inverse == 0 ? 0 : nearest_code(middles, (float)tri_reference_load(wide, in, i) * inverse);
  }
  return TRI_OK;
}

tri_status tri_reference_dequantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                           const uint8_t *codes, const float *scales, void *out) {
  (void)queue;
  for (int64_t i = 0; i < count; i++) {
    const float number = tri_dynamic_number(with_sign, codes[i]) * scales[i / TRI_QUANTISED_BLOCK];
    tri_reference_store(tri_dtype_wide(type), out, i, (double)number);
  }
  return TRI_OK;
}
