/* Searches values whose exponent has all bits set: NaN and infinity. A block is tested without branches, at the speed
 * of memory; the position is searched only in a block that has such a value. */
#include "checkpoint/finite.h"

#include <stdbool.h>
#include <string.h>

enum { BLOCK = 4096 };

#define FIRST_OF(TYPE, EXPONENT)                                                                                       \
  for (int64_t begin = 0; begin < count; begin += BLOCK) {                                                             \
    int64_t end = count - begin < BLOCK ? count : begin + BLOCK;                                                       \
    TYPE bad = 0;                                                                                                      \
    for (int64_t i = begin; i < end; i++) {                                                                            \
      TYPE element;                                                                                                    \
      memcpy(&element, bytes + (size_t)i * sizeof element, sizeof element);                                            \
      bad |= (TYPE)((element & (EXPONENT)) == (EXPONENT));                                                             \
    }                                                                                                                  \
    for (int64_t i = begin; bad != 0 && i < end; i++) {                                                                \
      TYPE element;                                                                                                    \
      memcpy(&element, bytes + (size_t)i * sizeof element, sizeof element);                                            \
      if ((element & (EXPONENT)) == (EXPONENT)) return i;                                                              \
    }                                                                                                                  \
  }

static int64_t first_of_16(uint16_t exponent, int64_t count, const char *bytes) {
  FIRST_OF(uint16_t, exponent)
  return -1;
}

static int64_t first_of_32(int64_t count, const char *bytes) {
  FIRST_OF(uint32_t, UINT32_C(0x7F800000))
  return -1;
}

static int64_t first_of_64(int64_t count, const char *bytes) {
  FIRST_OF(uint64_t, UINT64_C(0x7FF0000000000000))
  return -1;
}

int64_t tri_first_not_finite(tri_safetensors_type type, int64_t count, const void *data) {
  if (type == TRI_SAFETENSORS_F32) return first_of_32(count, data);
  if (type == TRI_SAFETENSORS_F64) return first_of_64(count, data);
  if (type == TRI_SAFETENSORS_BF16) return first_of_16(0x7F80, count, data);
  if (type == TRI_SAFETENSORS_F16) return first_of_16(0x7C00, count, data);
  return -1;
}
