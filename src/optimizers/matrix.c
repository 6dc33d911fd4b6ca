#include "optimizers/matrix.h"

tri_matrix_shape tri_matrix_shape_of(const tri_parameter *tensor) {
  const tri_split *split = &tensor->split;
  tri_matrix_shape shape = {.matrices = 1, .rows = tensor->shape[0], .columns = tensor->shape[1]};
  if (split->dim < 0 || split->segments < 2) return shape;
  shape.matrices = split->segments;
  if (split->dim == 0) shape.rows /= split->segments;
  if (split->dim == 1) shape.columns /= split->segments;
  return shape;
}

tri_matrix_piece tri_matrix_piece_of(const tri_parameter *of, int64_t matrix) {
  const tri_matrix_shape shape = tri_matrix_shape_of(of);
  tri_matrix_piece piece = {.rows = shape.rows, .columns = shape.columns, .row_elements = of->local[1]};
  if (of->split.dim < 0) return piece;
  const int64_t length = of->split.dim == 0 ? shape.rows : shape.columns, unit = length / of->split.units;
  const int64_t first = of->first_unit * unit, count = of->num_units * unit;
  if (of->split.dim == 0) {
    piece.row = first;
    piece.rows = count;
    piece.at = matrix * count * piece.row_elements;
  } else {
    piece.column = first;
    piece.columns = count;
    piece.at = matrix * count;
  }
  return piece;
}

int64_t tri_matrix_ranks(const tri_parameter *tensor, const tri_mesh_shape *shape) {
  return tensor->split.dim < 0 ? 1 : tri_domain_size(shape, tensor->placement.parts);
}

bool tri_matrix_is_copy(const tri_parameter *tensor, int64_t ranks, int64_t rank) {
  return tensor->split.dim >= 0 && !tri_parameter_of_rank(tensor, ranks, rank).counted;
}
