/* A matrix of an adapter's base in host memory, with the values that GEMMs use. */
#ifndef TRI_CHECKPOINT_BASE_MATRIX_H
#define TRI_CHECKPOINT_BASE_MATRIX_H

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "model/parameters.h"
#include "model/trainable.h"

/* LOCAL. Creates the device that quantises matrices to 4 bits and back; all devices give the same bits. *out is not
 * changed if the base is not quantised. Release with tri_device_destroy. */
tri_status tri_base_matrix_quantiser(tri_quantise quantise, tri_device **out);

/* LOCAL. Reads all of `tensor` in the order of the file. If there is a quantiser and the run keeps the matrix in 4 bits
 * (tri_trainable_can_quantise), its values are quantised to 4 bits and back. Release with tri_free. */
tri_status tri_base_matrix_read(const tri_checkpoint *base, const tri_parameter *tensor, tri_device *quantiser,
                                double **out);

/* Computes norms[outputs]: the norm of each output's weights, which are the rows of the matrix as [out, in]. */
void tri_base_matrix_norms(const tri_parameter *tensor, const double *matrix, double *norms);

#endif
