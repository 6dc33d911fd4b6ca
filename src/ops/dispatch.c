/* Sends the rows of a micro-batch to their experts: one for each pair of a token and an expert, with the pair's weight.
 *
 * On one rank they are copied in the order of the experts. With several ranks, the rows of the first window are in
 * transfer to the holders of their experts until `arrive`; `combine` processes the other windows (experts_internal.h
 * defines window and holder). Gradients return the same way and are summed in the order of the token's experts. The
 * shared experts are computed between `dispatch` and `arrive`. */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/experts_internal.h"

enum { X, EXPERTS, WEIGHTS };
enum { ROWS, ROW_WEIGHTS, TABLES };

static tri_status op_dispatch_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                    tri_shape outputs[TRI_OP_OUTPUTS]) {
  const tri_expert_rows *at = call->attributes;
  outputs[ROWS] = (tri_shape){at->capacity, inputs[X].width, call->type};
  if (tri_expert_rows_travel(at))
    outputs[ROWS] = (tri_shape){1, 1, call->type}; /* an empty slot that orders `arrive` after this call */
  outputs[ROW_WEIGHTS] = (tri_shape){at->capacity, 1, tri_dtype_wide(call->type)};
  outputs[TABLES] = (tri_shape){1, at->length, TRI_INT32};
  return TRI_OK;
}

/* Sets the workspace for the gradients of returned rows. It is needed in training if a holder's ranks return partial
 * rows, or if a pool may have several windows. */
static tri_status op_dispatch_memory(const tri_op_call *call, const tri_device_description *device,
                                     tri_op_memory *out) {
  const tri_expert_rows *at = call->attributes;
  (void)device;
  if (!call->training || (at->tensor_ranks == 1 && !tri_expert_rows_come_again(at))) return TRI_OK;
  size_t values = tri_bytes_times((size_t)(at->pairs * at->width), tri_dtype_bytes(call->type));
  size_t numbers = (size_t)at->pairs * tri_dtype_bytes(tri_dtype_wide(call->type));
  out->workspace_bytes = tri_bytes_in_lines(values > numbers ? values : numbers);
  return TRI_OK;
}

static size_t op_dispatch_transfer_bytes(const tri_op_call *call) {
  return tri_expert_passing_bytes(call, call->attributes);
}

static size_t op_dispatch_host_state(const tri_op_call *call) { return tri_expert_notes_bytes(call->attributes); }

static int32_t *table(const tri_run *run, const tri_op_call *call, int64_t first) {
  return (int32_t *)run->slots[call->outputs[TABLES]] + first;
}

/* ---- destinations ------------------------------------------------------------------------------------------------ */

static tri_status sort(tri_run *run, const tri_op_call *call, const int32_t *experts) {
  const tri_expert_rows *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, group_rows, tri_all_rows(tri_run_rows(run, call)), at->chosen, at->experts, experts,
                  table(run, call, at->begins), table(run, call, at->order), table(run, call, at->sources),
                  table(run, call, at->places));
  return TRI_OK;
}

/* Changes `begins` of all ranks to the values after dropping. The first most_of_expert rows of each expert, in the
 * order of the ranks, are kept. */
static void keep_first(const tri_expert_rows *at, const tri_expert_host_state *n) {
  for (int64_t e = 0; e < at->experts; e++) n->left[e] = (int32_t)at->most_of_expert;
  for (int64_t r = 0; r < at->ranks; r++) {
    int32_t *begins = n->begins + r * (at->experts + 1), begin = 0;
    for (int64_t e = 0; e < at->experts; e++) {
      const int32_t rows = begins[e + 1] - begin, kept = rows < n->left[e] ? rows : n->left[e];
      begin = begins[e + 1];
      n->left[e] -= kept;
      begins[e + 1] = begins[e] + kept;
    }
  }
}

/* Sets the expert of this rank's dropped pairs to -1. Among the pairs with the same expert, the kept ones come first.
 */
static void drop_rest(const tri_expert_rows *at, const tri_expert_host_state *n, int64_t pairs) {
  const int32_t *own = n->begins + at->rank * (at->experts + 1);
  for (int64_t e = 0; e < at->experts; e++) n->left[e] = own[e + 1] - own[e];
  for (int64_t i = 0; i < pairs; i++) {
    int32_t *expert = &n->experts[i];
    if (*expert >= 0 && *expert < at->experts && n->left[*expert]-- > 0) continue;
    *expert = -1;
  }
}

static tri_status drop(tri_run *run, const tri_op_call *call, const tri_expert_host_state *n) {
  const tri_expert_rows *at = call->attributes;
  const int64_t pairs = tri_run_rows(run, call) * at->chosen;
  const size_t bytes = (size_t)pairs * sizeof *n->experts;
  TRI_TRY(tri_queue_download_now(run->queue, n->experts, run->slots[call->inputs[EXPERTS]], bytes));
  keep_first(at, n);
  drop_rest(at, n, pairs);
  TRI_TRY(tri_queue_upload_now(run->queue, table(run, call, at->kept), n->experts, bytes));
  return sort(run, call, table(run, call, at->kept));
}

