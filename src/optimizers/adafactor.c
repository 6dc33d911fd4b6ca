/* Adafactor (Shazeer and Stern 2018), as torch.optim.Adafactor: of the squares of a matrix's gradient it keeps their
 * means along rows and along columns, and its rate is relative to the size of the parameter. Of a vector it keeps all.
 *
 * A tensor is one matrix as it is stored, GPT-2's joined queries, keys and values too. Where ranks hold parts of it,
 * they add up what they have of the means and of sums of squares, and each keeps the means of the whole. */
#include "device/kernels.h"
#include "optimizers/pieces.h"
#include "optimizers/run.h"

#include <float.h>
#include <math.h>

static const tri_config_key keys[] = {
    {.name = "beta2_decay",
     .type = TRI_CONFIG_DOUBLE,
     .offset = offsetof(tri_adafactor_settings, beta2_decay),
     .fallback = "-0.8",
     .range = {.low = -100, .high = 0},
     .help = "a new square weighs the number of the update to this power"},
    {.name = "eps",
     .type = TRI_CONFIG_PAIR,
     .offset = offsetof(tri_adafactor_settings, eps),
     .fallback = "[0.0, 1.0e-3]",
     .range = {.low = 0, .high = TRI_CONFIG_MOST},
     .help = "the least root of a mean of squares (0: the precision of its type), and the least size of a parameter"},
    {.name = "d",
     .type = TRI_CONFIG_DOUBLE,
     .offset = offsetof(tri_adafactor_settings, d),
     .fallback = "1.0",
     .range = {.low = 1, .high = TRI_CONFIG_MOST},
     .help = "the largest root mean square of a step before it is multiplied by the rate"},
};
const tri_config_table tri_adafactor_keys = {.noun = "run file", .keys = keys, .num_keys = sizeof keys / sizeof *keys};

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

enum { ROWS, COLUMNS, ALL };

static bool is_vector(const tri_parameter *tensor) { return tensor->num_dims < 2; }

static tri_state_shape rows_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  return is_vector(tensor) ? (tri_state_shape){0} : (tri_state_shape){2, {tensor->shape[0], 1}};
}

static tri_state_shape columns_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  return is_vector(tensor) ? (tri_state_shape){0} : (tri_state_shape){2, {1, tensor->shape[1]}};
}

static tri_state_shape all_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  return is_vector(tensor) ? (tri_state_shape){1, {tensor->shape[0]}} : (tri_state_shape){0};
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

/* One side of a matrix: what a rank holds of it, in `segments` stretches of `count`, of which the whole has `length`
 * each, these from `first` on. */
typedef struct side {
  int64_t segments, first, count, length;
} side;

/* A vector is one row. */
typedef struct sides {
  side rows, columns;
} sides;

static int64_t here(const side *s) { return s->segments * s->count; }
static int64_t whole(const side *s) { return s->segments * s->length; }

static side side_of(const tri_parameter *of, int dim) {
  const tri_split *split = &of->split;
  if (split->dim != dim) return (side){1, 0, of->shape[dim], of->shape[dim]};
  const int64_t length = of->shape[dim] / split->segments, unit = length / split->units;
  return (side){split->segments, of->first_unit * unit, of->num_units * unit, length};
}

static sides sides_of(const tri_parameter *of) {
  if (is_vector(of)) return (sides){{1, 0, 1, 1}, side_of(of, 0)};
  return (sides){side_of(of, 0), side_of(of, 1)};
}

/* Offsets in the workspace. */
typedef struct scratch {
  size_t means;         /* of the whole tensor's rows, then columns */
  size_t rows, columns; /* of this rank's */
  size_t sums;
  size_t bytes;
} scratch;

static scratch lay_out(const tri_update_call *call) {
  const sides s = sides_of(&call->tensor);
  const size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type));
  size_t end = 0;
  scratch at = {0};
  at.means = tri_pieces_take(&end, (size_t)(whole(&s.rows) + whole(&s.columns)) * wide);
  at.rows = tri_pieces_take(&end, (size_t)here(&s.rows) * wide);
  at.columns = tri_pieces_take(&end, (size_t)here(&s.columns) * wide);
  at.sums = tri_pieces_take(&end, sizeof(tri_adafactor_sums));
  at.bytes = end;
  return at;
}

