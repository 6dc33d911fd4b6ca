/* Muon (Jordan et al. 2024): the step of a matrix is its momentum made orthogonal, by a polynomial that drives all
 * singular values towards 1 (Newton-Schulz).
 *
 * A matrix is orthogonalised whole. If tensor ranks have shards of a matrix, each of these ranks gathers the momentum
 * of all shards and computes the whole step, so that all ranks get the same bits and no step has to be sent. Queries,
 * keys, values, gates and each expert are matrices of their own, even if they are adjacent in memory. */
#include "base/memory.h"
#include "device/exact_sum.h"
#include "device/kernels.h"
#include "optimizers/pieces.h"
#include "optimizers/run.h"

#include <math.h>

static const tri_config_word scales[] = {{"moonlight", TRI_MUON_MOONLIGHT}, {"keller", TRI_MUON_KELLER}, {NULL, 0}};

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_muon_settings, momentum, TRI_CONFIG_DOUBLE), .fallback = "0.95",
     .range = {.low = 0, .high = 1, .open_high = true}, .help = "decay of the average of gradients"},
    {TRI_CONFIG_KEY(tri_muon_settings, nesterov, TRI_CONFIG_BOOL), .fallback = "true", .help = "Nesterov's momentum"},
    {TRI_CONFIG_KEY(tri_muon_settings, scale, TRI_CONFIG_CHOICE), .words = scales, .fallback = "moonlight",
     .help = "scale of a step: moonlight is 0.2 sqrt(longer side), for AdamW's rate and decay; keller sqrt(out / in), "
             "at least 1"},
    {TRI_CONFIG_KEY(tri_muon_settings, iterations, TRI_CONFIG_INT), .fallback = "5", .range = {.low = 1, .high = 100},
     .help = "of Newton-Schulz"},
};
const tri_config_table tri_muon_keys = TRI_CONFIG_TABLE("run file", keys);

/* Factors of I, A and A A in an iteration X = (3.4445 I - 4.7750 A + 2.0315 A A) X with A = X X^T. */
static const double factors[3] = {3.4445, -4.7750, 2.0315};

static const double norm_eps = 1e-7;

/* Sides of a matrix to orthogonalise. */
typedef struct sides {
  int64_t shorter, longer;
  bool turned; /* whether the matrix is stored with the longer side first, and transposed for the iterations */
} sides;

static sides sides_of(const tri_matrix_shape *shape) {
  if (shape->rows > shape->columns) return (sides){shape->columns, shape->rows, true};
  return (sides){shape->rows, shape->columns, false};
}