/* Exchanges the number of rows per expert among the ranks of the expert group. A recomputed forward reuses these
 * counts, unless rows may be dropped. */
static tri_status tell(tri_run *run, const tri_op_call *call, const tri_expert_host_state *n) {
  const tri_expert_rows *at = call->attributes;
  const size_t bytes = (size_t)(at->experts + 1) * sizeof *n->begins;
  if (!run->recompute || at->most_of_expert > 0) {
    TRI_TRY(tri_run_gather_to_host(run, TRI_DOMAIN_EXPERT, bytes, table(run, call, at->begins), n->begins));
  }
  if (at->most_of_expert > 0) TRI_TRY(drop(run, call, n));
  *n->windows = tri_expert_windows(at, n);
  return TRI_OK;
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

static tri_row_copy numbers_of(const tri_op_call *call, tri_rows rows) {
  const tri_dtype wide = tri_dtype_wide(call->type);
  return (tri_row_copy){rows, 1, wide, wide, 1, 1};
}

/* Returns the pairs that have a place: pairs that are neither dropped nor padding. */
static tri_rows placed(const tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  return (tri_rows){tri_run_rows(run, call) * at->chosen, table(run, call, at->begins) + at->experts};
}

static tri_status stay(tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  const tri_row_copy rows = {placed(run, call), at->width, call->type, call->type, at->width, at->width};
  const tri_row_copy numbers = numbers_of(call, rows.rows);
  TRI_KERNEL_CALL(run->queue, copy_rows, &rows, table(run, call, at->sources), run->slots[call->inputs[X]], NULL,
                  run->slots[call->outputs[ROWS]]);
  TRI_KERNEL_CALL(run->queue, copy_rows, &numbers, table(run, call, at->order), run->slots[call->inputs[WEIGHTS]], NULL,
                  run->slots[call->outputs[ROW_WEIGHTS]]);
  return TRI_OK;
}

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

static tri_status travel(tri_run *run, const tri_op_call *call, const tri_expert_host_state *n) {
  const tri_expert_rows *at = call->attributes;
  const tri_travel rows = tri_expert_travel(run, call, at, n, table(run, call, at->arrivals));
  const tri_travel numbers = tri_expert_numbers_travel(rows);
  tri_expert_window(at, n, 0);
  tri_expert_arrivals(at, n, 0, n->here, n->arrivals);
  TRI_TRY(tri_queue_upload(run->queue, table(run, call, at->here), n->here,
                           (size_t)(at->num_experts + 1) * sizeof *n->here));
  TRI_TRY(tri_queue_upload(run->queue, table(run, call, at->arrivals), n->arrivals,
                           (size_t)n->received[at->ranks] * sizeof *n->arrivals));
  TRI_TRY(tri_expert_send(run, &numbers, table(run, call, at->order), run->slots[call->inputs[WEIGHTS]],
                          run->slots[call->outputs[ROW_WEIGHTS]]));
  return tri_expert_send_start(run, &rows, table(run, call, at->sources), run->slots[call->inputs[X]], n->transfer);
}

static tri_status op_dispatch_forward(tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  const tri_expert_host_state host_state = tri_expert_host_state_of(at, run->host_state[call->index]);
  TRI_TRY(sort(run, call, run->slots[call->inputs[EXPERTS]]));
  if (host_state.begins != NULL) TRI_TRY(tell(run, call, &host_state));
  if (run->expert_rounds != NULL) {
    const int64_t rounds = host_state.windows == NULL ? 1 : *host_state.windows;
    int64_t *most = &run->expert_rounds[at->router];
    if (*most < rounds) *most = rounds;
  }
  return tri_expert_rows_travel(at) ? travel(run, call, &host_state) : stay(run, call);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Sums for each token the gradients of the rows of its pairs. If there are several windows, `combine` has already added
 * the gradients of rows of later windows, and the rows at their places are 0 here. */
static tri_status add_rows(tri_run *run, const tri_op_call *call, const void *at_places, bool accumulate) {
  const tri_expert_rows *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, sum_rows, call->type, tri_all_rows(tri_run_rows(run, call)), at->chosen, at->width,
                  table(run, call, at->places), at_places, run->gradients[call->inputs[X]], accumulate);
  return TRI_OK;
}

/* Clears the weights' gradients if rows may be dropped, because no other call writes those of dropped pairs. */
static tri_status clear_weights(tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  size_t bytes = (size_t)(tri_run_rows(run, call) * at->chosen) * tri_dtype_bytes(tri_dtype_wide(call->type));
  if (at->most_of_expert == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, fill_zero, bytes, run->gradients[call->inputs[WEIGHTS]]);
  return TRI_OK;
}

static tri_status return_alone(tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  const tri_row_copy numbers = numbers_of(call, placed(run, call));
  TRI_TRY(add_rows(run, call, run->gradients[call->outputs[ROWS]], call->accumulate[X]));
  TRI_KERNEL_CALL(run->queue, copy_rows, &numbers, NULL, run->gradients[call->outputs[ROW_WEIGHTS]],
                  table(run, call, at->order), run->gradients[call->inputs[WEIGHTS]]);
  return TRI_OK;
}

static tri_status op_dispatch_backward_input(tri_run *run, const tri_op_call *call) {
  const tri_expert_rows *at = call->attributes;
  TRI_TRY(clear_weights(run, call));
  if (!tri_expert_rows_travel(at)) return return_alone(run, call);
  const tri_expert_host_state host_state = tri_expert_host_state_of(at, run->host_state[call->index]);
  const tri_travel rows = tri_expert_travel(run, call, at, &host_state, table(run, call, at->arrivals));
  const tri_travel numbers = tri_expert_numbers_travel(rows);
  const size_t bytes = (size_t)(at->pairs * at->width) * tri_dtype_bytes(call->type);
  const void *returned = NULL;
  if (*host_state.windows > 1) TRI_KERNEL_CALL(run->queue, fill_zero, bytes, run->workspace);
  TRI_TRY(tri_expert_return_end(run, &rows, host_state.transfer, run->workspace, &returned));
  TRI_TRY(add_rows(run, call, returned, call->accumulate[X]));
  TRI_TRY(tri_expert_return(run, &numbers, run->gradients[call->outputs[ROW_WEIGHTS]], run->workspace, &returned));
  return tri_expert_pairs_of_places(run, &numbers, table(run, call, at->order), returned,
                                    run->gradients[call->inputs[WEIGHTS]]);
}

/* Sets the cost of sorting pairs, and of copying rows in the order of the experts, once for each rank of a holder. The
 * ranks gather all counts, then exchange the weights; `arrive` waits for the rows. */
static void forward_cost(const tri_op_call *call, const tri_expert_rows *at, tri_cost *out) {
  const double pairs = (double)at->pairs, counts = (double)(at->ranks * (at->experts + 1));
  const double sent = tri_expert_rows_travel(at) ? tri_expert_rows_sent(at) : pairs;
  out->elements = pairs;
  out->bytes = 6.0 * sizeof(int32_t) * pairs;
  out->copied = 2.0 * sent * (tri_expert_row_bytes(call, at) + tri_expert_number_bytes(call));
  if (!tri_expert_rows_travel(at)) return;
  out->spread = out->copied * (1 - pairs / sent);
  out->exchanges[0] = (tri_cost_exchange){
      .collective = TRI_COLLECTIVE_ALL_GATHER, .domain = TRI_DOMAIN_EXPERT, .bytes = counts * sizeof(int32_t)};
  out->exchanges[1] = tri_expert_exchange(at, tri_expert_rows_first(at), tri_expert_number_bytes(call), 1);
}

/* Sets the cost of the backward: the transfer of rows that `arrive` has started, the exchange of the weights'
 * gradients, and the sums over the ranks of a holder and then over the rows of a token. */
static void backward_cost(const tri_op_call *call, const tri_expert_rows *at, tri_cost *out) {
  const double row = tri_expert_row_bytes(call, at), pairs = (double)at->pairs, rows = tri_expert_rows_first(at);
  out->copied = (pairs + (double)call->rows) * row;
  if (!tri_expert_rows_travel(at)) return;
  if (at->tensor_ranks > 1) out->spread = (2.0 + 3.0 * (double)(at->tensor_ranks - 1)) * pairs * row;
  out->copied += out->spread;
  out->exchanges[0] = tri_expert_exchange(at, rows, row, 1);
  out->exchanges[1] = tri_expert_exchange(at, rows, tri_expert_number_bytes(call), 1);
}

static void op_dispatch_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  switch (pass) {
    case TRI_PASS_FORWARD: forward_cost(call, call->attributes, out); break;
    case TRI_PASS_BACKWARD_INPUT: backward_cost(call, call->attributes, out); break;
    case TRI_PASS_BACKWARD_WEIGHT: break;
  }
}

