/* What GaLore and Fira do beside products. */
#include "problem.h"

#include <math.h>

#define AT(i) ((i) == NONE ? NULL : (void *)memory[i])

enum { NONE = -1 };

typedef struct low_rank_call {
  tri_adamw adam;
  tri_low_rank_rest rest;
  tri_low_rank_step step;
  int64_t count;
  int values, in, moment1, moment2, out, factor, parameter, narrow;
} low_rank_call;

static int add_values(problem *p, bool first) {
  static const int64_t updates[] = {2, 3, 10, 100000};
  const tri_step_values values = {.lr = 0.2,
                                  .gradient_scale = 0.5,
                                  .loss_scale = NAN,
                                  .average = NAN,
                                  .update = first ? 1 : updates[draw(p->checker, 4)]};
  return add_bytes(p, "values", &values, sizeof values);
}

static void make_positive(problem *p, int number) {
  const argument *a = &p->arguments[number];
  for (int64_t e = 0; e < a->count; e++)
    number_set(a->type, a->before, e, 0.01 + fabs(number_get(a->type, a->before, e)));
}

/* Number i, until it returns false. */
static bool next_matrix(checker *c, int i, int64_t *rows, int64_t *columns) {
  static const int64_t fixed[][2] = {{1, 1}, {1, 9}, {7, 1}, {0, 5}, {5, 0}, {33, 65}, {257, 12}, {31, 130}};
  const int num_fixed = sizeof fixed / sizeof fixed[0];
  const int64_t drawn[2] = {draw_from(c, 1, 300), draw_from(c, 1, 600)};
  const int64_t *size = i < num_fixed ? fixed[i] : drawn;
  *rows = size[0];
  *columns = size[1];
  return i < num_fixed + (is_quick(c) ? 2 : 8);
}

static tri_status run_adam(const problem *p, tri_queue *queue, char *const *memory) {
  const low_rank_call *x = p->with;
  return KERNEL(queue, low_rank_adam, p->type, x->count, &x->adam, AT(x->values), AT(x->in), AT(x->moment1),
                AT(x->moment2), AT(x->out));
}

void cases_low_rank_adam(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 3, 4, 130, 2051, 16400};
  for (int i = 0; i < 2 * (int)(sizeof counts / sizeof counts[0]); i++) {
    problem p = problem_make(c, type);
    low_rank_call x = {.adam = {0.9, 0.95, 1e-8, NAN, NAN}, .count = counts[i / 2], .values = add_values(&p, false)};
    x.moment1 = add_output(&p, "moment1", p.wide, x.count, true);
    x.moment2 = add_output(&p, "moment2", p.wide, x.count, true);
    make_positive(&p, x.moment2);
    x.in = i % 2 == 0 ? add_input(&p, "gradient", p.wide, x.count, 0, 1)
                      : add_output(&p, "gradient", p.wide, x.count, true);
    x.out = i % 2 == 0 ? add_output(&p, "out", p.wide, x.count, false) : x.in;
    p.run = run_adam;
    p.with = &x;
    describe(&p, "%lld elements%s", (long long)x.count, i % 2 == 0 ? "" : ", in place");
    check(&p);
  }
}

static tri_status run_rest(const problem *p, tri_queue *queue, char *const *memory) {
  const low_rank_call *x = p->with;
  return KERNEL(queue, low_rank_rest, p->type, &x->rest, AT(x->values), AT(x->in), AT(x->moment1), AT(x->moment2),
                AT(x->out));
}

