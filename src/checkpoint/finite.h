/* Finds values that are NaN or infinite. */
#ifndef TRI_CHECKPOINT_FINITE_H
#define TRI_CHECKPOINT_FINITE_H

#include "checkpoint/safetensors.h"

#include <stdint.h>

/* Returns the index of the first of `count` elements at `data` (any alignment) that is NaN or infinite; -1 if all are
 * finite, or if the type is not F16, BF16, F32 or F64. */
int64_t tri_first_not_finite(tri_safetensors_type type, int64_t count, const void *data);

#endif
