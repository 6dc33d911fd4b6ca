/* Sends the rows of experts back to their tokens and sums them, in the order of the token's experts; the partial rows
 * of the ranks of a holder are summed first, in the order of the ranks. experts_internal.h defines holder, pool and
 * window.
 *
 * Nearly always all rows of a pool are in one window, which `dispatch`, `arrive` and `experts` have processed. If a
 * pool has more rows, this call processes the rest, window by window, in scratch memory: the rows of later windows are
 * still on the ranks that they come from, and are sent again in the backward passes. So no row is dropped for lack of
 * memory, and memory is known in advance. */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/expert_factors.h"
#include "ops/experts_internal.h"

enum { ROWS, TABLES, X, WEIGHTS };

typedef struct combine {
  tri_expert_rows rows;
  tri_expert_calls calls;
  int64_t ffn;
  tri_activation activation;
} combine;

static tri_status op_combine_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                   tri_shape outputs[TRI_OP_OUTPUTS]) {
  const combine *at = call->attributes;
  (void)inputs;
  outputs[0] = (tri_shape){at->rows.pairs / at->rows.chosen, at->rows.width, call->type};
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The workspace, in order. */
typedef struct scratch {
  char *places;  /* [pairs, width]: rows of this rank's pairs */
  char *numbers; /* [pairs], in the wide type: numbers of this rank's pairs, such as gradients of weights */
  int32_t *here, *arrivals;
  char *x, *weights; /* rows of a later window and their weights */
  char *up, *active; /* output of gate and up; output of the activation */
  char *y;           /* output of down, or its gradient */
  char *up_gradient, *active_gradient, *weights_gradient;
  char *products;
} scratch;

static char *allocate_combine_scratch(char **end, int64_t rows, int64_t width, tri_dtype type) {
  char *at = *end;
  *end += tri_bytes_in_lines(tri_bytes_times(tri_bytes_times((size_t)rows, (size_t)width), tri_dtype_bytes(type)));
  return at;
}

static size_t lay_out(const tri_op_call *call, char *base, scratch *s) {
  const combine *at = call->attributes;
  const tri_expert_rows *rows = &at->rows;
  const tri_dtype type = call->type, wide = tri_dtype_wide(type);
  const int64_t capacity = tri_expert_rows_come_again(rows) ? rows->capacity : 0;
  const int64_t pairs = rows->tensor_ranks > 1 || capacity > 0 ? rows->pairs : 0;
  char *end = base;
  s->places = allocate_combine_scratch(&end, pairs, rows->width, type);
  s->numbers = allocate_combine_scratch(&end, pairs, 1, wide);
  s->here = (int32_t *)(void *)allocate_combine_scratch(&end, capacity > 0 ? rows->num_experts + 1 : 0, 1, TRI_INT32);
  s->arrivals = (int32_t *)(void *)allocate_combine_scratch(&end, capacity, 1, TRI_INT32);
  s->x = allocate_combine_scratch(&end, capacity, rows->width, type);
  s->weights = allocate_combine_scratch(&end, capacity, 1, wide);
  s->up = allocate_combine_scratch(&end, capacity, 2 * at->ffn, type);
  s->active = allocate_combine_scratch(&end, capacity, at->ffn, type);
  s->y = allocate_combine_scratch(&end, capacity, rows->width, type);
  if (call->training) {
    s->up_gradient = allocate_combine_scratch(&end, capacity, 2 * at->ffn, type);
    s->active_gradient = allocate_combine_scratch(&end, capacity, at->ffn, type);
    s->weights_gradient = allocate_combine_scratch(&end, capacity, 1, wide);
  }
  s->products = end;
  return (size_t)(end - base);
}

/* Raises *most to the workspace bytes of the GEMMs of the calls `experts` and `factors` (-1: no factors). */
static tri_status want_products(const tri_op_call *call, int32_t experts, int32_t factors,
                                const tri_device_description *device, size_t *most) {
  size_t bytes = 0;
  TRI_TRY(tri_experts_workspace(tri_expert_call(call, experts), device, &bytes));
  if (bytes > *most) *most = bytes;
  if (factors < 0) return TRI_OK;
  TRI_TRY(tri_expert_factors_workspace(tri_expert_call(call, factors), device, &bytes));
  if (bytes > *most) *most = bytes;
  return TRI_OK;
}

static tri_status op_combine_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const combine *at = call->attributes;
  scratch s = {0};
  static char origin[1];
  size_t products = 0;
  if (!tri_expert_rows_travel(&at->rows)) return TRI_OK;
  if (tri_expert_rows_come_again(&at->rows)) {
    TRI_TRY(want_products(call, at->calls.gate_up, at->calls.gate_up_factors, device, &products));
    TRI_TRY(want_products(call, at->calls.down, at->calls.down_factors, device, &products));
  }
  out->workspace_bytes = tri_bytes_plus(lay_out(call, origin, &s), products);
  return TRI_OK;
}

