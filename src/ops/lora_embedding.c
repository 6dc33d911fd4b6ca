/* y[R, C] += scale A[:, ids]^T B^T, with A[rank, vocabulary] and B[C, rank]: LoRA factors of an embedding table. The
 * product with A is a look-up, as the input would be one-hot rows, and there is no dropout (as in PEFT).
 *
 * A is stored in the order of the checkpoint, and a token looks up a column of it. So A is transposed in the workspace,
 * and the kernels of embeddings work on that as on a table of `rank` columns; its gradient is transposed back.
 *
 * Under tensor parallelism A is split as the vocabulary is: u has zeros for ids of other slices, y is a partial sum
 * that is reduced together with the embedding's rows, and B's gradients are partial sums. */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/lora.h"
#include "ops/lora_up.h"

#include <string.h>

enum { A = 0 }; /* parameters, in addition to TRI_UP_B */
enum { SUM };   /* outputs, in addition to TRI_UP_U; input 0 is y */

typedef struct lora_embedding {
  tri_lora_up up;
  int64_t first_id, ids; /* this rank's slice of the vocabulary */
  double scale;
} lora_embedding;

static tri_up_rows rows_of(const lora_embedding *at, int64_t rows) {
  return (tri_up_rows){rows, at->up.b.out, at->up.b.out, false};
}

static tri_status op_lora_embedding_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  const lora_embedding *at = call->attributes;
  outputs[SUM] = inputs[0];
  outputs[TRI_UP_U] = (tri_shape){inputs[0].rows, at->up.b.in, call->type};
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t wide_bytes(const tri_op_call *call, int64_t count) {
  return tri_bytes_in_lines(tri_bytes_times((size_t)count, tri_dtype_bytes(tri_dtype_wide(call->type))));
}

/* Returns the bytes of A or its gradient, transposed. */
static size_t table_bytes(const tri_op_call *call) {
  const lora_embedding *at = call->attributes;
  return wide_bytes(call, at->ids * at->up.b.in);
}

static size_t du_bytes(const tri_op_call *call) {
  const lora_embedding *at = call->attributes;
  return tri_bytes_in_lines((size_t)(call->rows * at->up.b.in) * tri_dtype_bytes(call->type));
}

/* Sets the workspace. Forward: the table, or scratch of a GEMM. Backward: du, followed by scratch of a GEMM, or by the
 * table's gradient and a row of A's gradient. */
static tri_status op_lora_embedding_memory(const tri_op_call *call, const tri_device_description *device,
                                           tri_op_memory *out) {
  const lora_embedding *at = call->attributes;
  const size_t tables = table_bytes(call) + (call->training ? wide_bytes(call, at->ids) : 0);
  TRI_TRY(tri_lora_up_memory(call, device, &at->up, rows_of(at, call->rows), out));
  if (tables > out->workspace_bytes) out->workspace_bytes = tables;
  if (call->training) out->workspace_bytes += du_bytes(call);
  return TRI_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Returns the address of an element of a matrix in the wide type. */
static char *element_of(const tri_op_call *call, const void *matrix, int64_t element) {
  return (char *)(uintptr_t)matrix + (size_t)element * tri_dtype_bytes(tri_dtype_wide(call->type));
}

/* Copies row k of A to column k of the table, or back. */
static tri_status copy_column(tri_run *run, const tri_op_call *call, bool to_table, const void *from, void *to) {
  const lora_embedding *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const tri_row_copy copy = {.rows = tri_all_rows(at->ids),
                             .width = 1,
                             .from_type = wide,
                             .to_type = wide,
                             .from_stride = to_table ? 1 : at->up.b.in,
                             .to_stride = to_table ? at->up.b.in : 1};
  TRI_KERNEL_CALL(run->queue, copy_rows, &copy, NULL, from, NULL, to);
  return TRI_OK;
}

static tri_status pass_on(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const lora_embedding *at = call->attributes;
  const int64_t count = tri_run_rows(run, call) * at->up.b.out;
  if (from != to) TRI_KERNEL_CALL(run->queue, convert, count, call->type, from, call->type, to);
  return TRI_OK;
}

static tri_status op_lora_embedding_forward(tri_run *run, const tri_op_call *call) {
  const lora_embedding *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call), rank = at->up.b.in;
  const void *a = run->parameters[call->parameters[A]].value;
  void *u = run->slots[call->outputs[TRI_UP_U]], *y = run->slots[call->outputs[SUM]];
  TRI_TRY(pass_on(run, call, run->slots[call->inputs[0]], y));
  if (run->without_factors) return TRI_OK;
  for (int64_t k = 0; k < rank; k++)
    TRI_TRY(copy_column(run, call, true, element_of(call, a, k * at->ids), element_of(call, run->workspace, k)));
  TRI_KERNEL_CALL(run->queue, embedding_forward, call->type, tri_all_rows(rows), rank, run->ids, at->first_id, at->ids,
                  tri_dtype_wide(call->type), run->workspace, run->positions, NULL, u);
  TRI_KERNEL_CALL(run->queue, scale, call->type, rows * rank, at->scale, u, u);
  return tri_lora_up_add(run, call, &at->up, rows_of(at, rows), u, y, run->workspace);
}

