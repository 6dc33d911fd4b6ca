/* Measures element-wise work as operations and the engine call it: on rows of a common width, with several sets of
 * operands in turn. */
#include "device/exact_sum.h"
#include "device/kernels.h"
#include "engine/measure_internal.h"
#include "model/parameters.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1024, VOCABULARY = 32768, HEAD_DIM = 64 };
/* Experts of a layer, and experts chosen for a token. */
enum { EXPERTS = 128, CHOSEN = 8 };

/* The operands of a measurement: sets of arrays, each array with room for `elements` elements of the wide type, and
 * small arrays that all sets share. */
typedef struct elements {
  tri_measure_elements of;
  char *sets;
  size_t array_bytes;
  int64_t num_arrays, num_sets, rows, width;
  char *weights;            /* WIDTH weights, followed by a bias [WIDTH] */
  char *statistics[3];      /* statistics of each row, such as mean and rstd [rows] */
  int32_t *ids, *positions; /* ids of all rows [num_ids]; position of each row [rows] */
  int64_t num_ids;
  float *label_weights; /* loss weight of the label of each row [rows], all 0 */
  char *table;          /* rows of an embedding, or angles of RoPE [WIDTH, WIDTH] */
  tri_step_values *values;
  double *sum;
  tri_exact_sum *exact;
} elements;

/* The properties of a kind of work. */
typedef struct form {
  int64_t arrays, width; /* arrays in a set; elements of a row */
  bool spoils; /* whether outputs may be NaN (those of an update with random moments), so that the pool is filled again
                */
  int64_t ids; /* ids for each row: 1 for its token, or one for each of its experts */
} form;

static form form_of(tri_work work) {
  switch (work) {
    case TRI_WORK_EMBEDDING:
    case TRI_WORK_ROPE:
    case TRI_WORK_LINEAR:
    case TRI_WORK_ZERO:
    case TRI_WORK_SQUARES: return (form){1, WIDTH, false, 1};
    case TRI_WORK_COPY:
    case TRI_WORK_PACK:
    case TRI_WORK_ADD_TO: return (form){2, WIDTH, false, 1};
    case TRI_WORK_CROSS_ENTROPY: return (form){3, VOCABULARY, false, 1};
    case TRI_WORK_ADD:
    case TRI_WORK_LAYER_NORM:
    case TRI_WORK_RMS_NORM: return (form){3, WIDTH, false, 1};
    case TRI_WORK_GELU:
    case TRI_WORK_SWIGLU:
    case TRI_WORK_WEIGHTED_SWIGLU: return (form){5, WIDTH, false, 1};
    case TRI_WORK_ROUTE: return (form){4, EXPERTS, false, CHOSEN};
    case TRI_WORK_DISPATCH: return (form){3, 1, false, 1};
    case TRI_WORK_COMBINE: return (form){2, WIDTH, false, 1};
    case TRI_WORK_UPDATE: return (form){5, WIDTH, true, 1};
  }
  return (form){5, WIDTH, true, 1};
}

static char *array(const tri_measure *m, const elements *e, int which) {
  return e->sets + (size_t)((m->turn % e->num_sets) * e->num_arrays + which) * e->array_bytes;
}

static tri_norm norm_of(const tri_measure *m, const elements *e) {
  return tri_norm_of_rows(m->type, tri_all_rows(e->rows), e->width, 1e-5);
}

static tri_status run_norm(const tri_measure *m, const elements *e, const tri_norm *norm) {
  tri_queue *queue = m->device->queue;
  char *x = array(m, e, 0), *y = array(m, e, 1), *gradient = array(m, e, 2);
  char *mean = e->statistics[0], *rstd = e->statistics[1], *bias = e->weights + (size_t)WIDTH * sizeof(double);
  bool layer = e->of.work == TRI_WORK_LAYER_NORM;
  switch (e->of.pass) {
    case TRI_PASS_FORWARD:
      if (layer) TRI_KERNEL_CALL(queue, layer_norm_forward, norm, x, NULL, NULL, e->weights, bias, y, mean, rstd);
      if (!layer) TRI_KERNEL_CALL(queue, rms_norm_forward, norm, x, NULL, NULL, e->weights, y, rstd);
      break;
    case TRI_PASS_BACKWARD_INPUT:
      if (layer) {
        TRI_KERNEL_CALL(queue, layer_norm_backward_input, norm, y, x, e->weights, mean, rstd, gradient, true);
      } else {
        TRI_KERNEL_CALL(queue, rms_norm_backward_input, norm, y, x, e->weights, rstd, gradient, true);
      }
      break;
    case TRI_PASS_BACKWARD_WEIGHT:
      if (layer) TRI_KERNEL_CALL(queue, layer_norm_backward_weight, norm, y, x, mean, rstd, e->weights, bias, true);
      if (!layer) TRI_KERNEL_CALL(queue, rms_norm_backward_weight, norm, y, x, rstd, e->weights, true);
      break;
  }
  return TRI_OK;
}

