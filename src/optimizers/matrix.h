/* Whole matrices from the shards of tensor ranks.
 *
 * A tensor is one matrix, or one matrix per segment of its split (GPT-2's queries, keys and values). A rank's shard has
 * a piece of each matrix: adjacent rows, or adjacent columns. */
#ifndef TRI_OPTIMIZERS_MATRIX_H
#define TRI_OPTIMIZERS_MATRIX_H

#include "model/parameters.h"

typedef struct tri_matrix_shape {
  int64_t matrices, rows, columns; /* number of matrices in the tensor; shape of each, as it is stored */
} tri_matrix_shape;

tri_matrix_shape tri_matrix_shape_of(const tri_parameter *tensor);

/* A rank's piece of a matrix. */
typedef struct tri_matrix_piece {
  int64_t row, column, rows, columns; /* position in the matrix, and shape */
  int64_t at;                         /* offset of its first element in the rank's shard */
  int64_t row_elements;               /* distance between rows in the shard, in elements */
} tri_matrix_piece;

/* Returns the piece of a rank; `of` is the tensor's shard on that rank (tri_parameter_of_rank). */
tri_matrix_piece tri_matrix_piece_of(const tri_parameter *of, int64_t matrix);

/* Returns the number of ranks with different shards of the tensor; 1 if each rank has all of it. */
int64_t tri_matrix_ranks(const tri_parameter *tensor, const tri_mesh_shape *shape);

/* Returns whether rank `rank` of `ranks` has the same shard as the rank before it (grouped-query attention with fewer
 * heads than ranks). */
bool tri_matrix_is_copy(const tri_parameter *tensor, int64_t ranks, int64_t rank);

#endif
