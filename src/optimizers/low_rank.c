/* GaLore and Fira. The rows of P are the first `rank` singular vectors, along the shorter side, of a gradient G [longer
 * side, shorter side]. Adam computes its step N from R = G P^T, which is small if the rank is low; the step is N P. P
 * is recomputed from the current gradient every `every` updates; the moments are kept. All matrices are transposed for
 * a parameter that is stored with the shorter side first.
 *
 * Fira adds the rest of the gradient, G - scale R P, which includes the component that P does not span. Each row of the
 * rest is scaled as Adam scaled that row of R, and the norm of the rest may grow by at most 1 % from one update to the
 * next.
 *
 * Matrices are whole, as in Muon: ranks that have shards of a matrix gather its gradient and compute the same step. */
#include "optimizers/low_rank.h"

#include "base/memory.h"
#include "optimizers/pieces.h"

#include <inttypes.h>
#include <math.h>

const tri_config_key tri_low_rank_keys[TRI_LOW_RANK_KEYS] = {
    {TRI_CONFIG_KEY(tri_low_rank_settings, rank, TRI_CONFIG_INT), .fallback = "0", .range = {.low = 0, .high = 1 << 30},
     .help = "rank of the projection, at most the matrix's shorter side; required with this optimizer"},
    {TRI_CONFIG_KEY(tri_low_rank_settings, every, TRI_CONFIG_INT), .fallback = "200",
     .range = {.low = 1, .high = 1LL << 40}, .help = "updates after which the directions are computed again"},
    {TRI_CONFIG_KEY(tri_low_rank_settings, scale, TRI_CONFIG_DOUBLE), .fallback = "0.25",
     .range = {.low = 0, .high = 1e9}, .help = "of steps within these directions"},
};

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

typedef struct sides {
  int64_t matrices, shorter, longer;
  bool turned; /* whether the rows are the shorter side, so that the matrix is [shorter, longer] in memory */
} sides;

/* Returns the number of a tensor's matrices, and their sides. The shorter side is projected; in a square matrix the
 * inputs count as the shorter side. */
static sides sides_of(const tri_parameter *tensor) {
  const tri_matrix_shape shape = tri_matrix_shape_of(tensor);
  const bool turned = shape.rows < shape.columns || (shape.rows == shape.columns && tensor->in_out);
  if (turned) return (sides){shape.matrices, shape.rows, shape.columns, true};
  return (sides){shape.matrices, shape.columns, shape.rows, false};
}

static tri_state_shape shape_of(int64_t matrices, int64_t rows, int64_t columns) {
  if (matrices == 1) return (tri_state_shape){2, {rows, columns}};
  return (tri_state_shape){3, {matrices, rows, columns}};
}

tri_state_shape tri_low_rank_projection_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor) {
  const sides s = sides_of(tensor);
  return shape_of(s.matrices, settings->rank, s.shorter);
}

tri_state_shape tri_low_rank_moment_shape(const tri_low_rank_settings *settings, const tri_parameter *tensor) {
  const sides s = sides_of(tensor);
  return s.turned ? shape_of(s.matrices, settings->rank, s.longer) : shape_of(s.matrices, s.longer, settings->rank);
}

tri_state_shape tri_low_rank_norm_shape(const tri_parameter *tensor) {
  return (tri_state_shape){1, {sides_of(tensor).matrices}};
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

tri_status tri_low_rank_check(const tri_low_rank_settings *settings, const char *name) {
  if (settings->rank > 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`optimizer.%s.rank` 0: %s projects each matrix to this rank; set it, for example %s: {rank: 128}",
                  name, name, name);
}

tri_status tri_low_rank_check_model(const tri_optimizer_settings *settings, const tri_low_rank_settings *own,
                                    const tri_optimizer *optimizer, const tri_parameter_table *table) {
  const tri_parameter *least = NULL;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    if (tri_optimizer_of(settings, entry) != optimizer) continue;
    if (least == NULL || sides_of(entry).shorter < sides_of(least).shorter) least = entry;
  }
  if (least == NULL || own->rank <= sides_of(least).shorter) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`optimizer.%s.rank` %" PRId64 " is above %" PRId64
                  ", the shorter side of %s; no matrix has more directions than that: use at most %" PRId64,
                  optimizer->name, own->rank, sides_of(least).shorter, least->name, sides_of(least).shorter);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* GEMMs of a step, all wide: into the space, R = G P^T (turned: P G), and back, N P (turned: P^T N). */