static tri_status op_lora_embedding_backward_input(tri_run *run, const tri_op_call *call) {
  return pass_on(run, call, run->gradients[call->outputs[SUM]], run->gradients[call->inputs[0]]);
}

/* Writes or adds the table's gradient to A's gradient; `row` is scratch for a row of A's gradient, used if the gradient
 * accumulates. */
static tri_status write_a(tri_run *run, const tri_op_call *call, const void *table, void *row) {
  const lora_embedding *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  tri_run_parameter *a = &run->parameters[call->parameters[A]];
  for (int64_t k = 0; k < at->up.b.in; k++) {
    void *own = element_of(call, a->gradient, k * at->ids), *to = a->gradient_written ? row : own;
    TRI_TRY(copy_column(run, call, false, element_of(call, table, k), to));
    if (to != own) TRI_KERNEL_CALL(run->queue, add, wide, tri_all_rows(1), at->ids, own, row, own);
  }
  a->gradient_written = true;
  return TRI_OK;
}

static tri_status op_lora_embedding_backward_weight(tri_run *run, const tri_op_call *call) {
  const lora_embedding *at = call->attributes;
  const int64_t rows = tri_run_rows(run, call), rank = at->up.b.in;
  void *du = run->workspace, *behind = (char *)run->workspace + du_bytes(call);
  TRI_TRY(tri_lora_up_gradients(run, call, &at->up, rows_of(at, rows), run->gradients[call->outputs[SUM]],
                                run->slots[call->outputs[TRI_UP_U]], du, behind));
  TRI_KERNEL_CALL(run->queue, scale, call->type, rows * rank, at->scale, du, du);
  TRI_KERNEL_CALL(run->queue, fill_zero, table_bytes(call), behind);
  TRI_KERNEL_CALL(run->queue, embedding_backward, call->type, tri_all_rows(rows), rank, run->ids, at->first_id, at->ids,
                  du, behind);
  return write_a(run, call, behind, (char *)behind + table_bytes(call));
}

/* Sets the cost: one thin GEMM in the forward, two in the backward; and the transposition of A, or of its gradient,
 * which is also cleared. */
static void op_lora_embedding_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const lora_embedding *at = call->attributes;
  const double rows = (double)call->rows, rank = (double)at->up.b.in, width = (double)at->up.b.out;
  const double element = (double)tri_dtype_bytes(call->type),
               wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  const double table = rank * (double)at->ids * wide;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_INPUT) return;
  *out = (tri_cost){
      .flops = tri_pass_choose(pass, 2, 0, 4) * rows * rank * width,
      .rows = tri_pass_choose(pass, rows, 0, width),
      .inner = tri_pass_choose(pass, rank, 0, rows),
      .columns = tri_pass_choose(pass, width, 0, rank),
      .products = 1,
      .form = tri_weight_form(pass, TRI_WEIGHT_OUT_IN),
      .elements = rows * rank,
      .copied = tri_pass_choose(pass, 2, 0, 4) * table,
      .bytes = rows * (2 * width + 3 * rank) * element,
  };
}

static const tri_op op_lora_embedding = {
    .name = "lora_embedding",
    .work = "embedding",
    .keeps_outputs = 1u << TRI_UP_U,
    .in_place = true,
    .backward_in_place = true,
    .shape = op_lora_embedding_shape,
    .memory = op_lora_embedding_memory,
    .forward = op_lora_embedding_forward,
    .backward_input = op_lora_embedding_backward_input,
    .weights_read = true,
    .backward_weight = op_lora_embedding_backward_weight,
    .cost = op_lora_embedding_cost,
};

tri_status tri_op_lora_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int32_t token, int32_t x,
                                 int32_t *out) {
  *out = x;
  if (list->parameters == NULL || list->parameters[token].factors[0] < 0) return TRI_OK;
  const int32_t *pair = list->parameters[token].factors;
  const tri_op_parameter *a = &list->parameters[pair[0]];
  lora_embedding at = {.up.b = {a->out, width, TRI_WEIGHT_OUT_IN}, .scale = a->scale};
  tri_op_share_of(list, vocab_size, &at.first_id, &at.ids);
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_lora_embedding, &at, sizeof at, &call));
  call.inputs[0] = x;
  call.parameters[A] = pair[0];
  call.parameters[TRI_UP_B] = pair[1];
  return tri_op_list_append_first(list, &call, 2, out); /* *out is the output SUM */
}
