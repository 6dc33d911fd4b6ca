/* Adafactor (Shazeer and Stern 2018), as torch.optim.Adafactor: it keeps the means of a matrix's squared gradient along
 * rows and along columns, and its learning rate is relative to the size of the parameter. For a vector it keeps the
 * mean square of each element.
 *
 * A tensor is one matrix as it is on disk: GPT-2's joined queries, keys and values are one matrix, and so are Phi-3's,
 * which are three parameters here (tri_update_call.parts). Ranks that have shards of it add up their parts of the means
 * and of the sums of squares; each of these ranks keeps the means of the whole tensor, in the order on disk. */
#include "device/kernels.h"
#include "optimizers/pieces.h"
#include "optimizers/run.h"

#include <float.h>
#include <math.h>

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_adafactor_settings, beta2_decay, TRI_CONFIG_DOUBLE), .fallback = "-0.8",
     .range = {.low = -100, .high = 0}, .help = "a new square weighs the number of the update to this power"},
    {TRI_CONFIG_KEY(tri_adafactor_settings, eps, TRI_CONFIG_PAIR), .fallback = "[0.0, 1.0e-3]",
     .range = {.low = 0, .high = TRI_CONFIG_MOST},
     .help = "the least root of a mean of squares (0: the precision of its type), and the least size of a parameter"},
    {TRI_CONFIG_KEY(tri_adafactor_settings, d, TRI_CONFIG_DOUBLE), .fallback = "1.0",
     .range = {.low = 1, .high = TRI_CONFIG_MOST},
     .help = "the largest root mean square of a step before it is multiplied by the rate"},
};
const tri_config_table tri_adafactor_keys = TRI_CONFIG_TABLE("run file", keys);

/* ---- states ------------------------------------------------------------------------------------------------------ */

enum { ROWS, COLUMNS, ALL };

static bool is_vector(const tri_parameter *tensor) { return tensor->num_dims < 2; }

/* Returns the shape of state ROWS. The first part of a tensor on disk keeps all states of the whole tensor, and the
 * other parts none. */
static tri_state_shape rows_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  if (is_vector(tensor) || tri_parameter_continues(tensor)) return (tri_state_shape){0};
  return (tri_state_shape){2, {tri_parameter_on_disk(tensor).shape[0], 1}};
}

static tri_state_shape columns_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  if (is_vector(tensor) || tri_parameter_continues(tensor)) return (tri_state_shape){0};
  return (tri_state_shape){2, {1, tensor->shape[1]}};
}

static tri_state_shape all_shape(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  (void)settings;
  if (!is_vector(tensor) || tri_parameter_continues(tensor)) return (tri_state_shape){0};
  return (tri_state_shape){1, {tri_parameter_on_disk(tensor).shape[0]}};
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static const tri_parameter *part_of(const tri_update_call *call, int64_t i) {
  return call->parts == NULL ? &call->tensor : &call->parts[i];
}

/* One side of a tensor. here: its length on this rank, summed over all parts; whole: its length on disk. A vector is
 * one row. */
typedef struct side {
  int dim; /* dimension of the tensor; -1: the one row of a vector */
  int64_t here, whole;
} side;

typedef struct sides {
  side rows, columns;
} sides;

static side side_of(const tri_update_call *call, int dim) {
  side s = {dim, 0, tri_parameter_on_disk(&call->tensor).shape[dim]};
  if (dim == 1) s.here = call->tensor.local[1];
  for (int64_t p = 0; dim == 0 && p < call->num_parts; p++) s.here += part_of(call, p)->local[0];
  return s;
}

static sides sides_of(const tri_update_call *call) {
  if (is_vector(&call->tensor)) return (sides){{-1, 1, 1}, side_of(call, 0)};
  return (sides){side_of(call, 0), side_of(call, 1)};
}

/* Offsets in the workspace. */
typedef struct scratch {
  size_t means;         /* means of the whole tensor's rows, then columns */
  size_t rows, columns; /* means of this rank's rows and columns */
  size_t partial;       /* means of the columns of one part */
  size_t sums;
  size_t bytes;
} scratch;

static scratch lay_out(const tri_update_call *call) {
  const sides s = sides_of(call);
  const size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type));
  const int64_t rows = s.rows.here > call->num_parts ? s.rows.here : call->num_parts;
  size_t end = 0;
  scratch at = {0};
  at.means = tri_pieces_reserve(&end, (size_t)(s.rows.whole + s.columns.whole) * wide);
  at.rows = tri_pieces_reserve(&end, (size_t)rows * wide);
  at.columns = tri_pieces_reserve(&end, (size_t)s.columns.here * wide);
  at.partial = tri_pieces_reserve(&end, call->num_parts > 1 ? (size_t)s.columns.here * wide : 0);
  at.sums = tri_pieces_reserve(&end, sizeof(tri_adafactor_sums));
  at.bytes = end;
  return at;
}

