/* Kernels that go over elements, or over the elements of rows: convert, copies of rows, add, scale, column sums,
 * activations, dropout, RoPE. */
#include "problem.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The parameters of a call on rows. */
typedef struct rows_call {
  int64_t rows, width, ld, live;
  int count; /* argument */
  int left, right, out;
  tri_activation kind;
  bool accumulate;
} rows_call;

#define AT(i) ((void *)memory[i])

static const char *count_text(int number) { return number < 0 ? "" : " (counted)"; }

/* ---- fill_zero, convert ------------------------------------------------------------------------------------------ */

static tri_status run_fill_zero(const problem *p, tri_queue *queue, char *const *memory) {
  return KERNEL(queue, fill_zero, p->arguments[0].bytes, AT(0));
}

void cases_fill_zero(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1001, 65537, 3000001};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
    problem p = problem_make(c, type);
    p.run = run_fill_zero;
    p.arguments[add_output(&p, "out", type, counts[i], false)].exact = true;
    describe(&p, "%lld elements", (long long)counts[i]);
    check(&p);
  }
}

static tri_status run_convert(const problem *p, tri_queue *queue, char *const *memory) {
  const argument *in = &p->arguments[0], *out = &p->arguments[1];
  return KERNEL(queue, convert, in->count, in->type, AT(0), out->type, AT(1));
}

/* Numbers that are easily rounded wrongly. */
static void fill_with_edges(problem *p, int number) {
  static const double edges[] = {0.0,
                                 -0.0,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 1e-40,
                                 -3e-41,
                                 1e-310,
                                 3.4028235e38,
                                 3.39e38,
                                 -3.4e38,
                                 1e300,
                                 1.00390625,
                                 1.01171875,
                                 1.0039062500001,
                                 1.0039062499,
                                 0x1.01p-126,
                                 0x1.018p-130,
                                 0x1.fffffep0,
                                 0x1.fffffefp0,
                                 0x1.000001p0,
                                 0x1.0000010000001p0,
                                 65504.0,
                                 -1.5};
  const argument *a = &p->arguments[number];
  for (int64_t i = 0; i < a->count; i++) {
    if (i % 3 == 0) number_set(a->type, a->before, i, edges[i / 3 % (int64_t)(sizeof edges / sizeof edges[0])]);
  }
}

void cases_convert(checker *c, tri_dtype type) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  static const int64_t counts[] = {0, 1, 5, 72, 1027, 65553, 2000003};
  for (int to = 0; to < 3; to++) {
    if ((device_of(c)->info.types >> (unsigned)all[to] & 1u) == 0) continue;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
      problem p = problem_make(c, type);
      p.run = run_convert;
      const int in = add_input(&p, "in", type, counts[i], 0, 1);
      p.arguments[add_output(&p, "out", all[to], counts[i], false)].exact = true;
      if (i % 2 == 1) fill_with_edges(&p, in);
      describe(&p, "%lld elements to %s", (long long)counts[i], tri_dtype_name(all[to]));
      check(&p);
    }
  }
}

/* ---- copy_rows --------------------------------------------------------------------------------------------------- */

typedef struct row_copy_call {
  tri_row_copy copy;
  int count, from_rows, from, to_rows, to; /* arguments; an unused map: -1 */
} row_copy_call;

static tri_status run_copy_rows(const problem *p, tri_queue *queue, char *const *memory) {
  const row_copy_call *x = p->with;
  tri_row_copy copy = x->copy;
  copy.rows = rows_of(p, copy.rows.capacity, x->count, memory);
  return KERNEL(queue, copy_rows, &copy, x->from_rows < 0 ? NULL : AT(x->from_rows), AT(x->from),
                x->to_rows < 0 ? NULL : AT(x->to_rows), AT(x->to));
}

/* Adds an array with `live` consecutive numbers from `least` on, in random order. The numbers after these are not read.
 * */
static int add_order(problem *p, const char *name, int64_t capacity, int64_t live, int64_t least) {
  const int number = add_array(p, name, TRI_INT32, capacity);
  int32_t *rows = (int32_t *)(void *)p->arguments[number].before;
  for (int64_t r = 0; r < live; r++) {
    const int64_t at = draw(p->checker, r + 1);
    rows[r] = rows[at];
    rows[at] = (int32_t)(least + r);
  }
  return number;
}

static int add_choice(problem *p, const char *name, int64_t capacity, int64_t live, int64_t rows) {
  const int number = add_array(p, name, TRI_INT32, capacity);
  for (int64_t r = 0; r < live; r++)
    number_set(TRI_INT32, p->arguments[number].before, r, (double)draw(p->checker, rows));
  return number;
}