typedef struct products {
  tri_matmul into, back;
} products;

static products products_of(const sides *s, int64_t rank, tri_dtype wide) {
  const tri_matmul plain = {.a_type = wide, .b_type = wide, .c_type = wide};
  products p = {plain, plain};
  if (s->turned) {
    p.into.m = rank;
    p.into.k = p.into.lda = s->shorter;
    p.into.n = p.into.ldb = p.into.ldc = s->longer;
    p.back.a_transposed = true;
    p.back.m = p.back.lda = s->shorter;
    p.back.k = rank;
    p.back.n = p.back.ldb = p.back.ldc = s->longer;
    return p;
  }
  p.into.m = s->longer;
  p.into.k = p.into.lda = p.into.ldb = s->shorter;
  p.into.n = p.into.ldc = rank;
  p.into.b_transposed = true;
  p.back.m = s->longer;
  p.back.k = p.back.lda = rank;
  p.back.n = p.back.ldb = p.back.ldc = s->shorter;
  return p;
}

/* Results of kernels of a step that later kernels of the step read: the squared norm of the rest, and the factor of the
 * rest. */
typedef struct rest_values {
  double squares, factor;
} rest_values;

/* Offsets in the workspace. */
typedef struct scratch {
  size_t parts, whole; /* parts: gradients of all ranks, if the tensor is split; whole: one matrix, if the tensor is not
                          one matrix on one rank */
  size_t projected, adam;       /* R and N */
  size_t step, rest;            /* step inside the projection, and rest; each as large as a matrix */
  size_t adam_squares, squares; /* sums of squares of each row: adam_squares of N; squares of R, later of the rest */
  size_t values;                /* the rest_values */
  size_t of_products;
  size_t bytes;
} scratch;

static tri_status lay_out(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                          const tri_device_description *device, scratch *out) {
  const tri_parameter *tensor = &call->tensor;
  const tri_matrix_shape shape = tri_matrix_shape_of(tensor);
  const sides s = sides_of(tensor);
  const int64_t ranks = tri_matrix_ranks(tensor, &call->position.shape);
  const tri_dtype type = tri_dtype_wide(call->type);
  const size_t wide = tri_dtype_bytes(type), matrix = (size_t)(s.shorter * s.longer) * wide;
  const size_t low = (size_t)(settings->rank * s.longer) * wide, side = (size_t)s.longer * wide;
  const products p = products_of(&s, settings->rank, type);
  const tri_matmul *const all[] = {&p.into, &p.back};
  size_t end = 0, most = 0;
  *out = (scratch){0};
  out->parts = tri_pieces_reserve(&end, (size_t)tri_pieces_elements(tensor, ranks) * wide);
  out->whole = tri_pieces_reserve(&end, tri_pieces_are_one(&shape, ranks) ? 0 : matrix);
  out->projected = tri_pieces_reserve(&end, low);
  out->adam = tri_pieces_reserve(&end, low);
  out->step = tri_pieces_reserve(&end, matrix);
  out->rest = tri_pieces_reserve(&end, whole ? matrix : 0);
  out->adam_squares = tri_pieces_reserve(&end, whole ? side : 0);
  out->squares = tri_pieces_reserve(&end, whole ? side : 0);
  out->values = tri_pieces_reserve(&end, sizeof(rest_values));
  for (int i = 0; i < 2 && device != NULL; i++) {
    size_t bytes = 0;
    TRI_TRY(device->matmul_workspace(device, all[i], &bytes));
    if (bytes > most) most = bytes;
  }
  out->of_products = tri_pieces_reserve(&end, most);
  out->bytes = end;
  return TRI_OK;
}

tri_status tri_low_rank_workspace(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                                  const tri_device_description *device, size_t *bytes) {
  scratch at;
  TRI_TRY(lay_out(settings, whole, call, device, &at));
  *bytes = at.bytes;
  return TRI_OK;
}

/* ---- projection -------------------------------------------------------------------------------------------------- */

