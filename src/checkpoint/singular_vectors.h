/* Singular vectors, on the host in double. */
#ifndef TRI_CHECKPOINT_SINGULAR_VECTORS_H
#define TRI_CHECKPOINT_SINGULAR_VECTORS_H

#include "base/status.h"

#include <stdint.h>

/* LOCAL. Computes vectors[count, side]: the `count` singular vectors with the largest values of matrix[side, length]
 * along its first side, which must not be the longer one. In each vector the element of largest magnitude is positive.
 * Fails with TRI_DIVERGED if LAPACK cannot compute them. */
tri_status tri_singular_vectors(int64_t side, int64_t length, const double *matrix, int64_t count, double *vectors);

#endif