void cases_copy_rows(checker *c, tri_dtype type) {
  static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  int64_t capacity = 0, width = 0;
  for (int i = 0; next_shape(c, i, &capacity, &width); i++) {
    problem p = problem_make(c, type);
    row_copy_call x = {.from_rows = -1, .to_rows = -1};
    const int64_t live = add_rows(&p, capacity, &x.count), all_rows = capacity + 1 + draw(c, 5), to_first = draw(c, 2);
    const int64_t gap = i % 2 == 0 ? 16 * draw(c, 2) : draw(c, 9);
    tri_dtype to_type = types[i % 3];
    if ((device_of(c)->info.types >> (unsigned)to_type & 1u) == 0) to_type = type;
    p.run = run_copy_rows;
    p.with = &x;
    x.copy = (tri_row_copy){tri_all_rows(capacity), width, type, to_type, width + gap, width + (i % 4 == 0 ? gap : 0)};
    if (draw_bool(c)) x.from_rows = add_choice(&p, "numbers of rows taken", capacity, live, all_rows);
    if (draw_bool(c)) x.to_rows = add_order(&p, "numbers of rows given", capacity, live, to_first);
    x.from = add_input(&p, "from", type, all_rows * x.copy.from_stride, 0, 1);
    if (i % 2 == 1) fill_with_edges(&p, x.from);
    x.to = add_array(&p, "to", to_type, all_rows * x.copy.to_stride);
    region written = matrix_of(live, x.copy.to_stride, width);
    written.first = x.to_rows < 0 ? 0 : to_first * x.copy.to_stride;
    writes(&p, x.to, written, false);
    p.arguments[x.to].exact = true;
    describe(&p, "%lld x %lld to %s%s, %s rows to %s", (long long)capacity, (long long)width, tri_dtype_name(to_type),
             count_text(x.count), x.from_rows < 0 ? "all" : "named", x.to_rows < 0 ? "all" : "named ones");
    check(&p);
  }
}

/* ---- add, scale, column_sum -------------------------------------------------------------------------------------- */

static tri_status run_add(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, add, p->type, rows_of(p, x->rows, x->count, memory), x->width, AT(x->left), AT(x->right),
                AT(x->out));
}

/* A sum of two is rounded once, so it has the reference's bits. */
void cases_add(checker *c, tri_dtype type) {
  static const char *const forms[] = {"", ", in place of a", ", in place of b", ", a and b are one"};
  rows_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    const int form = i % 4;
    p.run = run_add;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    const region live = all_of(x.live * x.width);
    x.left = add_array(&p, "a", type, x.rows * x.width);
    x.right = form == 3 ? x.left : add_array(&p, "b", type, x.rows * x.width);
    x.out = form == 1 ? x.left : form == 2 ? x.right : add_array(&p, "out", type, x.rows * x.width);
    fill(&p, x.left, live, 0, 1);
    if (x.right != x.left) fill(&p, x.right, live, 0, 1);
    writes(&p, x.out, live, false);
    p.arguments[x.out].exact = true;
    describe(&p, "%lld x %lld%s%s", (long long)x.rows, (long long)x.width, count_text(x.count), forms[form]);
    check(&p);
  }
}

typedef struct scale_call {
  int64_t count;
  double factor;
  int x, y; /* arguments */
} scale_call;

static tri_status run_scale(const problem *p, tri_queue *queue, char *const *memory) {
  const scale_call *x = p->with;
  return KERNEL(queue, scale, p->type, x->count, x->factor, AT(x->x), AT(x->y));
}

/* A product by a factor of few bits has the reference's bits: that of a bf16 number is one of fp32. */
void cases_scale(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 2, 5, 8, 72, 1027, 16387, 65553, 2000003};
  static const struct {
    double factor;
    bool exact;
  } factors[] = {{2, true}, {0.0625, true}, {1.0 / 3, false}, {-1.5, true}, {0, true}, {-0.7, false}};
  for (int i = 0; i < 2 * (int)(sizeof counts / sizeof counts[0]) - (is_quick(c) ? 2 : 0); i++) {
    problem p = problem_make(c, type);
    scale_call x = {.count = counts[i / 2], .factor = factors[i % 6].factor};
    const bool in_place = i % 2 == 1;
    p.run = run_scale;
    p.with = &x;
    x.x = add_input(&p, "x", type, x.count, 0, 1);
    if (i % 4 > 1 && factors[i % 6].exact) fill_with_edges(&p, x.x);
    x.y = in_place ? x.x : add_array(&p, "y", type, x.count);
    writes(&p, x.y, all_of(x.count), false);
    p.arguments[x.y].exact = factors[i % 6].exact;
    describe(&p, "%lld elements by %g%s", (long long)x.count, x.factor, in_place ? ", in place" : "");
    check(&p);
  }
}

