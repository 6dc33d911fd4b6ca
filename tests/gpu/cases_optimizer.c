/* Optimizers, but for AdamW (cases_loss.c): element by element, of matrices, and states of 8 bits. */
#include "device/exact_sum.h"
#include "problem.h"

#include <math.h>
#include <stdint.h>

#define AT(i) ((void *)memory[i])

/* ---- element by element ------------------------------------------------------------------------------------------ */

enum { NONE = -1 };

/* Argument `values` is of the step; parameter (or y), gradient, state (and state2) are wide; narrow may be NONE. */
typedef struct elements_call {
  tri_lion lion;
  tri_sgd sgd;
  tri_adamw schedule_free;
  tri_momentum momentum;
  int64_t count;
  double weight;
  int values, parameter, gradient, state, state2, narrow, out;
} elements_call;

/* A large rate, so that a wrong step is not lost in the parameter. */
static int add_values(problem *p, double average) {
  static const int64_t updates[] = {1, 2, 10, 100000};
  const tri_step_values values = {
      .lr = 0.2, .gradient_scale = 0.5, .loss_scale = NAN, .average = average, .update = updates[draw(p->checker, 4)]};
  return add_bytes(p, "values", &values, sizeof values);
}

static void add_arrays(problem *p, elements_call *x, bool narrow) {
  x->values = add_values(p, 0.3);
  x->parameter = add_output(p, "parameter", p->wide, x->count, true);
  x->gradient = add_input(p, "gradient", p->wide, x->count, 0, 1);
  x->state = add_output(p, "state", p->wide, x->count, true);
  x->narrow = narrow ? add_output(p, "narrow", p->type, x->count, false) : NONE;
}

typedef void one_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow);

/* With the copy, too, where type is narrower than the parameter and `narrow` is given. */
static void over_counts(checker *c, tri_dtype type, bool narrow, one_case *function) {
  static const int64_t counts[] = {0, 1, 3, 4, 130, 2051, 16400, 2359296};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
    function(c, type, counts[i], (int)i, false);
    if (narrow && type != tri_dtype_wide(type)) function(c, type, counts[i], (int)i, true);
  }
}

static tri_status run_lion(const problem *p, tri_queue *queue, char *const *memory) {
  const elements_call *x = p->with;
  return KERNEL(queue, lion, p->type, x->count, &x->lion, AT(x->values), AT(x->parameter), AT(x->gradient),
                AT(x->state), x->narrow == NONE ? NULL : AT(x->narrow));
}

/* Every third element has neither a moment nor a gradient: the sign of 0 is 0. No sum is so small that rounding could
 * give it another sign. */
static void lion_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  problem p = problem_make(c, type);
  elements_call x = {.count = count, .lion = {0.9, 0.99, number % 2 == 0 ? 0.1 : 0, 0.5}};
  p.run = run_lion;
  p.with = &x;
  add_arrays(&p, &x, narrow);
  unsigned char *gradient = p.arguments[x.gradient].before, *moment = p.arguments[x.state].before;
  for (int64_t e = 0; e < count; e++) {
    const double g = number_get(p.wide, gradient, e) * 0.5, m = number_get(p.wide, moment, e);
    const double sum = x.lion.beta1 * m + (1 - x.lion.beta1) * g;
    if (e % 3 != 2 && fabs(sum) > 1e-4) continue;
    number_set(p.wide, gradient, e, 0);
    number_set(p.wide, moment, e, e % 3 == 2 ? 0 : 1);
  }
  describe(&p, "%lld elements, decay %g%s", (long long)count, x.lion.weight_decay, narrow ? ", and a copy" : "");
  check(&p);
}

void cases_lion(checker *c, tri_dtype type) { over_counts(c, type, true, lion_case); }

static tri_status run_sgd(const problem *p, tri_queue *queue, char *const *memory) {
  const elements_call *x = p->with;
  return KERNEL(queue, sgd, p->type, x->count, &x->sgd, AT(x->values), AT(x->parameter), AT(x->gradient), AT(x->state),
                x->narrow == NONE ? NULL : AT(x->narrow));
}

