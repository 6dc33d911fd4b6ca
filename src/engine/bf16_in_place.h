/* Conversion of fp32 values to bf16 and back in their own memory, to communicate half the bytes. The bf16 values are in
 * the first half of the memory. */
#ifndef TRI_ENGINE_BF16_IN_PLACE_H
#define TRI_ENGINE_BF16_IN_PLACE_H

#include "device/device.h"

/* LOCAL. Converts values[count] from fp32 to bf16; element i is then at byte 2 * i. */
tri_status tri_to_bf16_in_place(tri_device *device, int64_t count, void *values);

/* LOCAL. Converts the bf16 elements [begin, end) of values to fp32; element i is then at byte 4 * i. Does not change
 * the first 4 * begin bytes, so the bf16 elements [0, 2 * begin) remain valid. */
tri_status tri_to_fp32_in_place(tri_device *device, int64_t begin, int64_t end, void *values);

#endif