static tri_status run_column_sum(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, column_sum, p->type, rows_of(p, x->rows, x->count, memory), x->width, x->ld, AT(x->left),
                AT(x->out), x->accumulate);
}

void cases_column_sum(checker *c, tri_dtype type) {
  rows_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    p.run = run_column_sum;
    p.with = &x;
    if (x.rows == 0) continue; /* that many do nothing, and leave a gradient as it is: never requested */
    x.live = add_rows(&p, x.rows, &x.count);
    x.ld = x.width + (i % 3 == 0 ? draw(c, 9) : 0);
    x.left = add_array(&p, "in", type, x.rows * x.ld);
    fill(&p, x.left, matrix_of(x.live, x.ld, x.width), 0.1, 1);
    x.accumulate = draw_bool(c);
    x.out = add_output(&p, "out", p.wide, x.width, x.accumulate);
    describe(&p, "%lld x %lld, %lld apart%s%s", (long long)x.rows, (long long)x.width, (long long)x.ld,
             count_text(x.count), x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}

/* ---- magnitudes -------------------------------------------------------------------------------------------------- */

typedef struct magnitude_call {
  int64_t rows, width, ld;
  int count, magnitudes, squares, offsets, gradient, x, out;
  bool accumulate;
} magnitude_call;

static const void *offsets_of(const magnitude_call *x, char *const *memory) {
  return x->offsets < 0 ? NULL : AT(x->offsets);
}

static tri_status run_magnitude_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const magnitude_call *x = p->with;
  return KERNEL(queue, magnitude_forward, p->type, rows_of(p, x->rows, x->count, memory), x->width, x->ld,
                AT(x->magnitudes), AT(x->squares), offsets_of(x, memory), AT(x->x), AT(x->out));
}

static tri_status run_magnitude_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const magnitude_call *x = p->with;
  return KERNEL(queue, magnitude_backward, p->type, rows_of(p, x->rows, x->count, memory), x->width, x->ld,
                AT(x->gradient), AT(x->x), AT(x->squares), offsets_of(x, memory), AT(x->out), x->accumulate);
}

/* Some norms are 0. */
static void add_columns(checker *c, problem *p, magnitude_call *x, int i) {
  x->magnitudes = add_input(p, "magnitudes", p->wide, x->width, 1, 0.5);
  x->squares = add_array(p, "squares", p->wide, x->width);
  fill(p, x->squares, all_of(x->width), 0, 1);
  for (int64_t at = 0; at < x->width; at++) {
    const double drawn = draw_normal(c);
    number_set(p->wide, p->arguments[x->squares].before, at, at % 7 == 3 ? 0 : drawn * drawn + 0.1);
  }
  x->offsets = i % 3 == 0 ? -1 : add_input(p, "offsets", p->wide, x->width, 0, 1);
}

void cases_magnitude_forward(checker *c, tri_dtype type) {
  magnitude_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    p.run = run_magnitude_forward;
    p.with = &x;
    const int64_t live = add_rows(&p, x.rows, &x.count);
    x.ld = x.width + (i % 3 == 0 ? draw(c, 9) : 0);
    add_columns(c, &p, &x, i);
    x.x = add_array(&p, "x", type, x.rows * x.ld);
    fill(&p, x.x, matrix_of(live, x.ld, x.width), 0.1, 1);
    x.out = i % 2 == 0 ? x.x : add_array(&p, "y", type, x.rows * x.ld);
    writes(&p, x.out, matrix_of(live, x.ld, x.width), false);
    describe(&p, "%lld x %lld, %lld apart%s%s%s", (long long)x.rows, (long long)x.width, (long long)x.ld,
             count_text(x.count), x.offsets < 0 ? "" : ", offsets", i % 2 == 0 ? ", in place" : "");
    check(&p);
  }
}