static void sgd_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  problem p = problem_make(c, type);
  elements_call x = {.count = count,
                     .sgd = {number % 3 == 0 ? 0 : 0.9, number % 2 == 0 ? 0.1 : 0, 0.5, number % 4 > 1}};
  p.run = run_sgd;
  p.with = &x;
  add_arrays(&p, &x, narrow);
  describe(&p, "%lld elements, decay %g%s%s", (long long)count, x.sgd.weight_decay, x.sgd.nesterov ? ", Nesterov" : "",
           narrow ? ", and a copy" : "");
  check(&p);
}

void cases_sgd(checker *c, tri_dtype type) { over_counts(c, type, true, sgd_case); }

static tri_status run_schedule_free(const problem *p, tri_queue *queue, char *const *memory) {
  const elements_call *x = p->with;
  return KERNEL(queue, schedule_free, p->type, x->count, &x->schedule_free, AT(x->values), AT(x->parameter),
                AT(x->gradient), AT(x->state), AT(x->state2), x->narrow == NONE ? NULL : AT(x->narrow));
}

static void schedule_free_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  problem p = problem_make(c, type);
  elements_call x = {.count = count, .schedule_free = {0.9, 0.95, 1e-8, number % 2 == 0 ? 0.1 : 0, 0.5}};
  p.run = run_schedule_free;
  p.with = &x;
  add_arrays(&p, &x, narrow);
  x.state2 = add_output(&p, "moment2", p.wide, count, true);
  unsigned char *moments = p.arguments[x.state2].before;
  for (int64_t e = 0; e < count; e++)
    number_set(p.wide, moments, e, number == 1 ? 0 : fabs(number_get(p.wide, moments, e)));
  describe(&p, "%lld elements, decay %g%s", (long long)count, x.schedule_free.weight_decay,
           narrow ? ", and a copy" : "");
  check(&p);
}

void cases_schedule_free(checker *c, tri_dtype type) { over_counts(c, type, true, schedule_free_case); }

/* In turn: beside both, over a, over b. */
static tri_status run_lerp(const problem *p, tri_queue *queue, char *const *memory) {
  const elements_call *x = p->with;
  return KERNEL(queue, lerp, p->type, x->count, x->weight, AT(x->parameter), AT(x->gradient), AT(x->out));
}

static void lerp_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  problem p = problem_make(c, type);
  elements_call x = {.count = count, .weight = number % 2 == 0 ? 1 - 1 / 0.9 : 0.25};
  (void)narrow;
  p.run = run_lerp;
  p.with = &x;
  x.parameter = add_input(&p, "a", p.wide, count, 0, 1);
  x.gradient = add_input(&p, "b", p.wide, count, 0, 1);
  x.out = number % 3 == 1 ? x.parameter : x.gradient;
  if (number % 3 == 0) {
    x.out = add_output(&p, "out", p.wide, count, false);
  } else {
    writes(&p, x.out, all_of(count), false);
  }
  describe(&p, "%lld elements, weight %g%s", (long long)count, x.weight, number % 3 == 0 ? "" : ", in place");
  check(&p);
}

void cases_lerp(checker *c, tri_dtype type) { over_counts(c, type, false, lerp_case); }

static tri_status run_momentum(const problem *p, tri_queue *queue, char *const *memory) {
  const elements_call *x = p->with;
  return KERNEL(queue, momentum, p->type, x->count, &x->momentum, AT(x->values), AT(x->gradient), AT(x->state),
                AT(x->out));
}

static void momentum_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  problem p = problem_make(c, type);
  elements_call x = {.count = count, .momentum = {0.95, number % 2 == 0}};
  (void)narrow;
  p.run = run_momentum;
  p.with = &x;
  x.values = add_values(&p, 0);
  x.gradient = add_input(&p, "gradient", p.wide, count, 0, 1);
  x.state = add_output(&p, "moment", p.wide, count, true);
  x.out = x.gradient;
  if (number % 3 == 0) {
    x.out = add_output(&p, "out", p.wide, count, false);
  } else {
    writes(&p, x.out, all_of(count), false);
  }
  describe(&p, "%lld elements%s%s", (long long)count, x.momentum.nesterov ? ", Nesterov" : "",
           number % 3 == 0 ? "" : ", in place");
  check(&p);
}

