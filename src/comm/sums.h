/* Sums of equally long arrays, one from each rank, in the order of the ranks. */
#ifndef TRI_COMM_SUMS_H
#define TRI_COMM_SUMS_H

#include "device/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* out[i] = ((x[0][i] + x[1][i]) + x[2][i]) + ... of `terms` >= 1 arrays. out may be one of the arrays; it must not
 * overlap them in any other way. */
typedef void (*tri_combine)(int terms, const void *const *x, int64_t count, void *out);

/* How the values of many ranks become one value. A "partial" is the sum over the ranks of one node, in a type wide
 * enough that bf16 is rounded only once, however many nodes there are. */
typedef struct tri_sum {
  size_t bytes, partial_bytes; /* of an element */
  tri_combine values;          /* values of all ranks -> value      */
  tri_combine to_partial;      /* values of a node's ranks -> partial */
  tri_combine partials;        /* partials of all nodes -> value    */
} tri_sum;

/* The sum of fp32, bf16 or fp64; NULL for other types. */
const tri_sum *tri_sum_of(tri_dtype type);
/* The maximum of the same types; NaN if any value is NaN. */
const tri_sum *tri_maximum_of(tri_dtype type);
const tri_sum *tri_sum_int64(void);
/* Adds nothing: for operations that only move elements of 1 to 8 bytes. */
const tri_sum *tri_sum_none(size_t bytes);

#endif
