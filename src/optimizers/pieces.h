/* Helpers of the optimizers that work on whole matrices. */
#ifndef TRI_OPTIMIZERS_PIECES_H
#define TRI_OPTIMIZERS_PIECES_H

#include "device/device.h"
#include "optimizers/matrix.h"
#include "optimizers/optimizer.h"

/* Reserves `bytes` bytes, in whole cache lines, at *end, advances *end, and returns the offset. */
size_t tri_pieces_reserve(size_t *end, size_t bytes);

/* Computes the offsets of all ranks' shards in an array that has them in rank order: begins[ranks + 1]; NULL if there
 * is one rank. Release with tri_free. */
tri_status tri_pieces_begins(const tri_parameter *tensor, int64_t ranks, int64_t **out);

/* Returns the number of elements of all ranks' shards; 0 if there is one rank. */
int64_t tri_pieces_elements(const tri_parameter *tensor, int64_t ranks);

/* Returns whether the tensor is one matrix on one rank, so that it need not be copied into one piece. */
bool tri_pieces_are_one(const tri_matrix_shape *shape, int64_t ranks);

/* Queues copies that assemble one matrix of a tensor, out[rows, columns], from the shards of all ranks. All arrays are
 * wide. */
tri_status tri_pieces_join(tri_queue *queue, const tri_update_call *call, int64_t ranks, const int64_t *begins,
                           const void *parts, int64_t matrix, void *out);

/* Returns the cost of a GEMM that is done `times` times. */
tri_cost tri_pieces_gemm_cost(const tri_matmul *product, double times, tri_gemm_form form);

#endif