/* A call in progress, one matrix at a time. Arrays are wide. */
typedef struct low_rank {
  const tri_low_rank_settings *settings;
  bool whole;
  const tri_update_run *run;
  const tri_update_call *call;
  tri_matrix_shape shape;
  sides sides;
  products products;
  int64_t ranks, *begins; /* [ranks + 1]: offset of each rank's gradients in `parts`; NULL if there is one rank */
  scratch at;
  char *memory;
  char *gradients;                             /* gradients of all ranks' shards */
  const char *gradient;                        /* gradient of the matrix, in one piece */
  char *projection, *moment1, *moment2, *norm; /* states of the matrix */
} low_rank;

static char *of_matrix(const low_rank *u, int64_t state, int64_t matrix, int64_t elements) {
  return (char *)u->run->states[state] + (size_t)(matrix * elements) * tri_dtype_bytes(u->products.into.a_type);
}

/* Gathers the gradients of all ranks' shards. */
static tri_status gather(low_rank *u) {
  const tri_domain parts = u->call->tensor.placement.parts;
  const tri_dtype wide = u->products.into.a_type;
  u->gradients = u->run->gradient;
  if (u->ranks == 1) return TRI_OK;
  u->gradients = u->memory + u->at.parts;
  const int64_t rank = tri_domain_rank(&u->call->position.shape, &u->call->position.place, parts);
  TRI_KERNEL_CALL(u->run->queue, convert, u->call->count, wide, u->run->gradient, wide,
                  u->gradients + (size_t)u->begins[rank] * tri_dtype_bytes(wide));
  return u->run->collectives->all_gather(u->run->ranks, parts, wide, u->begins, u->gradients);
}

static tri_status open_matrix(low_rank *u, int64_t matrix) {
  const int64_t rank = u->settings->rank, low = rank * u->sides.longer;
  u->projection = of_matrix(u, TRI_LOW_RANK_PROJECTION, matrix, rank * u->sides.shorter);
  u->moment1 = of_matrix(u, TRI_LOW_RANK_MOMENT1, matrix, low);
  u->moment2 = of_matrix(u, TRI_LOW_RANK_MOMENT2, matrix, low);
  u->norm = u->whole ? of_matrix(u, TRI_LOW_RANK_NORM, matrix, 1) : NULL;
  u->gradient = u->gradients;
  if (tri_pieces_are_one(&u->shape, u->ranks)) return TRI_OK;
  u->gradient = u->memory + u->at.whole;
  return tri_pieces_join(u->run->queue, u->call, u->ranks, u->begins, u->gradients, matrix, u->memory + u->at.whole);
}

/* The gradient in host memory. raw: as downloaded; matrix: in doubles [shorter side, longer side]; vectors: its
 * singular vectors [rank, shorter side] */
typedef struct host_matrix {
  char *raw;
  double *matrix, *vectors;
} host_matrix;

static void lay_along(const low_rank *u, const host_matrix *h) {
  const sides *s = &u->sides;
  for (int64_t i = 0; i < s->shorter; i++) {
    for (int64_t j = 0; j < s->longer; j++) {
      const int64_t from = s->turned ? i * s->longer + j : j * s->shorter + i;
      h->matrix[i * s->longer + j] = tri_wide_get(u->products.into.a_type, h->raw, from);
    }
  }
}

static tri_status find_on_host(const low_rank *u, const host_matrix *h) {
  const sides *s = &u->sides;
  const tri_dtype wide = u->products.into.a_type;
  const int64_t rank = u->settings->rank;
  const size_t element = tri_dtype_bytes(wide);
  TRI_TRY(tri_queue_download_now(u->run->queue, h->raw, u->gradient, (size_t)(s->shorter * s->longer) * element));
  lay_along(u, h);
  TRI_TRY(u->run->singular_vectors(s->shorter, s->longer, h->matrix, rank, h->vectors));
  for (int64_t i = 0; i < rank * s->shorter; i++) tri_wide_set(wide, h->raw, i, h->vectors[i]);
  return tri_queue_upload_now(u->run->queue, u->projection, h->raw, (size_t)(rank * s->shorter) * element);
}