void cases_magnitude_backward(checker *c, tri_dtype type) {
  magnitude_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    p.run = run_magnitude_backward;
    p.with = &x;
    if (x.rows == 0) continue; /* never requested */
    const int64_t live = add_rows(&p, x.rows, &x.count);
    x.ld = x.width + (i % 3 == 0 ? draw(c, 9) : 0);
    add_columns(c, &p, &x, i);
    x.gradient = add_array(&p, "gradient_y", type, x.rows * x.ld);
    fill(&p, x.gradient, matrix_of(live, x.ld, x.width), 0.1, 1);
    x.x = add_array(&p, "x", type, x.rows * x.ld);
    fill(&p, x.x, matrix_of(live, x.ld, x.width), 0.1, 1);
    x.accumulate = draw_bool(c);
    x.out = add_output(&p, "gradient", p.wide, x.width, x.accumulate);
    describe(&p, "%lld x %lld, %lld apart%s%s%s", (long long)x.rows, (long long)x.width, (long long)x.ld,
             count_text(x.count), x.offsets < 0 ? "" : ", offsets", x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

#define KIND(VALUE, name, ...) {TRI_ACTIVATION_##VALUE, #name},
static const struct {
  tri_activation kind;
  const char *name;
} kinds[] = {TRI_ACTIVATIONS(KIND)};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] };

static tri_status run_activation_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, activation_forward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width,
                AT(x->left), AT(x->out));
}
static tri_status run_activation_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, activation_backward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width,
                AT(x->left), AT(x->right), AT(x->out));
}
static tri_status run_gated_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, gated_forward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width, AT(x->left),
                AT(x->out));
}
static tri_status run_gated_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const rows_call *x = p->with;
  return KERNEL(queue, gated_backward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width, AT(x->left),
                AT(x->right), AT(x->out));
}

/* `gates` is how many numbers of x belong to one of y; with a gradient of y it is a backward. Every third problem goes
 * far beyond what exp can hold. */
static void activation(checker *c, tri_dtype type, int64_t gates, bool backward,
                       tri_status (*run)(const problem *, tri_queue *, char *const *)) {
  static const double scales[] = {1, 4, 200};
  rows_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    p.run = run;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.kind = kinds[i % NUM_KINDS].kind;
    x.left = add_array(&p, "x", type, gates * x.rows * x.width);
    fill(&p, x.left, all_of(gates * x.live * x.width), 0, scales[i % 3]);
    if (backward) {
      x.right = add_array(&p, "gradient of y", type, x.rows * x.width);
      fill(&p, x.right, all_of(x.live * x.width), 0, 1);
    }
    const bool in_place = backward && gates == 1 && draw_bool(c);
    const int64_t pieces = backward ? gates : 1;
    x.out = in_place ? x.right : add_array(&p, backward ? "gradient of x" : "y", type, pieces * x.rows * x.width);
    writes(&p, x.out, all_of(pieces * x.live * x.width), false);
    describe(&p, "%lld x %lld%s, %s%s, x to %g", (long long)x.rows, (long long)x.width, count_text(x.count),
             kinds[i % NUM_KINDS].name, in_place ? ", in place" : "", scales[i % 3]);
    check(&p);
  }
}

void cases_activation_forward(checker *c, tri_dtype type) { activation(c, type, 1, false, run_activation_forward); }
void cases_activation_backward(checker *c, tri_dtype type) { activation(c, type, 1, true, run_activation_backward); }
void cases_gated_forward(checker *c, tri_dtype type) { activation(c, type, 2, false, run_gated_forward); }
void cases_gated_backward(checker *c, tri_dtype type) { activation(c, type, 2, true, run_gated_backward); }

/* A weight for each row, and its gradient. */
typedef struct weighted_call {
  int64_t rows, width, live;
  int count, x, weights, gradient, out, gradient_weights;
  tri_activation kind;
} weighted_call;

static tri_status run_weighted_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const weighted_call *x = p->with;
  return KERNEL(queue, weighted_gated_forward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width,
                AT(x->x), AT(x->weights), AT(x->out));
}

static tri_status run_weighted_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const weighted_call *x = p->with;
  return KERNEL(queue, weighted_gated_backward, p->type, x->kind, rows_of(p, x->rows, x->count, memory), x->width,
                AT(x->x), AT(x->weights), AT(x->gradient), AT(x->out), AT(x->gradient_weights));
}

