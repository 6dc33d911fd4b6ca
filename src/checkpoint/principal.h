/* Factors with the first singular vectors of their matrix as initial values (PiSSA, Meng et al. 2024, equations 2 and
 * 3). For W [out, in] = U S V^T,
 *
 *   A0 = (S_r / scale)^(1/2) V_r^T [rank, in]      B0 = U_r (S_r / scale)^(1/2) [out, rank]
 *
 * so that scale B0 A0, with which training begins, is the best approximation of W of this rank. W is always read whole,
 * in fp64. A0 and B0 are rounded to fp32 in every precision, so that all programs compute the same numbers from one
 * base. The sign of a singular vector is arbitrary: in each vector along the shorter side of W the element of
 * largest magnitude is positive. */
#ifndef TRI_CHECKPOINT_PRINCIPAL_H
#define TRI_CHECKPOINT_PRINCIPAL_H

#include "checkpoint/checkpoint.h"
#include "model/parameters.h"
#include "model/trainable.h"

typedef struct tri_principal {
  int64_t rank, in, out;
  float *a, *b; /* [rank, in], [out, rank] */
} tri_principal;

/* LOCAL. Computes the factors of `matrix`, a whole tensor of the base (tri_parameter_on_disk). Fails with
 * TRI_BAD_CONFIG if the rank is larger than the shorter side of the matrix, and as tri_principal_factors does. Release
 * with tri_principal_release, which also accepts {0}. */
tri_status tri_principal_create(const tri_checkpoint *base, const tri_parameter *matrix, const tri_adapter_pair *pair,
                                tri_principal *out);
void tri_principal_release(tri_principal *principal);

/* Computes a[rank, in] and b[out, rank] from matrix[out, in] in host memory. Fails with TRI_DIVERGED if LAPACK cannot
 * compute the singular vectors. */
tri_status tri_principal_factors(const double *matrix, int64_t out, int64_t in, int64_t rank, double scale, float *a,
                                 float *b);

#endif