void cases_momentum(checker *c, tri_dtype type) { over_counts(c, type, false, momentum_case); }

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

typedef struct matrix_call {
  tri_matrix_copy copy;
  tri_matrix_polynomial polynomial;
  tri_matrix_step step;
  double eps;
  int values, squares, in, a, b, out, parameter, narrow;
} matrix_call;

/* Sizes; those of transposed ones restart in each tile. Whether it is transposed, and whether rows are longer than what
 * is used of them, follow from the number. */
static bool next_matrix(checker *c, int i, int64_t *rows, int64_t *columns, bool *transposed, int64_t *more) {
  static const int64_t fixed[][2] = {{1, 1}, {1, 9}, {7, 1}, {0, 5}, {5, 0}, {33, 65}, {64, 64}, {31, 130}, {257, 12}};
  static const int64_t large[][2] = {{768, 2304}, {601, 600}};
  const int num_fixed = sizeof fixed / sizeof fixed[0], num_large = is_quick(c) ? 0 : sizeof large / sizeof large[0];
  const int shape = i / 4;
  const int64_t drawn[2] = {draw_from(c, 1, 150), draw_from(c, 1, 150)};
  const int64_t *size = shape < num_fixed               ? fixed[shape]
                        : shape < num_fixed + num_large ? large[shape - num_fixed]
                                                        : drawn;
  *rows = size[0];
  *columns = size[1];
  *transposed = i % 2 == 1;
  *more = i % 4 < 2 ? 0 : draw_from(c, 1, 9);
  return shape < num_fixed + num_large + (is_quick(c) ? 2 : 6);
}

/* Returns the elements of an array [rows, row] in which [rows, columns] are used. */
static int64_t elements_of(int64_t rows, int64_t row) { return rows * row; }

static tri_status run_normalise(const problem *p, tri_queue *queue, char *const *memory) {
  const matrix_call *x = p->with;
  return KERNEL(queue, matrix_normalise, p->type, &x->copy, AT(x->in), AT(x->squares), x->eps, AT(x->out));
}

/* As block_squares leaves it, or with its carries passed on. Now and then not finite. */
static int add_squares(problem *p, int number) {
  tri_exact_sum sum = {0};
  for (int i = 0; i < 40; i++)
    tri_exact_sum_add(&sum, ldexp(fabs(draw_normal(p->checker)), (int)draw(p->checker, 8) - number % 3 * 20));
  if (number % 2 == 0) tri_exact_sum_normalise(&sum);
  if (number % 7 == 6) tri_exact_sum_add(&sum, number % 2 == 0 ? NAN : INFINITY);
  return add_bytes(p, "squares", &sum, sizeof sum);
}

void cases_matrix_normalise(checker *c, tri_dtype type) {
  int64_t rows, columns, more;
  bool transposed;
  for (int i = 0; next_matrix(c, i, &rows, &columns, &transposed, &more); i++) {
    problem p = problem_make(c, type);
    const int64_t out_row = (transposed ? rows : columns) + more;
    matrix_call x = {.eps = 1e-7};
    x.copy = (tri_matrix_copy){rows, columns, columns + 2 * more, transposed ? 1 : out_row, transposed ? out_row : 1};
    p.run = run_normalise;
    p.with = &x;
    x.in = add_array(&p, "in", p.wide, elements_of(rows, x.copy.in_row));
    fill(&p, x.in, matrix_of(rows, x.copy.in_row, columns), 0, 1);
    x.squares = add_squares(&p, i);
    x.out = add_array(&p, "out", type, elements_of(transposed ? columns : rows, out_row));
    writes(&p, x.out, transposed ? matrix_of(columns, out_row, rows) : matrix_of(rows, out_row, columns), false);
    p.arguments[x.out].yardstick = 1e-4; /* a norm may be large */
    describe(&p, "[%lld, %lld]%s, %lld more in a row", (long long)rows, (long long)columns,
             transposed ? " transposed" : "", (long long)more);
    check(&p);
  }
}

