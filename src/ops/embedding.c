/* x[R,C] = token_table[ids] (+ position_table[position of the row]).
 *
 * This is the first call of a list: it has no inputs and its gradient ends in the tables. Under tensor parallelism a
 * rank has a slice of the vocabulary: ids of other slices give rows of zeros, and the ranks' rows are summed
 * (tri_op_leave_tensor); one rank adds the positions, whose gradient is the same on all. The table of positions may
 * have unused rows before the row of position 0. */
#include "device/kernels.h"
#include "ops/lora.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct embedding {
  int64_t width, max_sequence, position_offset;
  int64_t first_id, table_rows; /* first token id of this rank's slice of the vocabulary; number of rows of the slice */
  bool adds_positions;
} embedding;

static tri_status op_embedding_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                     tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)inputs;
  const embedding *at = call->attributes;
  outputs[0] = (tri_shape){call->rows, at->width, call->type};
  return TRI_OK;
}

/* Returns the row of position 0 in a table of positions or in its gradient. */
static void *first_position(const tri_op_call *call, void *table) {
  const embedding *at = call->attributes;
  const size_t row_bytes = (size_t)at->width * tri_dtype_bytes(tri_dtype_wide(call->type));
  return (char *)table + (size_t)at->position_offset * row_bytes;
}

static tri_status op_embedding_forward(tri_run *run, const tri_op_call *call) {
  const embedding *at = call->attributes;
  bool has_positions = call->parameters[1] >= 0 && at->adds_positions;
  const void *position_table = has_positions ? first_position(call, run->parameters[call->parameters[1]].value) : NULL;
  int64_t positions = run->cache == NULL ? run->sequence : run->cache->positions;
  if (position_table != NULL && positions > at->max_sequence) {
    return tri_fail(TRI_BAD_CONFIG, "position %ld is beyond the model's max_sequence of %ld", (long)positions,
                    (long)at->max_sequence);
  }
  const tri_run_parameter *table = &run->parameters[call->parameters[0]];
  if (table->blocks.in > 0) {
    TRI_KERNEL_CALL(run->queue, embedding_blocks, call->type, tri_all_rows(tri_run_rows(run, call)), &table->blocks,
                    run->ids, at->first_id, table->value, run->positions, position_table, run->slots[call->outputs[0]]);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(run->queue, embedding_forward, call->type, tri_all_rows(tri_run_rows(run, call)), at->width, run->ids,
                  at->first_id, at->table_rows, tri_stored_type(call->stored, call->type), table->value, run->positions,
                  position_table, run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_embedding_backward_weight(tri_run *run, const tri_op_call *call) {
  const embedding *at = call->attributes;
  const void *gradient = run->gradients[call->outputs[0]];
  size_t row_bytes = (size_t)at->width * tri_dtype_bytes(tri_dtype_wide(call->type));
  tri_run_parameter *token = &run->parameters[call->parameters[0]];
  if (!token->gradient_written && !tri_op_is_frozen(call, 0)) {
    TRI_KERNEL_CALL(run->queue, fill_zero, row_bytes * (size_t)at->table_rows, token->gradient);
    token->gradient_written = true;
  }
  if (!tri_op_is_frozen(call, 0)) {
    TRI_KERNEL_CALL(run->queue, embedding_backward, call->type, tri_all_rows(tri_run_rows(run, call)), at->width,
                    run->ids, at->first_id, at->table_rows, gradient, token->gradient);
  }
  if (call->parameters[1] < 0 || tri_op_is_frozen(call, 1)) return TRI_OK;
  tri_run_parameter *position = &run->parameters[call->parameters[1]];
  if (!position->gradient_written && at->position_offset > 0) { /* rows before position 0 have no gradient */
    TRI_KERNEL_CALL(run->queue, fill_zero, row_bytes * (size_t)at->position_offset, position->gradient);
  }
  TRI_KERNEL_CALL(run->queue, position_backward, call->type, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->positions, at->max_sequence, gradient, first_position(call, position->gradient),
                  position->gradient_written);
  position->gradient_written = true;
  return TRI_OK;
}

static void op_embedding_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const embedding *at = call->attributes;
  double elements = (double)call->rows * (double)at->width;
  (void)pass;
  double wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  double tables = call->parameters[1] < 0 ? 1 : 2;
  out->elements = elements;
  out->vector_flops = elements * tables;
  out->bytes = elements * ((double)tri_dtype_bytes(call->type) + wide * tables);
}

static const tri_op op_embedding = {
    .name = "embedding",
    .clears_gradient = true,
    .shape = op_embedding_shape,
    .forward = op_embedding_forward,
    .backward_weight = op_embedding_backward_weight,
    .cost = op_embedding_cost,
};

tri_status tri_op_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int64_t max_sequence,
                            int64_t position_offset, int32_t token, int32_t position, int32_t *out) {
  embedding attributes = {.width = width,
                          .max_sequence = max_sequence,
                          .position_offset = position_offset,
                          .adds_positions = tri_op_list_rank(list, TRI_DOMAIN_TENSOR) == 0};
  tri_op_share_of(list, vocab_size, &attributes.first_id, &attributes.table_rows);
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_embedding, &attributes, sizeof attributes, &call));
  call.parameters[0] = token;
  call.parameters[1] = position;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  TRI_TRY(tri_op_lora_embedding(list, width, vocab_size, token, outputs[0], out));
  return tri_op_leave_tensor(list, *out, out);
}