void cases_low_rank_rest(checker *c, tri_dtype type) {
  int64_t rows, columns;
  for (int i = 0; next_matrix(c, i / 2, &rows, &columns); i++) {
    problem p = problem_make(c, type);
    const bool by_rows = i % 2 == 0;
    const int64_t length = by_rows ? rows : columns;
    const low_rank_call x = {.rest = {rows, columns, by_rows, 0.25},
                             .values = add_values(&p, false),
                             .in = add_input(&p, "gradient", p.wide, rows * columns, 0, 1),
                             .moment1 = add_input(&p, "adam", p.wide, length, 0, 1),
                             .moment2 = add_input(&p, "projected", p.wide, length, 0, 1),
                             .out = add_output(&p, "rest", p.wide, rows * columns, true)};
    make_positive(&p, x.moment1);
    make_positive(&p, x.moment2);
    p.run = run_rest;
    p.with = &x;
    describe(&p, "[%lld, %lld] by %s", (long long)rows, (long long)columns, by_rows ? "rows" : "columns");
    check(&p);
  }
}

static tri_status run_growth(const problem *p, tri_queue *queue, char *const *memory) {
  const low_rank_call *x = p->with;
  return KERNEL(queue, low_rank_growth, p->type, AT(x->values), AT(x->in), AT(x->moment1), AT(x->factor));
}

void cases_low_rank_growth(checker *c, tri_dtype type) {
  for (int i = 0; i < 8; i++) {
    problem p = problem_make(c, type);
    const low_rank_call x = {.values = add_values(&p, i % 4 == 0),
                             .in = add_input(&p, "squares", TRI_FP64, 1, i % 2 == 0 ? 100 : 0.001, 0.0001),
                             .moment1 = add_output(&p, "norm", p.wide, 1, true),
                             .factor = add_output(&p, "factor", TRI_FP64, 1, false)};
    make_positive(&p, x.in);
    make_positive(&p, x.moment1);
    p.arguments[x.factor].tolerance = p.arguments[x.moment1].tolerance;
    p.run = run_growth;
    p.with = &x;
    describe(&p, "%s, of %s", i % 4 == 0 ? "first" : "later", i % 2 == 0 ? "more" : "less");
    check(&p);
  }
}

static tri_status run_step(const problem *p, tri_queue *queue, char *const *memory) {
  const low_rank_call *x = p->with;
  return KERNEL(queue, low_rank_step, p->type, &x->step, AT(x->values), AT(x->in), AT(x->out), AT(x->factor),
                AT(x->parameter), AT(x->narrow));
}

static int add_matrix(problem *p, const char *name, int64_t rows, int64_t row, int64_t columns) {
  const int number = add_array(p, name, p->wide, rows * row);
  fill(p, number, matrix_of(rows, row, columns), 0, 1);
  return number;
}

void cases_low_rank_step(checker *c, tri_dtype type) {
  int64_t rows, columns;
  for (int i = 0; next_matrix(c, i / 4, &rows, &columns); i++) {
    problem p = problem_make(c, type);
    const bool rest = i % 2 == 1, narrow = i % 4 > 1 && type != p.wide;
    const int64_t more = i % 3, row = columns + 2 * more, x_row = columns + more;
    low_rank_call x = {.step = {rows, columns, row, x_row, 0.9, 0.95, i % 3 * 0.1, 0.5, 0.25},
                       .values = add_values(&p, i % 5 == 0),
                       .in = add_matrix(&p, "x", rows, x_row, columns),
                       .out = rest ? add_matrix(&p, "rest", rows, x_row, columns) : NONE,
                       .factor = rest ? add_input(&p, "factor", TRI_FP64, 1, 0.5, 0.1) : NONE,
                       .parameter = add_array(&p, "parameter", p.wide, rows * row),
                       .narrow = narrow ? add_array(&p, "narrow", type, rows * row) : NONE};
    writes(&p, x.parameter, matrix_of(rows, row, columns), true);
    if (narrow) writes(&p, x.narrow, matrix_of(rows, row, columns), false);
    p.run = run_step;
    p.with = &x;
    describe(&p, "[%lld, %lld] of rows of %lld%s%s", (long long)rows, (long long)columns, (long long)row,
             rest ? ", with a rest" : "", narrow ? ", and a copy" : "");
    check(&p);
  }
}
