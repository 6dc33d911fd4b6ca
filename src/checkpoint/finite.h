/* Values that are not numbers any more. */
#ifndef TRI_CHECKPOINT_FINITE_H
#define TRI_CHECKPOINT_FINITE_H

#include "checkpoint/safetensors.h"

#include <stdint.h>

/* The first of `count` elements at `data` (of any alignment) that is NaN or infinite, or -1. Types that are not F16,
 * BF16, F32 or F64 have none. */
int64_t tri_first_not_finite(tri_safetensors_type type, int64_t count, const void *data);

#endif