static void weighted_gated(checker *c, tri_dtype type, bool backward) {
  static const double scales[] = {1, 4, 200};
  weighted_call x = {0};
  for (int i = 0; next_shape(c, i, &x.rows, &x.width); i++) {
    problem p = problem_make(c, type);
    const int64_t outs = backward ? 2 * x.width : x.width;
    p.run = backward ? run_weighted_backward : run_weighted_forward;
    p.with = &x;
    x.kind = kinds[i % NUM_KINDS].kind;
    x.live = add_rows(&p, x.rows, &x.count);
    x.x = add_array(&p, "x", type, 2 * x.rows * x.width);
    fill(&p, x.x, all_of(2 * x.live * x.width), 0, scales[i % 3]);
    x.weights = add_array(&p, "weights", p.wide, x.rows);
    fill(&p, x.weights, all_of(x.live), 0.3, 0.3);
    if (backward) {
      x.gradient = add_array(&p, "gradient of y", type, x.rows * x.width);
      fill(&p, x.gradient, all_of(x.live * x.width), 0, 1);
      x.gradient_weights = add_array(&p, "gradient of the weights", p.wide, x.rows);
      writes(&p, x.gradient_weights, all_of(x.live), false);
      /* Terms are products of two numbers of that scale, and their sum may be near zero by chance. */
      p.arguments[x.gradient_weights].yardstick = 0.1 * scales[i % 3] * scales[i % 3] * sqrt((double)x.width);
    }
    x.out = add_array(&p, backward ? "gradient of x" : "y", type, x.rows * outs);
    writes(&p, x.out, all_of(x.live * outs), false);
    describe(&p, "%lld x %lld%s, %s, x to %g", (long long)x.rows, (long long)x.width, count_text(x.count),
             kinds[i % NUM_KINDS].name, scales[i % 3]);
    check(&p);
  }
}

void cases_weighted_gated_forward(checker *c, tri_dtype type) { weighted_gated(c, type, false); }
void cases_weighted_gated_backward(checker *c, tri_dtype type) { weighted_gated(c, type, true); }

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

typedef struct dropout_call {
  tri_dropout options;
  int64_t count;
  int values, rows, x, y; /* no numbers of rows: -1 */
} dropout_call;

static tri_status run_dropout(const problem *p, tri_queue *queue, char *const *memory) {
  const dropout_call *x = p->with;
  return KERNEL(queue, dropout, p->type, x->count, &x->options, AT(x->values), x->rows < 0 ? NULL : AT(x->rows),
                AT(x->x), AT(x->y));
}

/* Inputs are at least 0.5, so that another mask shows in every element. */
static void one_dropout(checker *c, tri_dtype type, dropout_call x, int i) {
  problem p = problem_make(c, type);
  const tri_step_values values = {.seed = (uint64_t)draw(c, INT64_MAX),
                                  .step = draw(c, (int64_t)1 << (i % 2 == 0 ? 4 : 39)),
                                  .first_sample = draw(c, i % 2 == 0 ? 3 : (int64_t)1 << 33)};
  p.run = run_dropout;
  p.with = &x;
  x.values = add_bytes(&p, "values", &values, sizeof values);
  x.rows = x.options.width == 0 ? -1 : add_array(&p, "numbers of rows", TRI_INT32, x.count / x.options.width);
  for (int64_t r = 0; x.rows >= 0 && r < x.count / x.options.width; r++)
    number_set(TRI_INT32, p.arguments[x.rows].before, r, (double)draw(c, i % 2 == 0 ? 100 : INT32_MAX));
  x.x = add_input(&p, "x", type, x.count, 0, 1);
  for (int64_t e = 0; e < x.count; e++) {
    const double value = number_get(type, p.arguments[x.x].before, e);
    number_set(type, p.arguments[x.x].before, e, value < 0 ? value - 0.5 : value + 0.5);
  }
  x.y = i % 2 == 0 ? x.x : add_array(&p, "y", type, x.count);
  writes(&p, x.y, all_of(x.count), false);
  describe(&p, "%lld elements from %lld, probability %g%s%s", (long long)x.count, (long long)x.options.first,
           x.options.probability, x.y == x.x ? ", in place" : "", x.rows < 0 ? "" : ", by rows");
  check(&p);
}