/* Returns whether the call's tensor is a part after the first, which is updated by the call of the first part. */
static bool is_updated_before(const tri_update_call *call) { return call->num_parts == 0; }

static tri_status adafactor_workspace(const tri_update_call *call, const tri_device_description *device,
                                      size_t *bytes) {
  (void)device;
  *bytes = is_updated_before(call) ? 0 : lay_out(call).bytes;
  return TRI_OK;
}

/* A call in progress. All arrays are wide. */
typedef struct adafactor {
  const tri_update_run *run;
  const tri_update_call *call;
  sides sides;
  size_t wide; /* bytes of an element */
  bool vector;
  bool split;  /* whether ranks have different shards of the tensor */
  bool mapped; /* whether this rank's shard is not the whole tensor, or has its rows in another order than on disk */
  char *row_means, *column_means, *rows, *columns, *partial;
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
                 .sides = sides_of(call),
                 .wide = tri_dtype_bytes(wide),
                 .vector = is_vector(&call->tensor),
                 .split = tri_matrix_ranks(&call->tensor, &call->position.shape) > 1,
                 .row_means = memory + at.means,
                 .rows = memory + at.rows,
                 .columns = memory + at.columns,
                 .partial = memory + at.partial,
                 .sums = (tri_adafactor_sums *)(void *)(memory + at.sums)};
  const sides *s = &u.sides;
  u.mapped = u.split || call->num_parts > 1;
  u.column_means = u.row_means + (size_t)s->rows.whole * u.wide;
  u.options = (tri_adafactor){.rows = s->rows.here,
                              .columns = s->columns.here,
                              .all_rows = (double)s->rows.whole,
                              .all_elements = (double)s->rows.whole * (double)s->columns.whole,
                              .eps = {settings->eps[0] > 0 ? settings->eps[0] : precision_of(wide), settings->eps[1]},
                              .d = settings->d,
                              .weight_decay = call->weight_decay,
                              .lr_scale = call->lr_scale};
  return u;
}

/* Returns whether this rank leaves its shard of `part` out of the sums, because another rank has the same shard and
 * adds it. */
static bool is_copy(const adafactor *u, const tri_parameter *part) {
  const tri_mesh_position *position = &u->call->position;
  const int64_t ranks = tri_matrix_ranks(part, &position->shape);
  const int64_t rank = tri_domain_rank(&position->shape, &position->place, part->placement.parts);
  return u->split && tri_matrix_is_copy(part, ranks, rank);
}

/* ---- copies between this rank's shard and the whole -------------------------------------------------------------- */

/* Copies `rows` ranges of `width` elements from of_here to of_whole if `into_whole` is true, else from of_whole to
 * of_here. `here` and `whole`: distance of two ranges in of_here and in of_whole, in elements. */
static tri_status copy_ranges(const adafactor *u, int64_t rows, int64_t width, int64_t here, int64_t whole,
                              char *of_here, char *of_whole, bool into_whole) {
  const tri_dtype wide = tri_dtype_wide(u->call->type);
  const tri_row_copy copy = {.rows = tri_all_rows(rows),
                             .width = width,
                             .from_type = wide,
                             .to_type = wide,
                             .from_stride = into_whole ? here : whole,
                             .to_stride = into_whole ? whole : here};
  TRI_KERNEL_CALL(u->run->queue, copy_rows, &copy, NULL, into_whole ? of_here : of_whole, NULL,
                  into_whole ? of_whole : of_here);
  return TRI_OK;
}

/* The rows of a part, as `count` ranges of `length` rows that are adjacent on disk. Heads that are adjacent on disk are
 * one range if the rank has all of them. row_of_run returns the first row of a range in the tensor on disk. */
typedef struct row_runs {
  const tri_parameter *part;
  int64_t length, count, each; /* each: number of ranges of tri_parameter_run in one range */
} row_runs;

static row_runs row_runs_of(const tri_parameter *part) {
  /* A matrix that is split by columns has all rows of the tensor on disk, in its order. */
  if (part->split.dim == 1) return (row_runs){part, part->local[0], part->local[0] > 0 ? 1 : 0, 1};
  const int64_t row = part->local[1], run = row > 0 ? tri_parameter_run_length(part) / row : 0;
  const int64_t block = part->within.block;
  row_runs r = {part, run, run > 0 ? part->local[0] / run : 0, 1};
  if (run == 0 || block <= run || block % run != 0 || part->first_unit * run % block != 0 ||
      part->local[0] % block != 0) {
    return r;
  }
  return (row_runs){part, block, part->local[0] / block, block / run};
}