static tri_status run_polynomial(const problem *p, tri_queue *queue, char *const *memory) {
  const matrix_call *x = p->with;
  return KERNEL(queue, matrix_polynomial, p->type, &x->polynomial, AT(x->a), AT(x->b), AT(x->out));
}

void cases_matrix_polynomial(checker *c, tri_dtype type) {
  static const int64_t sizes[] = {0, 1, 2, 3, 8, 33, 127, 256, 768};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] - (is_quick(c) ? 1 : 0); i++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      problem p = problem_make(c, type);
      const int64_t count = sizes[i] * sizes[i];
      matrix_call x = {.polynomial = {sizes[i], {in_place == 1 ? 3.4445 : 0, -4.7750, 2.0315}}};
      p.run = run_polynomial;
      p.with = &x;
      x.a = add_input(&p, "a", type, count, 0, 1);
      x.b = add_input(&p, "b", type, count, 0, 1);
      x.out = in_place == 1 ? x.b : add_output(&p, "out", type, count, false);
      if (in_place == 1) writes(&p, x.b, all_of(count), false);
      describe(&p, "size %lld%s", (long long)sizes[i], in_place == 1 ? ", in place" : "");
      check(&p);
    }
  }
}

static tri_status run_step(const problem *p, tri_queue *queue, char *const *memory) {
  const matrix_call *x = p->with;
  return KERNEL(queue, matrix_step, p->type, &x->step, AT(x->values), AT(x->a), AT(x->parameter),
                x->narrow == NONE ? NULL : AT(x->narrow));
}

static void step_case(checker *c, tri_dtype type, const tri_matrix_step *step, bool transposed, bool narrow) {
  problem p = problem_make(c, type);
  matrix_call x = {.step = *step, .narrow = NONE};
  const region where = matrix_of(step->rows, step->parameter_row, step->columns);
  p.run = run_step;
  p.with = &x;
  x.values = add_values(&p, 0);
  x.a = add_array(&p, "x", type, transposed ? step->columns * step->x_column : step->rows * step->x_row);
  fill(&p, x.a,
       transposed ? matrix_of(step->columns, step->x_column, step->rows)
                  : matrix_of(step->rows, step->x_row, step->columns),
       0, 1);
  x.parameter = add_array(&p, "parameter", p.wide, step->rows * step->parameter_row);
  writes(&p, x.parameter, where, true);
  if (narrow) {
    x.narrow = add_array(&p, "narrow", type, step->rows * step->parameter_row);
    writes(&p, x.narrow, where, false);
  }
  describe(&p, "[%lld, %lld] of rows of %lld%s%s", (long long)step->rows, (long long)step->columns,
           (long long)step->parameter_row, transposed ? ", x transposed" : "", narrow ? ", and a copy" : "");
  check(&p);
}

void cases_matrix_step(checker *c, tri_dtype type) {
  int64_t rows, columns, more;
  bool transposed;
  for (int i = 0; next_matrix(c, i, &rows, &columns, &transposed, &more); i++) {
    const int64_t x_row = (transposed ? rows : columns) + more;
    const tri_matrix_step step = {
        rows, columns, columns + 2 * more, transposed ? 1 : x_row, transposed ? x_row : 1, i % 3 * 0.1, 0.5, 0.2 * 40};
    step_case(c, type, &step, transposed, false);
    if (type != tri_dtype_wide(type)) step_case(c, type, &step, transposed, true);
  }
}

/* ---- states of 8 bits -------------------------------------------------------------------------------------------- */

typedef struct blocks_call {
  int64_t count;
  bool with_sign;
  int wide, codes, scales;
} blocks_call;

static int64_t blocks_of(int64_t count) { return (count + TRI_QUANTISED_BLOCK - 1) / TRI_QUANTISED_BLOCK; }
/* Bytes are looked at four at a time. */
static int64_t words_of(int64_t bytes) { return (bytes + 3) / 4; }