static double step_scale(const tri_muon_settings *settings, const tri_parameter *tensor,
                         const tri_matrix_shape *shape) {
  const double out = (double)(tensor->in_out ? shape->columns : shape->rows);
  const double in = (double)(tensor->in_out ? shape->rows : shape->columns);
  switch (settings->scale) {
    case TRI_MUON_MOONLIGHT: return 0.2 * sqrt(out > in ? out : in);
    case TRI_MUON_KELLER: return out > in ? sqrt(out / in) : 1.0;
  }
  return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* GEMMs of an iteration, all of the activations' type. */
typedef struct products {
  tri_matmul square, fourth, next; /* A = X X^T; A A; and the polynomial times X */
} products;

static products products_of(const sides *s, tri_dtype type) {
  const int64_t m = s->shorter, n = s->longer;
  const tri_matmul plain = {.a_type = type, .b_type = type, .c_type = type};
  products p = {plain, plain, plain};
  p.square.m = p.square.n = m;
  p.square.k = p.square.lda = p.square.ldb = n;
  p.square.ldc = m;
  p.square.b_transposed = true;
  p.fourth.m = p.fourth.n = p.fourth.k = m;
  p.fourth.lda = p.fourth.ldb = p.fourth.ldc = m;
  p.next.m = p.next.k = p.next.lda = m;
  p.next.n = p.next.ldb = p.next.ldc = n;
  return p;
}

/* Offsets in the workspace. */
typedef struct scratch {
  size_t parts;       /* momentum of all ranks, if the tensor is split */
  size_t whole;       /* one matrix, unless it is in one piece already */
  size_t x, y;        /* X, and the next X */
  size_t a, b;        /* A, and A A */
  size_t sum;         /* sum of squares */
  size_t of_products; /* workspace of the GEMMs */
  size_t bytes;
} scratch;

static tri_status lay_out(const tri_update_call *call, const tri_device_description *device, scratch *out) {
  const tri_parameter *tensor = &call->tensor;
  const tri_matrix_shape shape = tri_matrix_shape_of(tensor);
  const sides s = sides_of(&shape);
  const int64_t ranks = tri_matrix_ranks(tensor, &call->position.shape);
  const size_t wide = tri_dtype_bytes(tri_dtype_wide(call->type)), element = tri_dtype_bytes(call->type);
  const size_t m = (size_t)s.shorter, n = (size_t)s.longer;
  const products p = products_of(&s, call->type);
  const tri_matmul *const all[] = {&p.square, &p.fourth, &p.next};
  size_t end = 0, most = 0;
  *out = (scratch){0};
  out->parts = tri_pieces_reserve(&end, (size_t)tri_pieces_elements(tensor, ranks) * wide);
  out->whole = tri_pieces_reserve(&end, tri_pieces_are_one(&shape, ranks) ? 0 : m * n * wide);
  out->x = tri_pieces_reserve(&end, m * n * element);
  out->y = tri_pieces_reserve(&end, m * n * element);
  out->a = tri_pieces_reserve(&end, m * m * element);
  out->b = tri_pieces_reserve(&end, m * m * element);
  out->sum = tri_pieces_reserve(&end, sizeof(tri_exact_sum));
  for (int i = 0; i < 3 && device != NULL; i++) {
    size_t bytes = 0;
    TRI_TRY(device->matmul_workspace(device, all[i], &bytes));
    if (bytes > most) most = bytes;
  }
  out->of_products = tri_pieces_reserve(&end, most);
  out->bytes = end;
  return TRI_OK;
}

static tri_status muon_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes) {
  scratch of;
  TRI_TRY(lay_out(call, device, &of));
  *bytes = of.bytes;
  return TRI_OK;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* A call in progress. */
typedef struct muon {
  const tri_update_run *run;
  const tri_update_call *call;
  tri_matrix_shape shape;
  sides sides;
  scratch at;
  char *memory;    /* the workspace */
  int64_t ranks;   /* number of ranks with pieces */
  int64_t *begins; /* [ranks + 1], offset of each rank's momentum in `parts`; NULL if there is one rank */
  char *momentum;  /* address of `parts`; with one rank, address of the gradient */
} muon;

static char *behind(const muon *u, char *array, int64_t elements) {
  return array + (size_t)elements * tri_dtype_bytes(tri_dtype_wide(u->call->type));
}

/* Computes this rank's momentum from its gradient, and gathers the momentum of all ranks. */
static tri_status find_momentum(muon *u) {
  const tri_update_run *run = u->run;
  const tri_muon_settings *settings = &u->call->settings->muon;
  const tri_momentum options = {settings->momentum, settings->nesterov};
  const tri_domain parts = u->call->tensor.placement.parts;
  const int64_t rank = tri_domain_rank(&u->call->position.shape, &u->call->position.place, parts);
  u->momentum = u->ranks > 1 ? u->memory + u->at.parts : run->gradient;
  char *own = u->ranks > 1 ? behind(u, u->momentum, u->begins[rank]) : u->momentum;
  TRI_KERNEL_CALL(run->queue, momentum, u->call->type, u->call->count, &options, run->values, run->gradient,
                  run->states[0], own);
  if (u->ranks == 1) return TRI_OK;
  return run->collectives->all_gather(run->ranks, parts, tri_dtype_wide(u->call->type), u->begins, u->momentum);
}

/* Sets *out to the momentum of one matrix, wide and in one piece. */
static tri_status find_whole(const muon *u, int64_t matrix, char **out) {
  *out = u->momentum;
  if (tri_pieces_are_one(&u->shape, u->ranks)) return TRI_OK;
  *out = u->memory + u->at.whole;
  return tri_pieces_join(u->run->queue, u->call, u->ranks, u->begins, u->momentum, matrix, *out);
}

static tri_status normalise(const muon *u, const char *whole, char *x) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type;
  tri_exact_sum *sum = (tri_exact_sum *)(void *)(u->memory + u->at.sum);
  const int64_t rows = u->shape.rows, columns = u->shape.columns;
  const tri_matrix_copy copy = {.rows = rows,
                                .columns = columns,
                                .in_row = columns,
                                .out_row = u->sides.turned ? 1 : columns,
                                .out_column = u->sides.turned ? rows : 1};
  TRI_KERNEL_CALL(queue, fill_zero, sizeof *sum, sum);
  TRI_KERNEL_CALL(queue, block_squares, type, rows * columns, TRI_BLOCK_ELEMENTS, whole, sum);
  TRI_KERNEL_CALL(queue, matrix_normalise, type, &copy, whole, sum, norm_eps, x);
  return TRI_OK;
}

/* Makes *x nearly orthogonal. May swap the memory of *x and *y. */
static tri_status orthogonalise(const muon *u, char **x, char **y) {
  tri_queue *queue = u->run->queue;
  const tri_dtype type = u->call->type;
  const products p = products_of(&u->sides, type);
  char *a = u->memory + u->at.a, *b = u->memory + u->at.b, *workspace = u->memory + u->at.of_products;
  const tri_matrix_polynomial polynomial = {u->sides.shorter, {factors[0], factors[1], factors[2]}};
  for (int64_t i = 0; i < u->call->settings->muon.iterations; i++) {
    TRI_KERNEL_CALL(queue, matmul, &p.square, *x, *x, NULL, a, workspace);
    TRI_KERNEL_CALL(queue, matmul, &p.fourth, a, a, NULL, b, workspace);
    TRI_KERNEL_CALL(queue, matrix_polynomial, type, &polynomial, a, b, b);
    TRI_KERNEL_CALL(queue, matmul, &p.next, b, *x, NULL, *y, workspace);
    char *last = *x;
    *x = *y;
    *y = last;
  }
  return TRI_OK;
}