static size_t op_combine_transfer_bytes(const tri_op_call *call) {
  const combine *at = call->attributes;
  return tri_expert_passing_bytes(call, &at->rows);
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

static const int32_t *table(const tri_run *run, const tri_op_call *call, int64_t first) {
  return tri_expert_table(run, call->inputs[TABLES], first);
}

static tri_status add_up(tri_run *run, const tri_op_call *call, const void *at_places, void *out, bool accumulate) {
  const combine *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, sum_rows, call->type, tri_all_rows(tri_run_rows(run, call)), at->rows.chosen,
                  at->rows.width, table(run, call, at->rows.places), at_places, out, accumulate);
  return TRI_OK;
}

static tri_status spread_alone(tri_run *run, const tri_op_call *call) {
  const combine *at = call->attributes;
  const int64_t pairs = tri_run_rows(run, call) * at->rows.chosen, width = at->rows.width;
  const int32_t *placed = table(run, call, at->rows.begins) + at->rows.experts;
  const tri_row_copy rows = {(tri_rows){pairs, placed}, width, call->type, call->type, width, width};
  TRI_KERNEL_CALL(run->queue, copy_rows, &rows, table(run, call, at->rows.sources), run->gradients[call->outputs[0]],
                  NULL, run->gradients[call->inputs[ROWS]]);
  return TRI_OK;
}

/* ---- a later window ---------------------------------------------------------------------------------------------- */

typedef struct window {
  tri_run *run;
  const tri_op_call *call;
  const combine *at;
  tri_expert_host_state host_state;
  scratch memory;
  tri_travel rows, numbers;
} window;

static window window_of(tri_run *run, const tri_op_call *call) {
  const combine *at = call->attributes;
  window w = {.run = run, .call = call, .at = at};
  w.host_state = tri_expert_host_state_of(&at->rows, run->host_state[at->calls.dispatch]);
  (void)lay_out(call, run->workspace, &w.memory);
  return w;
}

/* Makes window `number` the current one. The device tables that `dispatch` has uploaded are those of window 0, so the
 * tables of a later window are computed and uploaded here. Before window 1 overwrites the host tables, the function
 * waits for the queue, because the device may still read the tables of window 0: if no row of that window leaves the
 * rank, no earlier call has waited for the device. */
static tri_status open_window(window *w, int64_t number) {
  const tri_expert_rows *rows = &w->at->rows;
  const tri_expert_host_state *n = &w->host_state;
  const int32_t *arrivals = table(w->run, w->call, rows->arrivals);
  tri_expert_window(rows, n, number);
  if (number > 0) {
    arrivals = w->memory.arrivals;
    if (number == 1) TRI_TRY(tri_queue_finish(w->run->queue));
    tri_expert_arrivals(rows, n, number, n->here, n->arrivals);
    TRI_TRY(tri_queue_upload_now(w->run->queue, w->memory.here, n->here,
                                 (size_t)(rows->num_experts + 1) * sizeof *n->here));
    TRI_TRY(tri_queue_upload_now(w->run->queue, w->memory.arrivals, n->arrivals,
                                 (size_t)n->received[rows->ranks] * sizeof *n->arrivals));
  }
  w->rows = tri_expert_travel(w->run, w->call, rows, n, arrivals);
  w->numbers = tri_expert_numbers_travel(w->rows);
  return TRI_OK;
}

/* The `experts` call of gate and up, or of down, and the call of its LoRA factors; NULL: no factors. */
typedef struct matrices {
  const tri_op_call *experts, *factors;
} matrices;

