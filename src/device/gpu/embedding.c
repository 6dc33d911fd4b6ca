/* Launches the kernels of kernels/embedding.c. */
#include "device/gpu/internal.h"

static tri_status gpu_embedding_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                        const int32_t *ids, int64_t first_id, int64_t table_rows, tri_dtype table_type,
                                        const void *table, const int32_t *positions, const void *position_table,
                                        void *out) {
  enum { LANES = 32 }; /* minimum lanes of a warp */
  TRI_GPU_LAUNCH(embedding_forward, type, tri_gpu_shape_of(rows.capacity * LANES, embedding_forward_threads),
                 .ids = ids, .table = table, .position_table = position_table, .positions = positions, .out = out,
                 .capacity = rows.capacity, .width = width, .first_id = first_id, .table_rows = table_rows,
                 .count = rows.count, .narrow = table_type != tri_dtype_wide(type));
  return TRI_OK;
}

/* ---- sums by id -------------------------------------------------------------------------------------------------- */

/* Maximum number of rows that are sorted at once: the length of a run after sorted tiles were merged three times. */
enum { MOST_PIECE = EMBEDDING_TILE * EMBEDDING_WAYS * EMBEDDING_WAYS * EMBEDDING_WAYS };

/* The layout of the scratch memory for a piece of `rows` rows: keys, a second array of keys, and partial sums. The sums
 * are wide, and their rows are `stride` numbers apart. */
typedef struct piece_memory {
  int64_t rows, stride;
  uint64_t *keys, *other_keys;
  char *partial;
} piece_memory;

/* Lays out the scratch memory. The number of rows of a piece depends only on the width and the type, so the same rows
 * are always divided into the same pieces, and summed in the same order. Fails with TRI_UNSUPPORTED if the scratch
 * memory is too small for one window of keys and its partial sums. */
static tri_status lay_out(tri_queue *queue, tri_dtype type, int64_t width, piece_memory *out) {
  const int64_t stride = (width + EMBEDDING_PAD - 1) / EMBEDDING_PAD * EMBEDDING_PAD;
  const int64_t keys_bytes = EMBEDDING_WINDOW * (int64_t)sizeof(uint64_t);
  const int64_t sums_bytes = 2 * stride * (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  const int64_t windows = TRI_GPU_SCRATCH_BYTES / (2 * keys_bytes + sums_bytes);
  if (windows == 0) {
    return tri_fail(TRI_UNSUPPORTED, "a GPU does not sum embeddings of %lld elements a row; at most about %lld",
                    (long long)width, (long long)(TRI_GPU_SCRATCH_BYTES / (sums_bytes / stride)));
  }
  const int64_t rows = windows * EMBEDDING_WINDOW < MOST_PIECE ? windows * EMBEDDING_WINDOW : MOST_PIECE;
  char *scratch = tri_gpu_scratch(queue);
  *out = (piece_memory){.rows = rows,
                        .stride = stride,
                        .keys = (uint64_t *)(void *)scratch,
                        .other_keys = (uint64_t *)(void *)scratch + rows,
                        .partial = scratch + 2 * rows * (int64_t)sizeof(uint64_t)};
  return TRI_OK;
}

/* Sorts the piece's keys. May exchange memory->keys and memory->other_keys: `keys` has the result. */
static tri_status sort_piece(tri_queue *queue, tri_dtype type, const embedding_piece *piece, const int32_t *ids,
                             int64_t first_id, int64_t table_rows, piece_memory *memory) {
  const tri_gpu_shape tiles = {.x = (piece->piece + EMBEDDING_TILE - 1) / EMBEDDING_TILE};
  TRI_GPU_LAUNCH(embedding_sort, type, tiles, .rows = *piece, .ids = ids, .keys = memory->keys, .first_id = first_id,
                 .table_rows = table_rows);
  for (int bits = EMBEDDING_TILE_BITS; piece->piece > (int64_t)1 << bits; bits += EMBEDDING_WAYS_BITS) {
    TRI_GPU_LAUNCH(embedding_merge, type, tri_gpu_shape_of(piece->piece, embedding_merge_threads), .rows = *piece,
                   .in = memory->keys, .out = memory->other_keys, .run_bits = bits);
    uint64_t *sorted = memory->other_keys;
    memory->other_keys = memory->keys;
    memory->keys = sorted;
  }
  return TRI_OK;
}

static tri_status sum_piece(tri_queue *queue, tri_dtype type, const embedding_piece *piece, int64_t width,
                            const piece_memory *memory, const void *gradient, void *table) {
  const int64_t windows = (piece->piece + EMBEDDING_WINDOW - 1) / EMBEDDING_WINDOW;
  const int64_t sum_columns = embedding_sum_threads * (16 / (int64_t)tri_dtype_bytes(type));
  const int64_t join_columns = EMBEDDING_JOIN_LANES * (16 / (int64_t)tri_dtype_bytes(tri_dtype_wide(type)));
  const tri_gpu_shape sums = {.x = windows, .y = (width + sum_columns - 1) / sum_columns};
  const tri_gpu_shape joins = {.x = windows - 1, .y = (width + join_columns - 1) / join_columns};
  TRI_GPU_LAUNCH(embedding_sum, type, sums, .rows = *piece, .keys = memory->keys, .gradient = gradient, .table = table,
                 .partial = memory->partial, .width = width, .stride = memory->stride);
  TRI_GPU_LAUNCH(embedding_join, type, joins, .rows = *piece, .keys = memory->keys, .partial = memory->partial,
                 .table = table, .width = width, .stride = memory->stride);
  return TRI_OK;
}

static tri_status gpu_embedding_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                         const int32_t *ids, int64_t first_id, int64_t table_rows, const void *gradient,
                                         void *gradient_table) {
  const int64_t row_bytes = width * (int64_t)tri_dtype_bytes(type);
  piece_memory memory = {0};
  TRI_TRY(lay_out(queue, type, width, &memory));
  for (int64_t first = 0; first < rows.capacity; first += memory.rows) {
    const int64_t left = rows.capacity - first;
    const embedding_piece piece = {rows.capacity, first, left < memory.rows ? left : memory.rows, rows.count};
    TRI_TRY(sort_piece(queue, type, &piece, ids + first, first_id, table_rows, &memory));
    TRI_TRY(sum_piece(queue, type, &piece, width, &memory, (const char *)gradient + first * row_bytes, gradient_table));
  }
  return TRI_OK;
}

/* Computes the gradient of the table of positions, with positions as ids. */
static tri_status gpu_position_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                        const int32_t *positions, int64_t table_rows, const void *gradient,
                                        void *gradient_table, bool accumulate) {
  const size_t bytes = (size_t)(table_rows * width) * tri_dtype_bytes(tri_dtype_wide(type));
  if (!accumulate) TRI_TRY(tri_gpu_queue_fill_zero(queue, bytes, gradient_table));
  return gpu_embedding_backward(queue, type, rows, width, positions, 0, table_rows, gradient, gradient_table);
}

void tri_gpu_fill_embedding(tri_device_kernels *out) {
  out->embedding_forward = gpu_embedding_forward;
  out->embedding_backward = gpu_embedding_backward;
  out->position_backward = gpu_position_backward;
}
