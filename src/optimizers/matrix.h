/* Whole matrices out of what tensor ranks hold of them.
 *
 * A tensor is one matrix, or as many as its split has segments (GPT-2's queries, keys and values). A rank of its parts
 * holds a piece of each: neighbouring rows, or neighbouring columns. */
#ifndef TRI_OPTIMIZERS_MATRIX_H
#define TRI_OPTIMIZERS_MATRIX_H

#include "model/parameters.h"

typedef struct tri_matrix_shape {
  int64_t matrices, rows, columns; /* of the tensor; of each of them, as it is stored */
} tri_matrix_shape;

tri_matrix_shape tri_matrix_shape_of(const tri_parameter *tensor);

/* What a rank holds of a matrix. */
typedef struct tri_matrix_piece {
  int64_t row, column, rows, columns; /* of the matrix */
  int64_t at;                         /* its first element in the rank's part of the tensor, */
  int64_t row_elements;               /* and from there from row to row */
} tri_matrix_piece;

/* `of` is the tensor as that rank has it (tri_parameter_of_rank). */
tri_matrix_piece tri_matrix_piece_of(const tri_parameter *of, int64_t matrix);

/* Ranks of the tensor's parts that hold different parts of it: 1 where each holds all. */
int64_t tri_matrix_ranks(const tri_parameter *tensor, const tri_mesh_shape *shape);

/* Whether a rank of them holds what the one before it does (grouped-query heads that are fewer than ranks). */
bool tri_matrix_is_copy(const tri_parameter *tensor, int64_t ranks, int64_t rank);

#endif