static matrices matrices_of(const window *w, int32_t experts, int32_t factors) {
  return (matrices){tri_expert_call(w->call, experts), factors < 0 ? NULL : tri_expert_call(w->call, factors)};
}
static matrices gate_up_of(const window *w) {
  return matrices_of(w, w->at->calls.gate_up, w->at->calls.gate_up_factors);
}
static matrices down_of(const window *w) { return matrices_of(w, w->at->calls.down, w->at->calls.down_factors); }

static tri_status multiply(const window *w, matrices by, const void *x, void *y) {
  const scratch *m = &w->memory;
  TRI_TRY(tri_experts_multiply(w->run, by.experts, m->here, x, y, m->products));
  return by.factors == NULL ? TRI_OK : tri_expert_factors_add(w->run, by.factors, m->here, x, y, m->products);
}

static tri_status multiply_back(const window *w, matrices by, const void *gradient_y, void *gradient_x) {
  const scratch *m = &w->memory;
  TRI_TRY(tri_experts_multiply_back(w->run, by.experts, m->here, gradient_y, gradient_x, false, m->products));
  if (by.factors == NULL) return TRI_OK;
  return tri_expert_factors_back(w->run, by.factors, m->here, gradient_y, gradient_x, m->products);
}

static tri_status accumulate(const window *w, matrices by, const void *x, const void *gradient_y) {
  const scratch *m = &w->memory;
  TRI_TRY(tri_experts_accumulate(w->run, by.experts, m->here, x, gradient_y, m->products));
  if (by.factors == NULL) return TRI_OK;
  return tri_expert_factors_accumulate(w->run, by.factors, m->here, x, gradient_y, m->products);
}

static tri_rows live_rows(const window *w) {
  return (tri_rows){w->at->rows.capacity, w->memory.here + w->at->rows.num_experts};
}

/* Receives the rows of the current window and their weights, and computes the forward up to the activation. */
static tri_status forward_to_active(const window *w) {
  const scratch *m = &w->memory;
  tri_run *run = w->run;
  const tri_op_call *call = w->call;
  TRI_TRY(tri_expert_send(run, &w->rows, table(run, call, w->at->rows.sources), run->slots[call->inputs[X]], m->x));
  TRI_TRY(tri_expert_send(run, &w->numbers, table(run, call, w->at->rows.order), run->slots[call->inputs[WEIGHTS]],
                          m->weights));
  TRI_TRY(multiply(w, gate_up_of(w), m->x, m->up));
  TRI_KERNEL_CALL(run->queue, weighted_gated_forward, call->type, w->at->activation, live_rows(w), w->at->ffn, m->up,
                  m->weights, m->active);
  return TRI_OK;
}

/* Computes the gradient of the output of gate and up from the gradient of the sum. */
static tri_status back_to_up(const window *w) {
  const scratch *m = &w->memory;
  tri_run *run = w->run;
  TRI_TRY(tri_expert_send(run, &w->rows, table(run, w->call, w->at->rows.sources), run->gradients[w->call->outputs[0]],
                          m->y));
  TRI_TRY(multiply_back(w, down_of(w), m->y, m->active_gradient));
  TRI_KERNEL_CALL(run->queue, weighted_gated_backward, w->call->type, w->at->activation, live_rows(w), w->at->ffn,
                  m->up, m->weights, m->active_gradient, m->up_gradient, m->weights_gradient);
  return TRI_OK;
}

static tri_status forward_window(window *w, int64_t number) {
  const void *returned = NULL;
  TRI_TRY(open_window(w, number));
  TRI_TRY(forward_to_active(w));
  TRI_TRY(multiply(w, down_of(w), w->memory.active, w->memory.y));
  return tri_expert_return(w->run, &w->rows, w->memory.y, w->memory.places, &returned);
}

static tri_status backward_input_window(window *w, int64_t number) {
  const scratch *m = &w->memory;
  const void *returned = NULL;
  TRI_TRY(open_window(w, number));
  TRI_TRY(forward_to_active(w));
  TRI_TRY(back_to_up(w));
  TRI_TRY(multiply_back(w, gate_up_of(w), m->up_gradient, m->x));
  TRI_TRY(tri_expert_return(w->run, &w->rows, m->x, m->places, &returned));
  TRI_TRY(tri_expert_return(w->run, &w->numbers, m->weights_gradient, m->numbers, &returned));
  return tri_expert_pairs_of_places(w->run, &w->numbers, table(w->run, w->call, w->at->rows.order), returned,
                                    w->run->gradients[w->call->inputs[WEIGHTS]]);
}