static const tri_op op_dispatch = {
    .name = "dispatch",
    .of_experts = true,
    .keeps_inputs = 1u << X | 1u << EXPERTS | 1u << WEIGHTS,
    .keeps_outputs = 1u << TABLES,
    .adds_gradients = 1u << X | 1u << WEIGHTS,
    .no_gradients = 1u << EXPERTS,
    .shape = op_dispatch_shape,
    .memory = op_dispatch_memory,
    .transfer = op_dispatch_transfer_bytes,
    .host_state = op_dispatch_host_state,
    .forward = op_dispatch_forward,
    .backward_input = op_dispatch_backward_input,
    .cost = op_dispatch_cost,
};

/* ---- arrive ------------------------------------------------------------------------------------------------------ */

typedef struct arrive {
  tri_expert_rows rows;
  int32_t dispatch;
} arrive;

enum { SIGN, ARRIVE_TABLES };

static tri_status op_arrive_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                  tri_shape outputs[TRI_OP_OUTPUTS]) {
  const arrive *at = call->attributes;
  (void)inputs;
  outputs[0] = (tri_shape){at->rows.capacity, at->rows.width, call->type};
  return TRI_OK;
}

static tri_travel arriving(const tri_run *run, const tri_op_call *call, const tri_expert_host_state *host_state) {
  const arrive *at = call->attributes;
  return tri_expert_travel(run, call, &at->rows, host_state,
                           tri_expert_table(run, call->inputs[ARRIVE_TABLES], at->rows.arrivals));
}

