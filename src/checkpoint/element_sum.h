/* The checksum of a tensor: a sum over its elements, so that ranks that each hold some elements, in any pieces and any
 * order, can each compute their part.
 *
 *   sum of mix(e_i + (i + 1) * 0x9E3779B97F4A7C15) modulo 2^64,
 *
 * where e_i are the bits of element i of the global tensor as an unsigned number, and mix is the finalizer of
 * splitmix64 (Steele, Lea and Flood 2014): every bit of an element and of its place moves about half of the bits of its
 * term, so that a wrong, moved or missing element is missed with a probability of 2^-64. */
#ifndef TRI_CHECKPOINT_ELEMENT_SUM_H
#define TRI_CHECKPOINT_ELEMENT_SUM_H

#include <stddef.h>
#include <stdint.h>

/* Returns the part of the sum for the elements [first, first + count) in `data`; element_bytes is 1, 2, 4 or 8. */
uint64_t tri_element_sum(size_t element_bytes, int64_t first, int64_t count, const void *data);

/* Returns the same number as tri_element_sum, computed by all threads. */
uint64_t tri_element_sum_parallel(size_t element_bytes, int64_t first, int64_t count, const void *data);

#endif