static tri_status backward_weight_window(window *w, int64_t number) {
  const scratch *m = &w->memory;
  TRI_TRY(open_window(w, number));
  TRI_TRY(forward_to_active(w));
  TRI_TRY(back_to_up(w));
  TRI_TRY(accumulate(w, down_of(w), m->active, m->y));
  return accumulate(w, gate_up_of(w), m->x, m->up_gradient);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static tri_status op_combine_forward(tri_run *run, const tri_op_call *call) {
  const combine *at = call->attributes;
  const void *rows = run->slots[call->inputs[ROWS]];
  void *out = run->slots[call->outputs[0]];
  if (!tri_expert_rows_travel(&at->rows)) return add_up(run, call, rows, out, false);
  window w = window_of(run, call);
  TRI_TRY(open_window(&w, 0));
  TRI_TRY(tri_expert_return(run, &w.rows, rows, w.memory.places, &rows));
  for (int64_t i = 1; i < *w.host_state.windows; i++) TRI_TRY(forward_window(&w, i));
  return add_up(run, call, rows, out, false);
}

/* Sets the gradient of X to the contributions of the later windows, or adds them to it if it accumulates. The gradient
 * of the weights need not be cleared, because each pair's gradient is written once, by the window of the pair. */
static tri_status later_inputs(window *w) {
  const tri_op_call *call = w->call;
  tri_run *run = w->run;
  const combine *at = w->at;
  void *gradient_x = run->gradients[call->inputs[X]];
  const size_t row = (size_t)at->rows.width * tri_dtype_bytes(call->type);
  if (*w->host_state.windows == 1) {
    if (call->accumulate[X]) return TRI_OK;
    TRI_KERNEL_CALL(run->queue, fill_zero, (size_t)(at->rows.pairs / at->rows.chosen) * row, gradient_x);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(run->queue, fill_zero, (size_t)at->rows.pairs * row, w->memory.places);
  for (int64_t i = 1; i < *w->host_state.windows; i++) TRI_TRY(backward_input_window(w, i));
  return add_up(run, call, w->memory.places, gradient_x, call->accumulate[X]);
}

static tri_status op_combine_backward_input(tri_run *run, const tri_op_call *call) {
  const combine *at = call->attributes;
  if (!tri_expert_rows_travel(&at->rows)) return spread_alone(run, call);
  window w = window_of(run, call);
  if (call->inputs[X] >= 0) TRI_TRY(later_inputs(&w));
  TRI_TRY(open_window(&w, 0));
  return tri_expert_send(run, &w.rows, table(run, call, at->rows.sources), run->gradients[call->outputs[0]],
                         run->gradients[call->inputs[ROWS]]);
}

static tri_status op_combine_backward_weight(tri_run *run, const tri_op_call *call) {
  window w = window_of(run, call);
  for (int64_t i = 1; i < *w.host_state.windows; i++) TRI_TRY(backward_weight_window(&w, i));
  return TRI_OK;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Sets the cost of the first window. Rows are sent back, summed over a holder's ranks, and then summed for each token;
 * the backward sends gradients. */
static void first_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const combine *at = call->attributes;
  const tri_expert_rows *rows = &at->rows;
  const double row = tri_expert_row_bytes(call, rows), pairs = (double)rows->pairs;
  const double parts = rows->tensor_ranks > 1 ? 2.0 + 3.0 * (double)(rows->tensor_ranks - 1) : 0;
  const double here = tri_expert_rows_first(rows);
  if (tri_pass_choose(pass, 1, 0, 0) > 0) {
    out->elements = pairs * (double)rows->width;
    out->bytes = (pairs + (double)call->rows) * row;
    out->spread = parts * pairs * row;
    out->copied = (tri_expert_rows_travel(rows) ? 2.0 * here * row : 0) + out->spread;
  } else if (tri_expert_rows_travel(rows)) {
    out->spread = 2.0 * (tri_expert_rows_sent(rows) - pairs) * row;
    out->copied = 2.0 * (pairs + here) * row + out->spread;
  } else {
    out->copied = 2.0 * pairs * row;
  }
  if (tri_expert_rows_travel(rows)) out->exchanges[0] = tri_expert_exchange(rows, here, row, 1);
}

/* The work of one later window. products: number of GEMMs, each as large as that of `down` (the GEMM of gate and up
 * counts as 2); rows: number of exchanges of rows; numbers: number of exchanges of one number per row. Each pass
 * recomputes the forward up to the activation before its own part. */
typedef struct later_work {
  double products, rows, numbers;
} later_work;

static later_work later_of(tri_pass pass) {
  switch (pass) {
    case TRI_PASS_FORWARD: return (later_work){3, 2, 1};
    case TRI_PASS_BACKWARD_INPUT: return (later_work){5, 3, 2};
    case TRI_PASS_BACKWARD_WEIGHT: return (later_work){6, 2, 1};
  }
  return (later_work){0};
}

/* Adds the expected cost of the later windows. */
static void later_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const combine *at = call->attributes;
  const tri_expert_rows *rows = &at->rows;
  const later_work work = later_of(pass);
  const double windows = tri_expert_rows_later_windows(rows), row = tri_expert_row_bytes(call, rows);
  if (windows == 0) return;
  const double each = (rows->expected - tri_expert_rows_first(rows)) / windows, count = (double)rows->num_experts;
  const double width = (double)rows->width, ffn = (double)at->ffn, element = (double)tri_dtype_bytes(call->type);
  /* Number of bytes of the gated activation for one row. */
  const double gated = tri_pass_choose(pass, 3.0, 8.0, 8.0) * ffn * element;
  out->rows = each / count;
  out->inner = width;
  out->columns = 2.0 * ffn;
  out->products = windows * count * work.products / 2;
  out->form = TRI_GEMM_TRANSPOSED;
  out->flops = 2.0 * out->rows * out->inner * out->columns * out->products;
  out->bytes += windows * work.products * (each * (width + ffn) + count * width * ffn) * element;
  out->copied += windows * each * (4.0 * work.rows * row + gated);
  out->exchanges[1] = tri_expert_exchange(rows, each, row, windows * work.rows);
  out->exchanges[2] = tri_expert_exchange(rows, each, tri_expert_number_bytes(call), windows * work.numbers);
}

static void op_combine_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  if (tri_pass_choose(pass, 1, 1, 0) > 0) first_cost(call, pass, out);
  later_cost(call, pass, out);
}