static tri_status adafactor_workspace(const tri_update_call *call, const tri_device_description *device,
                                      size_t *bytes) {
  (void)device;
  *bytes = lay_out(call).bytes;
  return TRI_OK;
}

/* A call at work. All arrays are wide. */
typedef struct adafactor {
  const tri_update_run *run;
  const tri_update_call *call;
  sides sides;
  bool vector, split, counted; /* another rank has the same part, and adds it up */
  char *row_means, *column_means, *rows, *columns;
  tri_adafactor_sums *sums;
  tri_adafactor options;
} adafactor;

static double precision_of(tri_dtype wide) {
  switch (wide) {
    case TRI_FP64: return DBL_EPSILON;
    case TRI_FP32:
    case TRI_BF16:
    case TRI_INT32: break;
  }
  return (double)FLT_EPSILON;
}

static adafactor adafactor_of(const tri_update_run *run, const tri_update_call *call) {
  const tri_adafactor_settings *settings = &call->settings->adafactor;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const scratch at = lay_out(call);
  char *memory = run->workspace;
  adafactor u = {.run = run,
                 .call = call,
                 .sides = sides_of(&call->tensor),
                 .vector = is_vector(&call->tensor),
                 .split = tri_matrix_ranks(&call->tensor, &call->seat.shape) > 1,
                 .row_means = memory + at.means,
                 .rows = memory + at.rows,
                 .columns = memory + at.columns,
                 .sums = (tri_adafactor_sums *)(void *)(memory + at.sums)};
  const int64_t rank = tri_domain_rank(&call->seat.shape, &call->seat.place, call->tensor.placement.parts);
  const int64_t ranks = tri_matrix_ranks(&call->tensor, &call->seat.shape);
  u.counted = !u.split || !tri_matrix_is_copy(&call->tensor, ranks, rank);
  u.column_means = u.row_means + (size_t)whole(&u.sides.rows) * tri_dtype_bytes(wide);
  u.options = (tri_adafactor){.rows = here(&u.sides.rows),
                              .columns = here(&u.sides.columns),
                              .all_rows = (double)whole(&u.sides.rows),
                              .all_elements = (double)whole(&u.sides.rows) * (double)whole(&u.sides.columns),
                              .eps = {settings->eps[0] > 0 ? settings->eps[0] : precision_of(wide), settings->eps[1]},
                              .d = settings->d,
                              .weight_decay = call->weight_decay,
                              .lr_scale = call->lr_scale};
  return u;
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* What is here of a side, into an array of the whole, or from there. */
static tri_status copy_side(const adafactor *u, const side *s, const char *from, char *to, bool into_whole) {
  const tri_dtype wide = tri_dtype_wide(u->call->type);
  const size_t skipped = (size_t)s->first * tri_dtype_bytes(wide);
  const tri_row_copy copy = {.rows = tri_all_rows(s->segments),
                             .width = s->count,
                             .from_type = wide,
                             .to_type = wide,
                             .from_stride = into_whole ? s->count : s->length,
                             .to_stride = into_whole ? s->length : s->count};
  TRI_KERNEL_CALL(u->run->queue, copy_rows, &copy, NULL, from + (into_whole ? 0 : skipped), NULL,
                  to + (into_whole ? skipped : 0));
  return TRI_OK;
}

/* Means of squares of the gradient along both sides, over all of the tensor. */
static tri_status find_means(const adafactor *u) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type, wide = tri_dtype_wide(type);
  const sides *s = &u->sides;
  const int64_t count = whole(&s->rows) + whole(&s->columns);
  const tri_matrix_squares squares = {here(&s->rows), here(&s->columns), 1.0 / (double)whole(&s->columns),
                                      1.0 / (double)whole(&s->rows)};
  char *rows = u->split ? u->rows : u->row_means, *columns = u->split ? u->columns : u->column_means;
  TRI_KERNEL_CALL(queue, matrix_squares, type, &squares, u->run->values, u->run->gradient, rows, columns);
  if (!u->split) return TRI_OK;
  TRI_KERNEL_CALL(queue, fill_zero, (size_t)count * tri_dtype_bytes(wide), u->row_means);
  if (u->counted) TRI_TRY(copy_side(u, &s->rows, u->rows, u->row_means, true));
  if (u->counted) TRI_TRY(copy_side(u, &s->columns, u->columns, u->column_means, true));
  return u->run->collectives->all_reduce(u->run->ranks, u->call->tensor.placement.parts, wide, count, u->row_means);
}

