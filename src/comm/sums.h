/* Sums of arrays of equal length, one from each rank, in the order of the ranks. */
#ifndef TRI_COMM_SUMS_H
#define TRI_COMM_SUMS_H

#include "device/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* Combines `terms` >= 1 arrays in order: out[i] = ((x[0][i] + x[1][i]) + x[2][i]) + ..., or the maximum instead of the
 * sum. out may be one of the arrays; it must not overlap them in any other way. */
typedef void (*tri_combine)(int terms, const void *const *x, int64_t count, void *out);

/* A reduction: how the values of several ranks become one value. A "partial" is the sum over the ranks of one node, in
 * a type wide enough that bf16 is rounded only once, however many nodes there are. */
typedef struct tri_sum {
  size_t bytes,           /* size of a value */
      partial_bytes;      /* size of a partial */
  tri_combine values;     /* combines the values of all ranks to one value */
  tri_combine to_partial; /* combines the values of a node's ranks to a partial */
  tri_combine partials;   /* combines the partials of all nodes to a value */
} tri_sum;

/* Returns the sum for fp32, bf16 or fp64, and NULL for other types. */
const tri_sum *tri_sum_of(tri_dtype type);
/* Returns the reduction to the maximum for fp32, bf16 or fp64, and NULL for other types. The maximum is NaN if any
 * value is NaN. */
const tri_sum *tri_maximum_of(tri_dtype type);
/* Returns the sum for int64_t; an overflow wraps. */
const tri_sum *tri_sum_int64(void);
/* Returns a placeholder, without functions, for operations that only move elements of 1, 2, 4 or 8 bytes; NULL for
 * other sizes. */
const tri_sum *tri_sum_none(size_t bytes);

#endif
