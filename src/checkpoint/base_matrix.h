/* A matrix of an adapter's base in host memory, with the values that GEMMs use. */
#ifndef TRI_CHECKPOINT_BASE_MATRIX_H
#define TRI_CHECKPOINT_BASE_MATRIX_H

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "model/parameters.h"
#include "model/trainable.h"

/* LOCAL. Creates the device that quantises matrices to 4 bits and back as `quantise` demands; all devices give the same
 * bits. Does not change *out if `quantise` is TRI_QUANTISE_NONE. Release with tri_device_destroy. */
tri_status tri_base_matrix_quantiser(tri_quantise quantise, tri_device **out);

/* LOCAL. Reads all elements of `tensor` from `base` as fp64, in the order of the file. If `quantiser` is not NULL and
 * the run keeps the matrix in 4 bits (tri_trainable_can_quantise), the values are quantised to 4 bits and back; a
 * matrix that is in 4 bits in the file is only dequantised, or refused with TRI_UNSUPPORTED if its codes are of another
 * kind (tri_four_bits_check_kind). Release *out with tri_free. */
tri_status tri_base_matrix_read(const tri_checkpoint *base, const tri_parameter *tensor, tri_device *quantiser,
                                double **out);

/* Computes norms[outputs]: the Euclidean norm of each output's weights, which are a row of `matrix`, or a column if
 * tensor->in_out. */
void tri_base_matrix_norms(const tri_parameter *tensor, const double *matrix, double *norms);

#endif