static int64_t row_of_run(const row_runs *r, int64_t i) {
  return tri_parameter_run(r->part, i * r->each) / r->part->shape[1];
}

/* Copies the rows of a part; ranges at equal distances are copied by one kernel. */
static tri_status copy_part(const adafactor *u, const tri_parameter *part, char *here, char *whole, bool into_whole) {
  const row_runs runs = row_runs_of(part);
  for (int64_t i = 0, count = 0; i < runs.count; i += count) {
    const int64_t first = row_of_run(&runs, i);
    const int64_t distance = i + 1 < runs.count ? row_of_run(&runs, i + 1) - first : runs.length;
    for (count = 1; i + count < runs.count && row_of_run(&runs, i + count) == first + count * distance;) count++;
    TRI_TRY(copy_ranges(u, count, runs.length, runs.length, distance, here + (size_t)(i * runs.length) * u->wide,
                        whole + (size_t)first * u->wide, into_whole));
  }
  return TRI_OK;
}

/* Copies columns. This rank may have some columns of each segment. */
static tri_status copy_columns(const adafactor *u, char *here, char *whole, bool into_whole) {
  const tri_parameter *of = &u->call->tensor;
  const tri_split *split = &of->split;
  if (split->dim != 1) return copy_ranges(u, 1, of->shape[1], of->shape[1], of->shape[1], here, whole, into_whole);
  const int64_t length = of->shape[1] / split->segments, unit = length / split->units;
  return copy_ranges(u, split->segments, of->num_units * unit, of->num_units * unit, length, here,
                     whole + (size_t)(of->first_unit * unit) * u->wide, into_whole);
}

/* Copies this rank's part of a side from `here` into the array `whole`, or back. Parts that another rank counts are not
 * copied into the whole. */
static tri_status copy_side(const adafactor *u, const side *s, char *here, char *whole, bool into_whole) {
  if (s->dim == 1) return copy_columns(u, here, whole, into_whole);
  for (int64_t p = 0; p < u->call->num_parts; p++) {
    const tri_parameter *part = part_of(u->call, p);
    if (!into_whole || !is_copy(u, part)) TRI_TRY(copy_part(u, part, here, whole, into_whole));
    here += (size_t)part->local[0] * u->wide;
  }
  return TRI_OK;
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* Computes the scaled sums of squares of a matrix's gradient along both sides, into u->rows and u->columns, over the
 * parts that this rank counts. *any: whether this rank counts a part. */
static tri_status square_parts(const adafactor *u, tri_matrix_squares squares, bool *any) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type, wide = tri_dtype_wide(type);
  const char *gradient = u->run->gradient;
  char *rows = u->rows;
  *any = false;
  for (int64_t p = 0; p < u->call->num_parts; p++) {
    const tri_parameter *part = part_of(u->call, p);
    squares.rows = part->local[0];
    if (!is_copy(u, part)) {
      char *columns = *any ? u->partial : u->columns;
      TRI_KERNEL_CALL(queue, matrix_squares, type, &squares, u->run->values, gradient, rows, columns);
      if (*any) TRI_KERNEL_CALL(queue, add, wide, tri_all_rows(1), squares.columns, u->columns, columns, u->columns);
      *any = true;
    }
    gradient += (size_t)part->count * u->wide;
    rows += (size_t)part->local[0] * u->wide;
  }
  return TRI_OK;
}

/* Computes means of the squared gradient along both sides, over the whole tensor. */
static tri_status find_means(const adafactor *u) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type, wide = tri_dtype_wide(type);
  const sides *s = &u->sides;
  const int64_t count = s->rows.whole + s->columns.whole;
  const tri_matrix_squares squares = {s->rows.here, s->columns.here, 1.0 / (double)s->columns.whole,
                                      1.0 / (double)s->rows.whole};
  char *rows = u->mapped ? u->rows : u->row_means, *columns = u->mapped ? u->columns : u->column_means;
  bool any = true;
  if (u->split && !u->vector) {
    TRI_TRY(square_parts(u, squares, &any));
  } else {
    TRI_KERNEL_CALL(queue, matrix_squares, type, &squares, u->run->values, u->run->gradient, rows, columns);
  }
  if (!u->mapped) return TRI_OK;
  TRI_KERNEL_CALL(queue, fill_zero, (size_t)count * u->wide, u->row_means);
  if (any && !u->vector) TRI_TRY(copy_side(u, &s->rows, u->rows, u->row_means, true));
  if (any) TRI_TRY(copy_side(u, &s->columns, u->columns, u->column_means, true));
  if (!u->split) return TRI_OK;
  return u->run->collectives->all_reduce(u->run->ranks, u->call->tensor.placement.parts, wide, count, u->row_means);
}

/* Updates the states, which are averages of the means over all updates, and computes the sum of the averages of the
 * rows. */