static tri_status run_activation(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_rows rows = tri_all_rows(e->rows);
  char *x = array(m, e, 0), *y = array(m, e, 2), *gradient = array(m, e, 3); /* x of SwiGLU is two arrays long */
  bool forward = e->of.pass == TRI_PASS_FORWARD;
  if (e->of.work == TRI_WORK_GELU) {
    if (forward) TRI_KERNEL_CALL(queue, activation_forward, m->type, TRI_ACTIVATION_GELU_TANH, rows, e->width, x, y);
    if (!forward)
      TRI_KERNEL_CALL(queue, activation_backward, m->type, TRI_ACTIVATION_GELU_TANH, rows, e->width, x, y, gradient);
  } else {
    if (forward) TRI_KERNEL_CALL(queue, gated_forward, m->type, TRI_ACTIVATION_SILU, rows, e->width, x, y);
    if (!forward) TRI_KERNEL_CALL(queue, gated_backward, m->type, TRI_ACTIVATION_SILU, rows, e->width, x, y, gradient);
  }
  return TRI_OK;
}

static tri_status run_weighted(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_rows rows = tri_all_rows(e->rows);
  char *x = array(m, e, 0), *y = array(m, e, 2),
       *gradient = array(m, e, 3); /* x and its gradient are two arrays long */
  if (e->of.pass == TRI_PASS_FORWARD) {
    TRI_KERNEL_CALL(queue, weighted_gated_forward, m->type, TRI_ACTIVATION_SILU, rows, e->width, x, e->statistics[0],
                    y);
  } else {
    TRI_KERNEL_CALL(queue, weighted_gated_backward, m->type, TRI_ACTIVATION_SILU, rows, e->width, x, e->statistics[0],
                    y, gradient, e->statistics[1]);
  }
  return TRI_OK;
}

/* Routes with a softmax over all experts, the usual router. */
static tri_status run_route(const tri_measure *m, const elements *e) {
  static const tri_router router = {.experts = EXPERTS,
                                    .chosen = CHOSEN,
                                    .groups = 1,
                                    .kept_groups = 1,
                                    .best_of_group = 1,
                                    .normalised = true,
                                    .scale = 1};
  tri_queue *queue = m->device->queue;
  const tri_rows rows = tri_all_rows(e->rows);
  char *logits = array(m, e, 0), *weights = array(m, e, 2);
  /* The gradient of the weights is stored after them; both are far fewer than logits. */
  char *gradient = weights + e->array_bytes / 2;
  if (e->of.pass == TRI_PASS_FORWARD) {
    TRI_KERNEL_CALL(queue, router_forward, m->type, rows, &router, NULL, logits, NULL,
                    (int32_t *)(void *)array(m, e, 3), weights);
  } else {
    TRI_KERNEL_CALL(queue, router_backward, m->type, rows, &router, logits, e->ids, weights, gradient, NULL, 0, e->rows,
                    0, e->values, array(m, e, 1));
  }
  return TRI_OK;
}

/* Groups rows by their experts, or adds the rows of each token. */
static tri_status run_rows(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_rows rows = tri_all_rows(e->rows / CHOSEN);
  int32_t *first = (int32_t *)(void *)array(m, e, 0), *second = (int32_t *)(void *)array(m, e, 1);
  if (e->of.work == TRI_WORK_DISPATCH) {
    TRI_KERNEL_CALL(queue, group_rows, rows, CHOSEN, EXPERTS, e->ids, (int32_t *)(void *)e->weights, first, second,
                    (int32_t *)(void *)array(m, e, 2));
  } else {
    TRI_KERNEL_CALL(queue, sum_rows, m->type, rows, CHOSEN, e->width, e->ids, array(m, e, 0), array(m, e, 1), false);
  }
  return TRI_OK;
}

static tri_status run_embedding(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_rows rows = tri_all_rows(e->rows);
  if (e->of.pass == TRI_PASS_FORWARD) {
    TRI_KERNEL_CALL(queue, embedding_forward, m->type, rows, e->width, e->ids, 0, WIDTH, tri_dtype_wide(m->type),
                    e->table, e->positions, NULL, array(m, e, 0));
  } else {
    TRI_KERNEL_CALL(queue, embedding_backward, m->type, rows, e->width, e->ids, 0, WIDTH, array(m, e, 0), e->table);
  }
  return TRI_OK;
}

