/* Factors that begin as the first singular vectors of their matrix (PiSSA, Meng et al. 2024, equations 2 and 3): of
 * W [out, in] = U S V^T,
 *
 *   A0 = (S_r / scale)^(1/2) V_r^T [rank, in]      B0 = U_r (S_r / scale)^(1/2) [out, rank]
 *
 * so that scale B0 A0 is the best approximation of W that has this rank, and is what training begins with. W is read
 * whole, in fp64, whatever part of it is wanted. A0 and B0 are rounded to fp32 whatever the precision of a run, so that
 * all who make them of one base have the same numbers. A vector is as good as its opposite: the largest element of each
 * along the shorter side of W is positive. */
#ifndef TRI_CHECKPOINT_PRINCIPAL_H
#define TRI_CHECKPOINT_PRINCIPAL_H

#include "checkpoint/checkpoint.h"
#include "model/parameters.h"
#include "model/trainable.h"

typedef struct tri_principal {
  int64_t rank, in, out;
  float *a, *b; /* [rank, in], [out, rank] */
} tri_principal;

/* LOCAL. Of `matrix`, which is whole on disk (tri_parameter_on_disk), as the base has it. Release with
 * tri_principal_release, which also accepts {0}. */
tri_status tri_principal_create(const tri_checkpoint *base, const tri_parameter *matrix, const tri_adapter_pair *pair,
                                tri_principal *out);
void tri_principal_release(tri_principal *principal);

/* Of numbers in host memory: matrix[out, in]; sets a[rank, in] and b[out, rank]. */
tri_status tri_principal_factors(const double *matrix, int64_t out, int64_t in, int64_t rank, double scale, float *a,
                                 float *b);

#endif