static tri_status op_arrive_forward(tri_run *run, const tri_op_call *call) {
  const arrive *at = call->attributes;
  const tri_expert_host_state host_state = tri_expert_host_state_of(&at->rows, run->host_state[at->dispatch]);
  const tri_travel rows = arriving(run, call, &host_state);
  return tri_expert_send_end(run, &rows, host_state.transfer, run->slots[call->outputs[0]]);
}

static tri_status op_arrive_backward_input(tri_run *run, const tri_op_call *call) {
  const arrive *at = call->attributes;
  const tri_expert_host_state host_state = tri_expert_host_state_of(&at->rows, run->host_state[at->dispatch]);
  const tri_travel rows = arriving(run, call, &host_state);
  tri_expert_window(&at->rows, &host_state, 0);
  return tri_expert_return_start(run, &rows, run->gradients[call->outputs[0]], host_state.transfer);
}

/* Sets the cost of putting rows into the order of the experts, or back. The forward waits for its rows; backward_input
 * of `dispatch` waits for the rows of the backward. */
static void op_arrive_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const arrive *at = call->attributes;
  const double row = tri_expert_row_bytes(call, &at->rows), rows = tri_expert_rows_first(&at->rows);
  *out = (tri_cost){.copied = tri_pass_choose(pass, 2.0, 2.0, 0) * rows * row};
  if (tri_pass_choose(pass, 1, 0, 0) > 0) out->exchanges[0] = tri_expert_exchange(&at->rows, rows, row, 1);
}

static const tri_op op_arrive = {
    .name = "arrive",
    .of_experts = true,
    .awaits = true,
    .keeps_inputs = 1u << ARRIVE_TABLES,
    .no_gradients = 1u << ARRIVE_TABLES,
    .shape = op_arrive_shape,
    .forward = op_arrive_forward,
    .backward_input = op_arrive_backward_input,
    .cost = op_arrive_cost,
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

tri_status tri_op_dispatch(tri_op_list *list, const tri_expert_rows *at, int32_t x, tri_routed routed,
                           tri_dispatched *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_dispatch, at, sizeof *at, &call));
  call.inputs[X] = x;
  call.inputs[EXPERTS] = routed.experts;
  call.inputs[WEIGHTS] = routed.weights;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 3, outputs));
  *out = (tri_dispatched){outputs[ROWS], outputs[ROW_WEIGHTS], outputs[TABLES], (int32_t)list->num_calls - 1};
  return TRI_OK;
}

tri_expert_load tri_op_expert_load(const tri_op_list *list) {
  tri_expert_load most = {0};
  for (int64_t c = 0; c < list->num_calls; c++) {
    if (list->calls[c].op != &op_dispatch) continue;
    const tri_expert_rows *at = list->calls[c].attributes;
    if (at->expected <= most.rows) continue;
    const double imbalance = list->shard.expert_imbalance, asked = imbalance > 0 ? imbalance : 1;
    const double times = asked * at->expected / tri_expert_rows_asked(list, at);
    most = (tri_expert_load){at->expected, at->capacity, 1 + (int64_t)tri_expert_rows_later_windows(at), times};
  }
  return most;
}

tri_status tri_op_arrive(tri_op_list *list, const tri_expert_rows *rows, tri_dispatched *dispatched) {
  const arrive at = {*rows, dispatched->call};
  if (!tri_expert_rows_travel(rows)) return TRI_OK;
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_arrive, &at, sizeof at, &call));
  call.inputs[SIGN] = dispatched->rows;
  call.inputs[ARRIVE_TABLES] = dispatched->tables;
  return tri_op_list_append_first(list, &call, 1, &dispatched->rows);
}