/* Does all work of a loss on logits between its GEMMs. */
static tri_status run_loss(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  char *logits = array(m, e, 0), *maximum = e->statistics[0], *sum = e->statistics[1], *label = e->statistics[2];
  const int64_t wide = (int64_t)tri_dtype_bytes(tri_dtype_wide(m->type)), element = (int64_t)tri_dtype_bytes(m->type);
  TRI_KERNEL_CALL(queue, softmax_statistics, m->type, e->rows, e->width, e->width, logits, e->ids, 0, maximum, sum,
                  label);
  TRI_KERNEL_CALL(queue, softmax_gradient, m->type, e->rows, e->width, e->width, (tri_logit_form){1, 0}, logits, e->ids,
                  e->label_weights, NULL, 0, e->values, maximum, sum, e->width * wide / element, array(m, e, 2));
  return TRI_OK;
}

static tri_status run_update(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_adamw adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1};
  bool narrows = m->device->description.packs_plain && tri_dtype_wide(m->type) != m->type;
  TRI_KERNEL_CALL(queue, adamw, m->type, e->of.elements, &adamw, e->values, array(m, e, 0), array(m, e, 1),
                  array(m, e, 2), array(m, e, 3), narrows ? array(m, e, 4) : NULL);
  return TRI_OK;
}

/* Runs work on flat arrays. */
static tri_status run_flat(const tri_measure *m, const elements *e) {
  tri_queue *queue = m->device->queue;
  const tri_dtype wide = tri_dtype_wide(m->type);
  const int64_t n = e->of.elements;
  char *first = array(m, e, 0), *second = array(m, e, 1), *third = array(m, e, 2);
  switch (e->of.work) {
    case TRI_WORK_ADD: TRI_KERNEL_CALL(queue, add, m->type, tri_all_rows(1), n, first, second, third); break;
    case TRI_WORK_ADD_TO: TRI_KERNEL_CALL(queue, add, wide, tri_all_rows(1), n, first, second, first); break;
    case TRI_WORK_COPY: TRI_KERNEL_CALL(queue, convert, n, wide, first, wide, second); break;
    case TRI_WORK_PACK: TRI_KERNEL_CALL(queue, convert, n, wide, first, m->type, second); break;
    case TRI_WORK_ZERO: TRI_KERNEL_CALL(queue, fill_zero, (size_t)n * tri_dtype_bytes(wide), first); break;
    case TRI_WORK_SQUARES:
      TRI_KERNEL_CALL(queue, block_squares, m->type, n, TRI_BLOCK_ELEMENTS, first, e->exact);
      break;
    case TRI_WORK_UPDATE: return run_update(m, e);
    case TRI_WORK_LAYER_NORM:
    case TRI_WORK_RMS_NORM:
    case TRI_WORK_GELU:
    case TRI_WORK_SWIGLU:
    case TRI_WORK_WEIGHTED_SWIGLU:
    case TRI_WORK_ROUTE:
    case TRI_WORK_DISPATCH:
    case TRI_WORK_COMBINE:
    case TRI_WORK_EMBEDDING:
    case TRI_WORK_ROPE:
    case TRI_WORK_LINEAR:
    case TRI_WORK_CROSS_ENTROPY: break;
  }
  return TRI_OK;
}

static tri_status run_elements(tri_measure *m, const void *what) {
  const elements *e = what;
  tri_queue *queue = m->device->queue;
  const tri_norm norm = norm_of(m, e);
  switch (e->of.work) {
    case TRI_WORK_LAYER_NORM:
    case TRI_WORK_RMS_NORM: return run_norm(m, e, &norm);
    case TRI_WORK_GELU:
    case TRI_WORK_SWIGLU: return run_activation(m, e);
    case TRI_WORK_WEIGHTED_SWIGLU: return run_weighted(m, e);
    case TRI_WORK_ROUTE: return run_route(m, e);
    case TRI_WORK_DISPATCH:
    case TRI_WORK_COMBINE: return run_rows(m, e);
    case TRI_WORK_EMBEDDING: return run_embedding(m, e);
    case TRI_WORK_CROSS_ENTROPY: return run_loss(m, e);
    case TRI_WORK_ROPE:
      TRI_KERNEL_CALL(queue, rope, m->type, tri_all_rows(e->rows), e->width, e->width / HEAD_DIM, HEAD_DIM, HEAD_DIM,
                      e->positions, e->table, e->table, false, array(m, e, 0));
      return TRI_OK;
    case TRI_WORK_LINEAR:
      TRI_KERNEL_CALL(queue, column_sum, m->type, tri_all_rows(e->rows), e->width, e->width, array(m, e, 0), e->weights,
                      true);
      return TRI_OK;
    case TRI_WORK_ADD:
    case TRI_WORK_ADD_TO:
    case TRI_WORK_COPY:
    case TRI_WORK_PACK:
    case TRI_WORK_ZERO:
    case TRI_WORK_SQUARES:
    case TRI_WORK_UPDATE: return run_flat(m, e);
  }
  return TRI_OK;
}

