/* Conversions between fp32 and fp16, the IEEE binary16 format: 1 bit of sign, 5 of exponent with bias 15, 10 of
 * fraction. */
#ifndef TRI_BASE_HALF_H
#define TRI_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tri_float_of_f16(uint16_t value) {
  uint32_t sign = (uint32_t)(value & 0x8000u) << 16, exponent = value >> 10 & 0x1Fu, fraction = value & 0x3FFu;
  float out;
  if (exponent == 0) {
    out = (float)fraction * 0x1p-24f; /* zero or subnormal: exact */
    return sign != 0 ? -out : out;
  }
  uint32_t bits = sign | fraction << 13 | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23);
  memcpy(&out, &bits, sizeof out);
  return out;
}

/* Returns the nearest fp16 number; ties are rounded to even, values from 65520 become infinite, and NaN stays NaN. */
static inline uint16_t tri_f16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 or more */
  if (magnitude < 0x38800000u) {                                   /* below 2^-14: a multiple of 2^-24 */
    if (magnitude < 0x33000000u) return (uint16_t)sign;            /* below 2^-25 */
    const uint32_t shift = 126u - (magnitude >> 23), fraction = (magnitude & 0x7FFFFFu) | 0x800000u;
    const uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1u) != 0))));
  }
  return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13));
}

#endif
