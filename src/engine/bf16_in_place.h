/* Values that travel at half their width, in the memory they have: bf16 in the first half of fp32's place. */
#ifndef TRI_ENGINE_BF16_IN_PLACE_H
#define TRI_ENGINE_BF16_IN_PLACE_H

#include "device/device.h"

/* LOCAL. values[count], fp32, become bf16, element i at 2 i bytes from the begin. */
tri_status tri_to_bf16_in_place(tri_device *device, int64_t count, void *values);

/* LOCAL. The bf16 elements [begin, end) of values become fp32 again, element i at 4 i bytes; memory before 4 * begin
 * bytes stays, what lies behind it does not. */
tri_status tri_to_fp32_in_place(tri_device *device, int64_t begin, int64_t end, void *values);

#endif
