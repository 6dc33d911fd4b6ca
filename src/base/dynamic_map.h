/* Numbers of 8 bits in the dynamic map of Dettmers et al. 2022 (8-bit Optimizers via Block-wise Quantization), as
 * bitsandbytes makes it with 7 bits for exponents; the host and kernels of GPUs compute the same bits.
 *
 * The codes 0 .. 255 are numbers in ascending order: 0, 1, and for each e of 0 .. 6 the middles of n equal parts of
 * [0.1, 1] times 10^-e. With a sign n is 2^(6 - e), and the map also has their negatives (but not -1); without a
 * sign n is twice that. bitsandbytes computes its map in fp32, so the last bits differ from machine to machine; here
 * each number is a rounded fraction of integers. */
#ifndef TRI_BASE_DYNAMIC_MAP_H
#define TRI_BASE_DYNAMIC_MAP_H

#include "base/host_and_gpu.h"

#include <stdint.h>

enum { TRI_DYNAMIC_CODES = 256 };

/* Returns the number of a code. Middle k of n parts is (2n + 9 (2k + 1)) / 20n. */
TRI_HOST_AND_GPU float tri_dynamic_number(int32_t with_sign, int32_t code) {
  const int32_t zero = with_sign ? 127 : 0, size = code < zero ? zero - code : code - zero;
  int32_t n = with_sign ? 1 : 2, k = size - 1, power = 1000000;
  if (size == 0) return 0;
  if (code == TRI_DYNAMIC_CODES - 1) return 1;
  for (; k >= n; n *= 2, power /= 10) k -= n;
  const double middle = (double)(2 * n + 9 * (2 * k + 1)) / (double)(20 * n * power);
  return code < zero ? -(float)middle : (float)middle;
}

/* Returns the middle between the number of a code (at most 254) and the next. Numbers above the middle round to the
 * next code; a number that equals it rounds to the even code, as in bitsandbytes' GPU kernels. */
TRI_HOST_AND_GPU float tri_dynamic_middle(int32_t with_sign, int32_t code) {
  return (tri_dynamic_number(with_sign, code) + tri_dynamic_number(with_sign, code + 1)) * 0.5f;
}

/* Returns whether x rounds to a code above `code`; middle: tri_dynamic_middle of `code`. */
TRI_HOST_AND_GPU int32_t tri_dynamic_is_beyond(float x, float middle, int32_t code) {
  return x > middle || (code % 2 == 1 && x == middle);
}

/* Returns the factor by which a block's elements are multiplied before rounding, from its largest magnitude; 0 for a
 * block of zeros, of numbers too small to have a reciprocal, or with elements that are not finite. All codes of such a
 * block are 0. */
TRI_HOST_AND_GPU float tri_dynamic_inverse(float largest) {
  return largest >= 1.17549435e-38f && largest <= 3.40282347e38f ? (float)(1.0 / (double)largest) : 0.0f;
}

/* Returns the scale of a block, its largest magnitude; a magnitude too small to have a reciprocal becomes 0. */
TRI_HOST_AND_GPU float tri_dynamic_scale(float largest) { return largest < 1.17549435e-38f ? 0.0f : largest; }

#endif
