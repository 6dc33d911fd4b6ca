/* The numbers of 4 bits of QLoRA (Dettmers et al. 2023), NF4, as bitsandbytes has them: for host and kernels of GPUs,
 * with the same bits.
 *
 * The codes 0 .. 15 are numbers in ascending order, -1 and 0 (code 7) and 1 among them: quantiles of the normal
 * distribution, to the digits that bitsandbytes publishes. */
#ifndef TRI_BASE_NF4_H
#define TRI_BASE_NF4_H

#include "base/host_and_gpu.h"

#include <stdint.h>

/* In bits: the offset and all of the scales where a value is not finite. */
#define TRI_NF4_NOT_A_NUMBER 0x7fc00000u

enum { TRI_NF4_CODES = 16, TRI_NF4_ZERO = 7 };

TRI_HOST_AND_GPU float tri_nf4_number(int32_t code) {
  const float numbers[TRI_NF4_CODES] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return numbers[code];
}

/* Half way from a code (at most 14) to the next: what is above becomes the next, and what lies there itself does not.
 */
TRI_HOST_AND_GPU float tri_nf4_middle(int32_t code) { return (tri_nf4_number(code) + tri_nf4_number(code + 1)) * 0.5f; }

/* What the elements of a block are multiplied by, of its largest magnitude: zeros stay zeros. */
TRI_HOST_AND_GPU float tri_nf4_inverse(float largest) {
  return largest >= 1e-38f ? (float)(1.0 / (double)largest) : 1e38f;
}

#endif