/* Updates this rank's piece of the matrix. */
static tri_status update_piece(const muon *u, int64_t matrix, const char *x) {
  const tri_update_call *call = u->call;
  const tri_matrix_piece piece = tri_matrix_piece_of(&call->tensor, matrix);
  const size_t element = tri_dtype_bytes(call->type);
  const bool turned = u->sides.turned;
  const tri_matrix_step step = {.rows = piece.rows,
                                .columns = piece.columns,
                                .parameter_row = piece.row_elements,
                                .x_row = turned ? 1 : u->shape.columns,
                                .x_column = turned ? u->shape.rows : 1,
                                .weight_decay = call->weight_decay,
                                .lr_scale = call->lr_scale,
                                .scale = step_scale(&call->settings->muon, &call->tensor, &u->shape)};
  const char *from = x + (size_t)(piece.row * step.x_row + piece.column * step.x_column) * element;
  char *narrow = u->run->narrow == NULL ? NULL : (char *)u->run->narrow + (size_t)piece.at * element;
  TRI_KERNEL_CALL(u->run->queue, matrix_step, call->type, &step, u->run->values, from,
                  behind(u, u->run->value, piece.at), narrow);
  return TRI_OK;
}

static tri_status make_steps(muon *u) {
  TRI_TRY(find_momentum(u));
  for (int64_t matrix = 0; matrix < u->shape.matrices; matrix++) {
    char *whole = NULL, *x = u->memory + u->at.x, *y = u->memory + u->at.y;
    TRI_TRY(find_whole(u, matrix, &whole));
    TRI_TRY(normalise(u, whole, x));
    TRI_TRY(orthogonalise(u, &x, &y));
    TRI_TRY(update_piece(u, matrix, x));
  }
  return TRI_OK;
}

static tri_status muon_update(const tri_update_run *run, const tri_update_call *call) {
  muon u = {.run = run,
            .call = call,
            .shape = tri_matrix_shape_of(&call->tensor),
            .memory = run->workspace,
            .ranks = tri_matrix_ranks(&call->tensor, &call->position.shape)};
  u.sides = sides_of(&u.shape);
  TRI_TRY(lay_out(call, NULL, &u.at));
  TRI_TRY(tri_pieces_begins(&call->tensor, u.ranks, &u.begins));
  const tri_status status = make_steps(&u);
  tri_free(u.begins);
  return status;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static int muon_costs(const tri_update_call *call, tri_cost out[TRI_OPTIMIZER_COSTS]) {
  const tri_matrix_shape shape = tri_matrix_shape_of(&call->tensor);
  const sides s = sides_of(&shape);
  const products p = products_of(&s, call->type);
  const int64_t ranks = tri_matrix_ranks(&call->tensor, &call->position.shape);
  const double times = (double)(shape.matrices * call->settings->muon.iterations);
  const double all = (double)(shape.matrices * shape.rows * shape.columns);
  const double wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type)),
               element = (double)tri_dtype_bytes(call->type);
  const bool copied = !tri_pieces_are_one(&shape, ranks);
  out[0] = tri_pieces_gemm_cost(&p.square, times, TRI_GEMM_TRANSPOSED);
  out[1] = tri_pieces_gemm_cost(&p.fourth, times, TRI_GEMM_PLAIN);
  out[2] = tri_pieces_gemm_cost(&p.next, times, TRI_GEMM_PLAIN);
  /* Bytes for the norm, for X and for the step; for the polynomial of each iteration; for copies into one matrix. */
  out[3] = (tri_cost){.bytes = all * (2.0 * wide + 2.0 * element) +
                               3.0 * times * (double)s.shorter * (double)s.shorter * element +
                               (copied ? 2.0 * all * wide : 0)};
  if (ranks > 1) {
    out[3].exchanges[0] = (tri_cost_exchange){
        .collective = TRI_COLLECTIVE_ALL_GATHER, .domain = call->tensor.placement.parts, .bytes = all * wide};
  }
  return 4;
}

static double muon_work(const tri_optimizer_settings *settings, const tri_parameter *tensor) {
  const tri_matrix_shape shape = tri_matrix_shape_of(tensor);
  const sides s = sides_of(&shape);
  const double m = (double)s.shorter, n = (double)s.longer;
  return (double)(shape.matrices * settings->muon.iterations) * (4.0 * m * m * n + 2.0 * m * m * m);
}

const tri_optimizer tri_optimizer_muon = {
    .name = "muon",
    .takes = 1u << TRI_GROUP_MATRICES,
    .unit = TRI_UNIT_MATRIX,
    .num_states = 1,
    .states = {{.suffix = ".momentum_buffer", .with_sign = true}},
    .workspace = muon_workspace,
    .update = muon_update,
    .costs = muon_costs,
    .work = muon_work,
};