void cases_dropout(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 3, 4, 6, 129, 2050, 16387, 1000003};
  static const int64_t shapes[][2] = {{5, 24}, {1, 7}, {70, 33}, {33, 768}, {0, 4}, {4099, 64}};
  static const double probabilities[] = {0.1, 0.5, 0.9, 0};
  for (int i = 0; i < (int)(sizeof counts / sizeof counts[0]) - (is_quick(c) ? 1 : 0); i++) {
    const tri_dropout options = {.probability = probabilities[i % 4],
                                 .site = draw(c, 1 << 16),
                                 .sample_elements = draw_from(c, 1, 1 << 20),
                                 .first = i % 3 == 0 ? 0 : draw(c, 1 << 30)};
    one_dropout(c, type, (dropout_call){.options = options, .count = counts[i]}, i);
  }
  for (int i = 0; i < (int)(sizeof shapes / sizeof shapes[0]) - (is_quick(c) ? 1 : 0); i++) {
    const tri_dropout options = {.probability = probabilities[i % 4],
                                 .site = draw(c, 1 << 16),
                                 .sample_elements = draw_from(c, 1, 1 << 20),
                                 .first = i % 3 == 2 ? 4 * draw(c, 1 << 28) : i % 3 * draw(c, 1 << 30),
                                 .width = shapes[i][1],
                                 .row_elements = i % 2 == 0 ? 0 : shapes[i][1] + draw(c, 100)};
    one_dropout(c, type, (dropout_call){.options = options, .count = shapes[i][0] * shapes[i][1]}, i);
  }
}

/* ---- RoPE -------------------------------------------------------------------------------------------------------- */

typedef struct rope_call {
  int64_t rows, row_elements, heads, head_stride, head_dim, live;
  int count, positions, cosine, sine, x;
  bool inverse;
} rope_call;

static tri_status run_rope(const problem *p, tri_queue *queue, char *const *memory) {
  const rope_call *x = p->with;
  return KERNEL(queue, rope, p->type, rows_of(p, x->rows, x->count, memory), x->row_elements, x->heads, x->head_stride,
                x->head_dim, AT(x->positions), AT(x->cosine), AT(x->sine), x->inverse, AT(x->x));
}

static void one_rope(checker *c, tri_dtype type, rope_call x, int64_t table_rows) {
  problem p = problem_make(c, type);
  p.run = run_rope;
  p.with = &x;
  x.live = add_rows(&p, x.rows, &x.count);
  x.positions = add_array(&p, "positions", TRI_INT32, x.rows);
  for (int64_t r = 0; r < x.live; r++)
    number_set(TRI_INT32, p.arguments[x.positions].before, r, (double)draw(c, table_rows));
  x.cosine = add_array(&p, "cosine", p.wide, table_rows * x.head_dim / 2);
  x.sine = add_array(&p, "sine", p.wide, table_rows * x.head_dim / 2);
  for (int64_t i = 0; i < table_rows * x.head_dim / 2; i++) {
    const double angle = draw_normal(c);
    number_set(p.wide, p.arguments[x.cosine].before, i, cos(angle));
    number_set(p.wide, p.arguments[x.sine].before, i, sin(angle));
  }
  x.x = add_array(&p, "x", type, x.rows * x.row_elements);
  for (int half = 0; half < 2; half++) {
    const region turned = {half * x.head_dim / 2, x.live, x.row_elements, x.heads, x.head_stride, x.head_dim / 2};
    writes(&p, x.x, turned, true);
  }
  describe(&p, "%lld rows of %lld, %lld heads of %lld, %lld apart%s%s", (long long)x.rows, (long long)x.row_elements,
           (long long)x.heads, (long long)x.head_dim, (long long)x.head_stride, count_text(x.count),
           x.inverse ? ", inverse" : "");
  check(&p);
}

void cases_rope(checker *c, tri_dtype type) {
  static const rope_call fixed[] = {
      {.rows = 1, .row_elements = 2, .heads = 1, .head_stride = 2, .head_dim = 2},
      {.rows = 3, .row_elements = 3 * 64, .heads = 2, .head_stride = 64, .head_dim = 64},
      {.rows = 17, .row_elements = 6 * 19 + 1, .heads = 3, .head_stride = 38, .head_dim = 10}, /* GPT-NeoX: a part */
      {.rows = 5, .row_elements = 4 * 128 + 3, .heads = 3, .head_stride = 129, .head_dim = 128},
      {.rows = 0, .row_elements = 8, .heads = 1, .head_stride = 8, .head_dim = 8},
      {.rows = 66, .row_elements = 40, .heads = 5, .head_stride = 8, .head_dim = 6},
      {.rows = 2048, .row_elements = 3 * 768, .heads = 24, .head_stride = 64, .head_dim = 64},
  };
  for (size_t i = 0; i < 2 * (sizeof fixed / sizeof fixed[0] - (is_quick(c) ? 1 : 0)); i++) {
    rope_call x = fixed[i / 2];
    x.inverse = i % 2 == 1;
    one_rope(c, type, x, x.rows > 1000 ? 1024 : 11);
  }
}
