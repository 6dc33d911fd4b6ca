/* A matrix of an adapter's base in host memory, as products with it see it. */
#ifndef TRI_CHECKPOINT_BASE_MATRIX_H
#define TRI_CHECKPOINT_BASE_MATRIX_H

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "model/parameters.h"
#include "model/trainable.h"

/* LOCAL. The device that takes matrices through 4 bits, as every device does, to the bit; *out stays NULL if the
 * adapter is beside a base as it is. Release with tri_device_destroy. */
tri_status tri_base_matrix_quantiser(tri_quantise quantise, tri_device **out);

/* LOCAL. All of `tensor`, whole on disk, in its order there; through 4 bits if there is a quantiser and that is how it
 * is kept (tri_trainable_can_quantise). Release with tri_free. */
tri_status tri_base_matrix_read(const tri_checkpoint *base, const tri_parameter *tensor, tri_device *quantiser,
                                double **out);

/* norms[outputs]: of the rows of the matrix as [out, in]. */
void tri_base_matrix_norms(const tri_parameter *tensor, const double *matrix, double *norms);

#endif