static tri_status move_averages(const adafactor *u) {
  void *const *states = u->run->states;
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type;
  const int64_t rows = u->sides.rows.whole, columns = u->sides.columns.whole;
  const double weight = pow((double)u->run->update, u->call->settings->adafactor.beta2_decay);
  void *of_columns = u->vector ? states[ALL] : states[COLUMNS];
  TRI_KERNEL_CALL(queue, lerp, type, columns, weight, of_columns, u->column_means, of_columns);
  if (u->vector) return TRI_OK;
  TRI_KERNEL_CALL(queue, lerp, type, rows, weight, states[ROWS], u->row_means, states[ROWS]);
  TRI_KERNEL_CALL(queue, sum, type, rows, states[ROWS], &u->sums->rows, false);
  return TRI_OK;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* Computes the sum of squares of this rank's shard, without parts that another rank counts. */
static tri_status add_up_squares(const adafactor *u, const char *in, double *out) {
  tri_matrix_squares squares = {u->options.rows, u->options.columns, 1.0, 1.0};
  int64_t rows = 0;
  if (!u->split) {
    TRI_KERNEL_CALL(u->run->queue, matrix_squares, u->call->type, &squares, NULL, in, u->rows, NULL);
    rows = squares.rows;
  }
  for (int64_t p = 0; u->split && p < u->call->num_parts; p++) {
    const tri_parameter *part = part_of(u->call, p);
    squares.rows = u->vector ? 1 : part->local[0];
    squares.columns = u->vector ? part->local[0] : part->local[1];
    if (!is_copy(u, part)) {
      char *to = u->rows + (size_t)rows * u->wide;
      TRI_KERNEL_CALL(u->run->queue, matrix_squares, u->call->type, &squares, NULL, in, to, NULL);
      rows += squares.rows;
    }
    in += (size_t)part->count * u->wide;
  }
  if (rows == 0) {
    TRI_KERNEL_CALL(u->run->queue, fill_zero, sizeof *out, out);
    return TRI_OK;
  }
  TRI_KERNEL_CALL(u->run->queue, sum, u->call->type, rows, u->rows, out, false);
  return TRI_OK;
}

/* Overwrites the gradient with the direction of the step. */
static tri_status find_direction(const adafactor *u) {
  void *const *states = u->run->states;
  char *rows = states[ROWS], *columns = u->vector ? states[ALL] : states[COLUMNS];
  if (u->mapped) TRI_TRY(copy_side(u, &u->sides.columns, u->columns, columns, false));
  if (u->mapped && !u->vector) TRI_TRY(copy_side(u, &u->sides.rows, u->rows, rows, false));
  TRI_KERNEL_CALL(u->run->queue, adafactor_direction, u->call->type, &u->options, u->run->values,
                  u->vector   ? NULL
                  : u->mapped ? u->rows
                              : rows,
                  u->mapped ? u->columns : columns, u->sums, u->run->gradient);
  return TRI_OK;
}

static tri_status adafactor_update(const tri_update_run *run, const tri_update_call *call) {
  if (is_updated_before(call)) return TRI_OK;
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

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* Sets the additional cost, and returns the number of costs, 1: the gradient is read three more times and written once,
 * the parameter is read one more time, and the means are reduced over the ranks that share the tensor. */
static int adafactor_costs(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]) {
  const sides s = sides_of(call);
  const double wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  out[0] = (tri_cost){.bytes = 5.0 * wide * (double)call->count};
  if (is_updated_before(call) || tri_matrix_ranks(&call->tensor, &call->position.shape) == 1) return 1;
  out[0].exchanges[0] = (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_REDUCE,
                                            .domain = call->tensor.placement.parts,
                                            .bytes = wide * (double)(s.rows.whole + s.columns.whole)};
  return 1;
}

/* Returns the work of a tensor, in the unit of bucket_cuts.c (ELEMENT_WORK). */
static double adafactor_work(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  const double of_an_element = 1000;
  (void)settings;
  return of_an_element * (double)tri_parameter_global_count(tensor) / (double)tri_parameter_num_tensors(tensor);
}

const tri_optimizer tri_optimizer_adafactor = {
    .name = "adafactor",
    .takes = TRI_ALL_GROUPS,
    .unit = TRI_UNIT_MATRIX,
    .joins_parts = true,
    .num_states = 3,
    .states = {[ROWS] = {.suffix = ".row_var", .shape = rows_shape},
               [COLUMNS] = {.suffix = ".col_var", .shape = columns_shape},
               [ALL] = {.suffix = ".variance", .shape = all_shape}},
    .workspace = adafactor_workspace,
    .update = adafactor_update,
    .costs = adafactor_costs,
    .work = adafactor_work,
};