static tri_status run_quantise(const problem *p, tri_queue *queue, char *const *memory) {
  const blocks_call *x = p->with;
  return KERNEL(queue, quantise_blocks, p->type, x->count, x->with_sign, AT(x->wide), AT(x->codes), AT(x->scales));
}

static tri_status run_dequantise(const problem *p, tri_queue *queue, char *const *memory) {
  const blocks_call *x = p->with;
  return KERNEL(queue, dequantise_blocks, p->type, x->count, x->with_sign, AT(x->codes), AT(x->scales), AT(x->wide));
}

/* Blocks of several sizes; of zeros; with numbers far below their largest one; too small for a reciprocal; and what is
 * not finite. */
static void set_elements(problem *p, const blocks_call *x) {
  checker *c = p->checker;
  unsigned char *to = p->arguments[x->wide].before;
  for (int64_t e = 0; e < x->count; e++) {
    const int64_t block = e / TRI_QUANTISED_BLOCK;
    double value = draw_normal(c) * pow(10, -(double)draw(c, 8));
    if (block % 8 == 3) value = 0;
    if (block % 8 == 4) value *= 1e-37;
    if (block % 8 == 5) value *= 1e-40;
    if (block % 8 == 6 && draw(c, 100) == 0) value = draw_bool(c) ? INFINITY : -INFINITY;
    if (block % 8 == 7 && draw(c, 100) == 0) value = NAN;
    number_set(p->wide, to, e, x->with_sign ? value : fabs(value));
  }
}

static const int64_t block_counts[] = {0, 1, 7, 255, 256, 257, 2560, 5003, 100003};
enum { BLOCK_COUNTS = sizeof block_counts / sizeof block_counts[0] };

/* To the bit. */
void cases_quantise_blocks(checker *c, tri_dtype type) {
  for (int i = 0; i < 2 * (BLOCK_COUNTS - (is_quick(c) ? 1 : 0)); i++) {
    problem p = problem_make(c, type);
    blocks_call x = {.count = block_counts[i / 2], .with_sign = i % 2 == 0};
    p.run = run_quantise;
    p.with = &x;
    x.wide = add_array(&p, "in", p.wide, x.count);
    set_elements(&p, &x);
    x.codes = add_output(&p, "codes", TRI_INT32, words_of(x.count), false);
    x.scales = add_output(&p, "scales", TRI_FP32, blocks_of(x.count), false);
    p.arguments[x.codes].exact = p.arguments[x.scales].exact = true;
    describe(&p, "%lld elements, %s", (long long)x.count, x.with_sign ? "signed" : "unsigned");
    check(&p);
  }
}

void cases_dequantise_blocks(checker *c, tri_dtype type) {
  for (int i = 0; i < 2 * (BLOCK_COUNTS - (is_quick(c) ? 1 : 0)); i++) {
    problem p = problem_make(c, type);
    blocks_call x = {.count = block_counts[i / 2], .with_sign = i % 2 == 0};
    p.run = run_dequantise;
    p.with = &x;
    x.codes = add_array(&p, "codes", TRI_INT32, words_of(x.count));
    for (int64_t e = 0; e < x.count; e++) p.arguments[x.codes].before[e] = (unsigned char)draw(c, 256);
    x.scales = add_input(&p, "scales", TRI_FP32, blocks_of(x.count), 0, 1);
    for (int64_t b = 0; b < blocks_of(x.count); b++) {
      unsigned char *scales = p.arguments[x.scales].before;
      number_set(TRI_FP32, scales, b,
                 b % 5 == 3 ? 0 : fabs(number_get(TRI_FP32, scales, b)) * pow(10, -(double)draw(c, 30)));
    }
    x.wide = add_output(&p, "out", p.wide, x.count, false);
    p.arguments[x.wide].exact = true;
    describe(&p, "%lld elements, %s", (long long)x.count, x.with_sign ? "signed" : "unsigned");
    check(&p);
  }
}
