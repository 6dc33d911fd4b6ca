#include "optimizers/pieces.h"

#include "base/count.h"
#include "base/memory.h"
#include "device/kernels.h"

size_t tri_pieces_reserve(size_t *end, size_t bytes) {
  const size_t begin = *end;
  *end = tri_bytes_plus(begin, tri_bytes_in_lines(bytes));
  return begin;
}

tri_status tri_pieces_begins(const tri_parameter *tensor, int64_t ranks, int64_t **out) {
  int64_t *begins = NULL;
  *out = NULL;
  if (ranks == 1) return TRI_OK;
  TRI_TRY(tri_alloc("parts of a matrix", (size_t)ranks + 1, sizeof *begins, &begins));
  for (int64_t r = 0; r < ranks; r++) begins[r + 1] = begins[r] + tri_parameter_of_rank(tensor, ranks, r).count;
  *out = begins;
  return TRI_OK;
}

int64_t tri_pieces_elements(const tri_parameter *tensor, int64_t ranks) {
  int64_t elements = 0;
  for (int64_t r = 0; r < ranks && ranks > 1; r++) elements += tri_parameter_of_rank(tensor, ranks, r).count;
  return elements;
}

bool tri_pieces_are_one(const tri_matrix_shape *shape, int64_t ranks) { return ranks == 1 && shape->matrices == 1; }

tri_status tri_pieces_join(tri_queue *queue, const tri_update_call *call, int64_t ranks, const int64_t *begins,
                           const void *parts, int64_t matrix, void *out) {
  const tri_dtype wide = tri_dtype_wide(call->type);
  const tri_matrix_shape shape = tri_matrix_shape_of(&call->tensor);
  for (int64_t r = 0; r < ranks; r++) {
    if (tri_matrix_is_copy(&call->tensor, ranks, r)) continue;
    const tri_parameter of = tri_parameter_of_rank(&call->tensor, ranks, r);
    const tri_matrix_piece piece = tri_matrix_piece_of(&of, matrix);
    const int64_t from = (begins == NULL ? 0 : begins[r]) + piece.at, to = piece.row * shape.columns + piece.column;
    const tri_row_copy copy = {.rows = tri_all_rows(piece.rows),
                               .width = piece.columns,
                               .from_type = wide,
                               .to_type = wide,
                               .from_stride = piece.row_elements,
                               .to_stride = shape.columns};
    TRI_KERNEL_CALL(queue, copy_rows, &copy, NULL, (const char *)parts + (size_t)from * tri_dtype_bytes(wide), NULL,
                    (char *)out + (size_t)to * tri_dtype_bytes(wide));
  }
  return TRI_OK;
}

tri_cost tri_pieces_gemm_cost(const tri_matmul *product, double times, tri_gemm_form form) {
  const double m = (double)product->m, n = (double)product->n, k = (double)product->k;
  const double element = (double)tri_dtype_bytes(product->a_type);
  return (tri_cost){.flops = times * 2.0 * m * n * k,
                    .bytes = times * (m * k + k * n + m * n) * element,
                    .rows = m,
                    .inner = k,
                    .columns = n,
                    .products = 1,
                    .form = form};
}
