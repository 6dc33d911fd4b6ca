#include "checkpoint/element_sum.h"

#include "base/loop_threads.h"

#include <string.h>

static inline uint64_t term(uint64_t element, uint64_t place) {
  uint64_t z = element + place * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

/* Data may have any alignment. */
#define SUM_OF(TYPE)                                                                                                   \
  for (int64_t i = 0; i < count; i++) {                                                                                \
    TYPE element;                                                                                                      \
    memcpy(&element, bytes + (size_t)i * sizeof element, sizeof element);                                              \
    sum += term(element, (uint64_t)(first + i) + 1);                                                                   \
  }

uint64_t tri_element_sum(size_t element_bytes, int64_t first, int64_t count, const void *data) {
  const char *bytes = data;
  uint64_t sum = 0;
  if (element_bytes == 8) {
    SUM_OF(uint64_t)
  } else if (element_bytes == 4) {
    SUM_OF(uint32_t)
  } else if (element_bytes == 2) {
    SUM_OF(uint16_t)
  } else {
    SUM_OF(uint8_t)
  }
  return sum;
}

uint64_t tri_element_sum_parallel(size_t element_bytes, int64_t first, int64_t count, const void *data) {
  enum { BLOCK = 1 << 16 };
  uint64_t sum = 0;
  if (count <= BLOCK) return tri_element_sum(element_bytes, first, count, data);
#pragma omp parallel for num_threads(tri_loop_threads()) reduction(+ : sum)
  for (int64_t at = 0; at < count; at += BLOCK) {
    int64_t some = count - at < BLOCK ? count - at : BLOCK;
    sum += tri_element_sum(element_bytes, first + at, some, (const char *)data + (size_t)at * element_bytes);
  }
  return sum;
}
