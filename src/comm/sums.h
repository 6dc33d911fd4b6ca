/* Sums of equally long arrays, one from each rank, in the order of the ranks. */
#ifndef TRI_COMM_SUMS_H
#define TRI_COMM_SUMS_H

#include "device/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* out[i] = ((x[0][i] + x[1][i]) + x[2][i]) + ... of `terms` >= 1 arrays. out may be one of them and otherwise overlaps
 * none. */
typedef void (*tri_combine)(int terms, const void *const *x, int64_t count, void *out);

/* A way to make one value of many ranks' values. A "partial" is what one node's ranks give; it is kept in a type that
 * loses nothing, so that bf16 is rounded once however many nodes there are. */
typedef struct tri_sum {
  size_t bytes, partial_bytes; /* of an element */
  tri_combine values;          /* values of all ranks -> value      */
  tri_combine to_partial;      /* values of a node's ranks -> partial */
  tri_combine partials;        /* partials of all nodes -> value    */
} tri_sum;

/* fp32, bf16, fp64; NULL for a type that is not summed. */
const tri_sum *tri_sum_of(tri_dtype type);
/* The largest instead of the sum; NaN where any value is NaN. */
const tri_sum *tri_maximum_of(tri_dtype type);
const tri_sum *tri_sum_int64(void);
/* Nothing is added; for moving elements of 1 to 8 bytes. */
const tri_sum *tri_sum_none(size_t bytes);

#endif