#define FUNCTIONS                                                                                                      \
  .name = "combine", .no_gradients = 1u << TABLES, .shape = op_combine_shape, .memory = op_combine_memory,             \
  .transfer = op_combine_transfer_bytes, .forward = op_combine_forward, .backward_input = op_combine_backward_input,   \
  .cost = op_combine_cost

static const tri_op op_combine = {FUNCTIONS, .keeps_inputs = 1u << TABLES};

/* The operation of a layer whose pools may have later windows: it also computes a part of the gradients of the experts'
 * matrices. */
static const tri_op op_combine_windows = {
    FUNCTIONS,
    .keeps_inputs = 1u << TABLES | 1u << X | 1u << WEIGHTS,
    .adds_gradients = 1u << X,
    .reads_experts = true,
    .weights_read = true,
    .backward_weight = op_combine_backward_weight,
};

#undef FUNCTIONS

tri_status tri_op_combine(tri_op_list *list, const tri_expert_rows *rows, const tri_expert_calls *calls, int64_t ffn,
                          tri_activation activation, int32_t experts, int32_t tables, int32_t x, int32_t weights,
                          int32_t *out) {
  const combine at = {*rows, *calls, ffn, activation};
  const bool again = tri_expert_rows_come_again(rows);
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, again ? &op_combine_windows : &op_combine, &at, sizeof at, &call));
  call.inputs[ROWS] = experts;
  call.inputs[TABLES] = tables;
  call.inputs[X] = again ? x : -1;
  call.inputs[WEIGHTS] = again ? weights : -1;
  return tri_op_list_append_first(list, &call, 1, out);
}