/* Returns the exclusive upper bound of the ids, a power of two: ids of tokens, of experts, or of rows. */
static unsigned ids_below(const elements *e) {
  unsigned below = 1;
  if (e->of.work == TRI_WORK_DISPATCH || e->of.work == TRI_WORK_ROUTE) return EXPERTS;
  if (e->of.work != TRI_WORK_COMBINE) return WIDTH;
  while (2 * (int64_t)below <= e->rows) below *= 2;
  return below;
}

/* Uploads ids and positions of rows, and the values of a step. */
static tri_status upload_small(tri_measure *m, const elements *e) {
  enum { PIECE = 1024 };
  int32_t ids[PIECE];
  const unsigned mask = ids_below(e) - 1;
  const tri_step_values values = {.lr = 1e-4, .gradient_scale = 1, .loss_scale = 1e-3, .update = 100};
  for (int64_t at = 0; at < e->num_ids; at += PIECE) {
    const int64_t count = e->num_ids - at < PIECE ? e->num_ids - at : PIECE, rows = e->rows - at;
    for (int i = 0; i < PIECE; i++) ids[i] = (int32_t)(((unsigned)at + (unsigned)i) * 2654435761u >> 8 & mask);
    TRI_TRY(tri_queue_upload_now(m->device->queue, e->ids + at, ids, (size_t)count * sizeof ids[0]));
    if (rows <= 0) continue;
    TRI_TRY(tri_queue_upload_now(m->device->queue, e->positions + at, ids,
                                 (size_t)(rows < count ? rows : count) * sizeof ids[0]));
  }
  TRI_KERNEL_CALL(m->device->queue, fill_zero, sizeof *e->exact, e->exact);
  TRI_KERNEL_CALL(m->device->queue, fill_zero, (size_t)e->rows * sizeof(float), e->label_weights);
  return tri_queue_upload_now(m->device->queue, e->values, &values, sizeof values);
}

tri_status tri_measure_elements_s(tri_measure *m, const tri_measure_elements *of, double *seconds) {
  size_t wide = tri_dtype_bytes(tri_dtype_wide(m->type));
  const form facts = form_of(of->work);
  elements e = {.of = *of, .width = facts.width};
  char *next = m->pool;
  *seconds = 0;
  if (e.width > of->elements) return TRI_OK;
  e.num_arrays = facts.arrays;
  e.rows = of->elements / e.width;
  e.array_bytes = (size_t)of->elements * wide;
  e.weights = tri_measure_reserve(&next, 2 * (size_t)WIDTH * sizeof(double));
  for (int i = 0; i < 3; i++) e.statistics[i] = tri_measure_reserve(&next, (size_t)e.rows * wide);
  e.num_ids = e.rows * facts.ids;
  e.ids = (int32_t *)(void *)tri_measure_reserve(&next, (size_t)e.num_ids * sizeof(int32_t));
  e.positions = (int32_t *)(void *)tri_measure_reserve(&next, (size_t)e.rows * sizeof(int32_t));
  e.label_weights = (float *)(void *)tri_measure_reserve(&next, (size_t)e.rows * sizeof(float));
  e.table = tri_measure_reserve(&next, (size_t)WIDTH * WIDTH * wide);
  e.values = (tri_step_values *)(void *)tri_measure_reserve(&next, sizeof *e.values);
  e.exact = (tri_exact_sum *)(void *)tri_measure_reserve(&next, sizeof *e.exact);
  e.sets = next;
  e.num_sets = tri_measure_sets(m, next, (size_t)e.num_arrays * e.array_bytes);
  if (e.num_sets == 0) return TRI_OK;
  TRI_TRY(upload_small(m, &e));
  TRI_TRY(tri_measure_time(m, run_elements, &e, seconds));
  return facts.spoils ? tri_measure_fill(m) : TRI_OK;
}