/* The averages over all updates. */
static tri_status move_averages(const adafactor *u) {
  void *const *states = u->run->states;
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type;
  const int64_t rows = whole(&u->sides.rows), columns = whole(&u->sides.columns);
  const double weight = pow((double)u->run->update, u->call->settings->adafactor.beta2_decay);
  void *of_columns = u->vector ? states[ALL] : states[COLUMNS];
  TRI_KERNEL_CALL(queue, lerp, type, columns, weight, of_columns, u->column_means, of_columns);
  if (u->vector) return TRI_OK;
  TRI_KERNEL_CALL(queue, lerp, type, rows, weight, states[ROWS], u->row_means, states[ROWS]);
  TRI_KERNEL_CALL(queue, sum, type, rows, states[ROWS], &u->sums->rows, false);
  return TRI_OK;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* Of what this rank holds. */
static tri_status add_up_squares(const adafactor *u, const void *in, double *out) {
  const tri_matrix_squares squares = {u->options.rows, u->options.columns, 1.0, 1.0};
  if (!u->counted) {
    TRI_KERNEL_CALL(u->run->queue, fill_zero, sizeof *out, out);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(u->run->queue, matrix_squares, u->call->type, &squares, NULL, in, u->rows, NULL);
  TRI_KERNEL_CALL(u->run->queue, sum, u->call->type, squares.rows, u->rows, out, false);
  return TRI_OK;
}

/* In the place of the gradient. */
static tri_status find_direction(const adafactor *u) {
  void *const *states = u->run->states;
  char *rows = states[ROWS], *columns = u->vector ? states[ALL] : states[COLUMNS];
  if (u->split) TRI_TRY(copy_side(u, &u->sides.columns, columns, u->columns, false));
  if (u->split && !u->vector) TRI_TRY(copy_side(u, &u->sides.rows, rows, u->rows, false));
  TRI_KERNEL_CALL(u->run->queue, adafactor_direction, u->call->type, &u->options, u->run->values,
                  u->vector  ? NULL
                  : u->split ? u->rows
                             : rows,
                  u->split ? u->columns : columns, u->sums, u->run->gradient);
  return TRI_OK;
}

static tri_status adafactor_update(const tri_update_run *run, const tri_update_call *call) {
  const adafactor u = adafactor_of(run, call);
  TRI_TRY(find_means(&u));
  TRI_TRY(move_averages(&u));
  TRI_TRY(add_up_squares(&u, run->value, &u.sums->parameter));
  TRI_TRY(find_direction(&u));
  TRI_TRY(add_up_squares(&u, run->gradient, &u.sums->direction));
  if (u.split) {
    TRI_TRY(run->collectives->all_reduce(run->ranks, call->tensor.placement.parts, TRI_FP64, 2, &u.sums->parameter));
  }
  TRI_KERNEL_CALL(run->queue, adafactor_step, call->type, &u.options, run->values, u.sums, run->gradient, run->value,
                  run->narrow);
  return TRI_OK;
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* The gradient is read three times more and written once, the parameter read once more. */
static int adafactor_costs(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]) {
  const sides s = sides_of(&call->tensor);
  const double wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  out[0] = (tri_cost){.bytes = 5.0 * wide * (double)call->count};
  if (tri_matrix_ranks(&call->tensor, &call->seat.shape) == 1) return 1;
  out[0].exchanges[0] = (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_REDUCE,
                                            .domain = call->tensor.placement.parts,
                                            .bytes = wide * (double)(whole(&s.rows) + whole(&s.columns))};
  return 1;
}

/* In the measure of those of elements (schedule/cut_between.c). */
static double adafactor_work(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  const double of_an_element = 1000;
  (void)settings;
  return of_an_element * (double)tri_parameter_global_count(tensor) / (double)tri_parameter_num_tensors(tensor);
}

const tri_optimizer tri_optimizer_adafactor = {
    .name = "adafactor",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_MATRIX,
    .num_states = 3,
    .states = {[ROWS] = {.suffix = ".row_var", .shape = rows_shape},
               [COLUMNS] = {.suffix = ".col_var", .shape = columns_shape},
               [ALL] = {.suffix = ".variance", .shape = all_shape}},
    .workspace = adafactor_workspace,
    .update = adafactor_update,
    .costs = adafactor_costs,
    .work = adafactor_work,
};
