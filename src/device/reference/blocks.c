/* Weights in blocks (device/block_weights.h). Products are summed in double. */
#include "device/block_weights.h"
#include "device/reference/reference.h"

static int64_t at_in_part(const tri_block_part *part, int64_t output, int64_t input) {
  return (output - part->first_out) * part->out_stride + (input - part->first_in) * part->in_stride;
}

static void pack_block(tri_dtype type, const tri_block_matrix *matrix, const tri_block_part *part, int64_t output,
                       int64_t block, const void *values, uint8_t *kept) {
  float in[TRI_BLOCK_INPUTS] = {0};
  int8_t codes[TRI_BLOCK_INPUTS];
  for (int i = 0; i < TRI_BLOCK_INPUTS && output < matrix->out; i++)
    in[i] = (float)tri_reference_load(type, values, at_in_part(part, output, block * TRI_BLOCK_INPUTS + i));
  const uint16_t scale = tri_block_encode(matrix->type, in, codes);
  tri_block_put(matrix, output, block, scale, codes, kept);
}

tri_status tri_reference_pack_blocks(tri_queue *queue, tri_dtype type, const tri_block_matrix *matrix,
                                     const tri_block_part *part, const void *values, void *kept) {
  const int64_t end = tri_round_up(part->first_out + part->outputs, TRI_BLOCK_OUTPUTS);
  const int64_t first = part->first_in / TRI_BLOCK_INPUTS;
  (void)queue;
  for (int64_t o = part->first_out; o < end; o++)
    for (int64_t b = first; b < first + part->inputs / TRI_BLOCK_INPUTS; b++)
      pack_block(type, matrix, part, o, b, values, kept);
  return TRI_OK;
}

static float number_at(const tri_block_matrix *matrix, const void *kept, int64_t output, int64_t input) {
  float block[TRI_BLOCK_INPUTS];
  tri_block_get(matrix, output, input / TRI_BLOCK_INPUTS, kept, block);
  return block[input % TRI_BLOCK_INPUTS];
}

tri_status tri_reference_unpack_blocks(tri_queue *queue, tri_dtype type, const tri_block_matrix *matrix,
                                       const tri_block_part *part, const void *kept, void *values) {
  (void)queue;
  for (int64_t o = part->first_out; o < part->first_out + part->outputs; o++)
    for (int64_t i = part->first_in; i < part->first_in + part->inputs; i++)
      tri_reference_store(type, values, at_in_part(part, o, i), (double)number_at(matrix, kept, o, i));
  return TRI_OK;
}

tri_status tri_reference_embedding_blocks(tri_queue *queue, tri_dtype type, tri_rows rows,
                                          const tri_block_matrix *matrix, const int32_t *ids, int64_t first_id,
                                          const void *table, const int32_t *positions, const void *position_table,
                                          void *out) {
  const int64_t live = tri_rows_live(rows), width = matrix->in;
  (void)queue;
  for (int64_t r = 0; r < live; r++) {
    const int64_t id = ids[r] - first_id;
    for (int64_t c = 0; c < width; c++) {
      double value = id >= 0 && id < matrix->out ? (double)number_at(matrix, table, id, c) : 0.0;
      if (position_table != NULL) value += tri_reference_load(type, position_table, positions[r] * width + c);
      tri_reference_store(type, out, r * width + c, value);
    }
  }
  return TRI_OK;
}

/* Multiplies rows [first, end) by one matrix. */
static void multiply(tri_dtype type, const tri_block_product *p, int64_t first, int64_t end, const void *a,
                     const uint8_t *b, const void *bias, void *c) {
  float w[TRI_BLOCK_INPUTS];
  for (int64_t r = first; r < end; r++) {
    for (int64_t o = 0; o < p->matrix.out; o++) {
      double sum = bias == NULL ? 0 : tri_reference_load(type, bias, o);
      for (int64_t block = 0; block < p->matrix.in / TRI_BLOCK_INPUTS; block++) {
        tri_block_get(&p->matrix, o, block, b, w);
        for (int i = 0; i < TRI_BLOCK_INPUTS; i++)
          sum += tri_reference_load(type, a, r * p->lda + block * TRI_BLOCK_INPUTS + i) * (double)w[i];
      }
      tri_reference_store(type, c, r * p->ldc + o, sum);
    }
  }
}

tri_status tri_reference_block_matmul(tri_queue *queue, tri_dtype type, const tri_block_product *product,
                                      const int32_t *begins, const void *a, const void *b, const void *bias, void *c) {
  (void)queue;
  if (product->groups == 0) multiply(type, product, 0, product->rows, a, b, bias, c);
  for (int64_t g = 0; g < product->groups; g++)
    multiply(type, product, begins[g], begins[g + 1], a, (const uint8_t *)b + g * product->stride, NULL, c);
  return TRI_OK;
}
