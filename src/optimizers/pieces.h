/* What optimizers share that work on whole matrices. */
#ifndef TRI_OPTIMIZERS_PIECES_H
#define TRI_OPTIMIZERS_PIECES_H

#include "device/device.h"
#include "optimizers/matrix.h"
#include "optimizers/optimizer.h"

/* Takes `bytes` bytes, in whole lines, from the end of what has been taken; returns where they begin. */
size_t tri_pieces_take(size_t *end, size_t bytes);

/* Where the parts of all ranks begin in an array that has them one behind the other: begins[ranks + 1]; NULL if
 * there is one rank. Release with tri_free. */
tri_status tri_pieces_begins(const tri_parameter *tensor, int64_t ranks, int64_t **out);

/* Elements of all ranks' parts; 0 if there is one rank. */
int64_t tri_pieces_elements(const tri_parameter *tensor, int64_t ranks);

/* Whether a tensor of one rank is one matrix, so that it need not be put together. */
bool tri_pieces_are_one(const tri_matrix_shape *shape, int64_t ranks);

/* Queues the making of one matrix of a tensor, out[rows, columns], of the parts of all ranks; all wide. */
tri_status tri_pieces_join(tri_queue *queue, const tri_update_call *call, int64_t ranks, const int64_t *begins,
                           const void *parts, int64_t matrix, void *out);

/* The cost of a product, done `times` times. */
tri_cost tri_pieces_product_cost(const tri_matmul *product, double times, tri_product_form form);

#endif