static tri_status find_space(const low_rank *u) {
  const sides *s = &u->sides;
  const size_t elements = (size_t)(s->shorter * s->longer);
  host_matrix h = {0};
  tri_status status = tri_alloc("a gradient", elements, tri_dtype_bytes(u->products.into.a_type), &h.raw);
  if (status == TRI_OK) status = tri_alloc("a gradient", elements, sizeof(double), &h.matrix);
  if (status == TRI_OK) {
    status = tri_alloc("singular vectors", (size_t)(u->settings->rank * s->shorter), sizeof(double), &h.vectors);
  }
  if (status == TRI_OK) status = find_on_host(u, &h);
  tri_free(h.vectors);
  tri_free(h.matrix);
  tri_free(h.raw);
  return status;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

static tri_status project_back(const low_rank *u, const char *low, char *out) {
  char *workspace = u->memory + u->at.of_products;
  const char *a = u->sides.turned ? u->projection : low, *b = u->sides.turned ? low : u->projection;
  TRI_KERNEL_CALL(u->run->queue, matmul, &u->products.back, a, b, NULL, out, workspace);
  return TRI_OK;
}

/* Computes R and N, and the step inside the projection. */
static tri_status find_step(const low_rank *u) {
  const char *a = u->sides.turned ? u->projection : u->gradient, *b = u->sides.turned ? u->gradient : u->projection;
  char *projected = u->memory + u->at.projected, *adam = u->memory + u->at.adam;
  const tri_adamw options = tri_update_adamw(u->call);
  TRI_KERNEL_CALL(u->run->queue, matmul, &u->products.into, a, b, NULL, projected, u->memory + u->at.of_products);
  TRI_KERNEL_CALL(u->run->queue, low_rank_adam, u->call->type, u->settings->rank * u->sides.longer, &options,
                  u->run->values, projected, u->moment1, u->moment2, adam);
  return project_back(u, adam, u->memory + u->at.step);
}

/* Computes the sum of squares for each index of the longer side. */
static tri_status add_up_squares(const low_rank *u, const tri_step_values *values, const char *low, char *out) {
  const bool turned = u->sides.turned;
  const int64_t longer = u->sides.longer, rank = u->settings->rank;
  const tri_matrix_squares squares = {turned ? rank : longer, turned ? longer : rank, 1.0, 1.0};
  TRI_KERNEL_CALL(u->run->queue, matrix_squares, u->call->type, &squares, values, low, turned ? NULL : out,
                  turned ? out : NULL);
  return TRI_OK;
}

/* Computes the component outside of the projection, and its factor. */
static tri_status find_rest(const low_rank *u) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type;
  char *of_adam = u->memory + u->at.adam_squares, *squares = u->memory + u->at.squares;
  char *rest = u->memory + u->at.rest, *projected = u->memory + u->at.projected;
  rest_values *rest_of = (rest_values *)(void *)(u->memory + u->at.values);
  const tri_low_rank_rest options = {u->shape.rows, u->shape.columns, !u->sides.turned, u->settings->scale};
  const tri_matrix_squares all = {u->shape.rows, u->shape.columns, 1.0, 1.0};
  TRI_TRY(add_up_squares(u, NULL, u->memory + u->at.adam, of_adam));
  TRI_TRY(add_up_squares(u, u->run->values, projected, squares));
  TRI_TRY(project_back(u, projected, rest));
  TRI_KERNEL_CALL(queue, low_rank_rest, type, &options, u->run->values, u->gradient, of_adam, squares, rest);
  TRI_KERNEL_CALL(queue, matrix_squares, type, &all, NULL, rest, squares, NULL);
  TRI_KERNEL_CALL(queue, sum, type, u->shape.rows, squares, &rest_of->squares, false);
  TRI_KERNEL_CALL(queue, low_rank_growth, type, u->run->values, &rest_of->squares, u->norm, &rest_of->factor);
  return TRI_OK;
}

/* Updates this rank's piece of the matrix. */
static tri_status update_piece(const low_rank *u, int64_t matrix) {
  const tri_update_call *call = u->call;
  const tri_matrix_piece piece = tri_matrix_piece_of(&call->tensor, matrix);
  const size_t wide = tri_dtype_bytes(u->products.into.a_type), at = (size_t)piece.at;
  const size_t from = (size_t)(piece.row * u->shape.columns + piece.column) * wide;
  const rest_values *rest_of = (const rest_values *)(const void *)(u->memory + u->at.values);
  const tri_low_rank_step step = {.rows = piece.rows,
                                  .columns = piece.columns,
                                  .parameter_row = piece.row_elements,
                                  .x_row = u->shape.columns,
                                  .beta1 = call->settings->betas[0],
                                  .beta2 = call->settings->betas[1],
                                  .weight_decay = call->weight_decay,
                                  .lr_scale = call->lr_scale,
                                  .scale = u->settings->scale};
  char *narrow = u->run->narrow == NULL ? NULL : (char *)u->run->narrow + at * tri_dtype_bytes(call->type);
  TRI_KERNEL_CALL(u->run->queue, low_rank_step, call->type, &step, u->run->values, u->memory + u->at.step + from,
                  u->whole ? u->memory + u->at.rest + from : NULL, u->whole ? &rest_of->factor : NULL,
                  (char *)u->run->value + at * wide, narrow);
  return TRI_OK;
}

static tri_status make_steps(low_rank *u) {
  TRI_TRY(gather(u));
  for (int64_t matrix = 0; matrix < u->sides.matrices; matrix++) {
    TRI_TRY(open_matrix(u, matrix));
    if ((u->run->update - 1) % u->settings->every == 0) TRI_TRY(find_space(u));
    TRI_TRY(find_step(u));
    if (u->whole) TRI_TRY(find_rest(u));
    TRI_TRY(update_piece(u, matrix));
  }
  return TRI_OK;
}

tri_status tri_low_rank_update(const tri_low_rank_settings *settings, bool whole, const tri_update_run *run,
                               const tri_update_call *call) {
  low_rank u = {.settings = settings,
                .whole = whole,
                .run = run,
                .call = call,
                .shape = tri_matrix_shape_of(&call->tensor),
                .sides = sides_of(&call->tensor),
                .ranks = tri_matrix_ranks(&call->tensor, &call->position.shape),
                .memory = run->workspace};
  u.products = products_of(&u.sides, settings->rank, tri_dtype_wide(call->type));
  TRI_TRY(lay_out(settings, whole, call, NULL, &u.at));
  TRI_TRY(tri_pieces_begins(&call->tensor, u.ranks, &u.begins));
  const tri_status status = make_steps(&u);
  tri_free(u.begins);
  return status;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

int tri_low_rank_costs(const tri_low_rank_settings *settings, bool whole, const tri_update_call *call,
                       tri_cost out[TRI_OPTIMIZER_COSTS]) {
  const sides s = sides_of(&call->tensor);
  const tri_matrix_shape shape = tri_matrix_shape_of(&call->tensor);
  const int64_t ranks = tri_matrix_ranks(&call->tensor, &call->position.shape);
  const tri_dtype type = tri_dtype_wide(call->type);
  const products p = products_of(&s, settings->rank, type);
  const double matrices = (double)s.matrices, wide = (double)tri_dtype_bytes(type);
  const double all = matrices * (double)(s.shorter * s.longer), low = matrices * (double)(settings->rank * s.longer);
  const bool copied = !tri_pieces_are_one(&shape, ranks);
  out[0] = tri_pieces_gemm_cost(&p.into, matrices, s.turned ? TRI_GEMM_PLAIN : TRI_GEMM_TRANSPOSED);
  out[1] = tri_pieces_gemm_cost(&p.back, matrices * (whole ? 2 : 1), TRI_GEMM_PLAIN);
  /* Bytes to compute N from R, and the step; for Fira, to write the rest, and to read it for its norm and again for the
   * step; and to copy pieces into one matrix. */
  out[2] =
      (tri_cost){.bytes = wide * (2.0 * low + all + (whole ? 5.0 * all + 2.0 * low : 0) + (copied ? 2.0 * all : 0))};
  if (ranks > 1) {
    out[2].exchanges[0] = (tri_cost_exchange){
        .collective = TRI_COLLECTIVE_ALL_GATHER, .domain = call->tensor.placement.parts, .bytes = all * wide};
  }
  return 3;
}

/* Counts two GEMMs, the work per element in the unit of the other optimizers (schedule/bucket_cuts.c), and the singular
 * vectors. These cost most if `every` is small: the host multiplies the matrix by its transpose and decomposes the
 * product. */
double tri_low_rank_work(const tri_low_rank_settings *settings, const tri_parameter *tensor) {
  const sides s = sides_of(tensor);
  const double of_an_element = 1000;
  const double m = (double)s.shorter, n = (double)s.longer, r = (double)settings->rank;
  const double space = (m * m * n + 4.0 * m * m * m) / (double)settings->every;
  return (double)s.matrices * (4.0 * m * n * r + of_an_element * m * n + space);
}
