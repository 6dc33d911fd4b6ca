/* Adafactor, and sums of squares along the sides of a matrix. */
#include "problem.h"

#include <math.h>

#define AT(i) ((i) == NONE ? NULL : (void *)memory[i])

enum { NONE = -1 };

typedef struct factored_call {
  tri_matrix_squares squares;
  tri_adafactor adafactor;
  int values, in, row, column, sums, parameter, narrow;
} factored_call;

/* Whose steps are so large that a wrong one is not lost in the parameter. */
static int add_values(problem *p) {
  static const int64_t updates[] = {1, 2, 10, 100000};
  const tri_step_values values = {
      .lr = 0.2, .gradient_scale = 0.5, .loss_scale = NAN, .average = NAN, .update = updates[draw(p->checker, 4)]};
  return add_bytes(p, "values", &values, sizeof values);
}

/* Number i, until it returns false. */
static bool next_matrix(checker *c, int i, int64_t *rows, int64_t *columns) {
  static const int64_t fixed[][2] = {{1, 1},    {1, 9},   {7, 1},    {0, 5},    {5, 0},   {33, 65},
                                     {64, 256}, {31, 33}, {257, 12}, {130, 31}, {1, 5000}};
  static const int64_t large[][2] = {{768, 2304}, {5003, 130}};
  const int num_fixed = sizeof fixed / sizeof fixed[0], num_large = is_quick(c) ? 0 : sizeof large / sizeof large[0];
  const int64_t drawn[2] = {draw_from(c, 1, 300), draw_from(c, 1, 600)};
  const int64_t *size = i < num_fixed ? fixed[i] : i < num_fixed + num_large ? large[i - num_fixed] : drawn;
  *rows = size[0];
  *columns = size[1];
  return i < num_fixed + num_large + (is_quick(c) ? 2 : 8);
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */

static tri_status run_squares(const problem *p, tri_queue *queue, char *const *memory) {
  const factored_call *x = p->with;
  return KERNEL(queue, matrix_squares, p->type, &x->squares, AT(x->values), AT(x->in), AT(x->row), AT(x->column));
}

void cases_matrix_squares(checker *c, tri_dtype type) {
  int64_t rows, columns;
  for (int i = 0; next_matrix(c, i / 4, &rows, &columns); i++) {
    problem p = problem_make(c, type);
    const factored_call x = {.squares = {rows, columns, 0.25, 3.0},
                             .values = i % 4 == 3 ? NONE : add_values(&p),
                             .in = add_input(&p, "in", p.wide, rows * columns, 0.5, 1),
                             .row = i % 4 == 1 ? NONE : add_output(&p, "rows", p.wide, rows, false),
                             .column = i % 4 == 2 ? NONE : add_output(&p, "columns", p.wide, columns, false)};
    p.run = run_squares;
    p.with = &x;
    describe(&p, "[%lld, %lld]%s%s%s", (long long)rows, (long long)columns, x.values == NONE ? ", as they are" : "",
             x.row == NONE ? ", without rows" : "", x.column == NONE ? ", without columns" : "");
    check(&p);
  }
}

/* ---- Adafactor --------------------------------------------------------------------------------------------------- */

static int add_not_negative(problem *p, const char *name, int64_t count) {
  const int number = add_input(p, name, p->wide, count, 0, 1);
  for (int64_t e = 0; e < count; e++) {
    const double value = e % 5 == 4 ? 0 : fabs(number_get(p->wide, p->arguments[number].before, e));
    number_set(p->wide, p->arguments[number].before, e, value);
  }
  return number;
}

static int add_sums(problem *p, int64_t rows, int64_t elements, bool small) {
  const double size = small ? 1e-20 : 1;
  const tri_adafactor_sums sums = {0.7 * size * (double)rows, 0.3 * size * (double)elements,
                                   (small ? 0.1 : 4.0) * (double)elements};
  return add_bytes(p, "sums", &sums, sizeof sums);
}

/* Returns the settings for a part of a tensor that has twice as many rows. */
static tri_adafactor adafactor_of(int64_t rows, int64_t columns, int number) {
  return (tri_adafactor){rows,
                         columns,
                         2.0 * (double)rows,
                         2.0 * (double)(rows * columns),
                         {number % 2 == 0 ? 1e-3 : 1e-1, 1e-3},
                         number % 3 == 0 ? 1 : 1.5,
                         number % 2 == 0 ? 0.1 : 0,
                         0.5};
}

static tri_status run_direction(const problem *p, tri_queue *queue, char *const *memory) {
  const factored_call *x = p->with;
  return KERNEL(queue, adafactor_direction, p->type, &x->adafactor, AT(x->values), AT(x->row), AT(x->column),
                AT(x->sums), AT(x->in));
}

void cases_adafactor_direction(checker *c, tri_dtype type) {
  int64_t rows, columns;
  for (int i = 0; next_matrix(c, i / 3, &rows, &columns); i++) {
    problem p = problem_make(c, type);
    const bool vector = i % 3 == 2;
    if (vector) rows = 1;
    const factored_call x = {.adafactor = adafactor_of(rows, columns, i),
                             .values = add_values(&p),
                             .row = vector ? NONE : add_not_negative(&p, "rows", rows),
                             .column = add_not_negative(&p, "columns", columns),
                             .sums = add_sums(&p, rows, rows * columns, i % 3 == 1),
                             .in = add_output(&p, "direction", p.wide, rows * columns, true)};
    p.run = run_direction;
    p.with = &x;
    describe(&p, "[%lld, %lld]%s%s", (long long)rows, (long long)columns, vector ? ", a vector" : "",
             i % 3 == 1 ? ", small" : "");
    check(&p);
  }
}

static tri_status run_step(const problem *p, tri_queue *queue, char *const *memory) {
  const factored_call *x = p->with;
  return KERNEL(queue, adafactor_step, p->type, &x->adafactor, AT(x->values), AT(x->sums), AT(x->in), AT(x->parameter),
                AT(x->narrow));
}

void cases_adafactor_step(checker *c, tri_dtype type) {
  int64_t rows, columns;
  for (int i = 0; next_matrix(c, i / 4, &rows, &columns); i++) {
    problem p = problem_make(c, type);
    const bool narrow = i % 4 > 1 && type != p.wide;
    const int64_t count = rows * columns;
    const factored_call x = {.adafactor = adafactor_of(rows, columns, i),
                             .values = add_values(&p),
                             .sums = add_sums(&p, rows, count, i % 4 == 1),
                             .in = add_input(&p, "direction", p.wide, count, 0, 1),
                             .parameter = add_output(&p, "parameter", p.wide, count, true),
                             .narrow = narrow ? add_output(&p, "narrow", type, count, false) : NONE};
    p.run = run_step;
    p.with = &x;
    describe(&p, "[%lld, %lld]%s%s", (long long)rows, (long long)columns, i % 4 == 1 ? ", small" : "",
             narrow ? ", and a copy" : "");
    check(&p);
  }
}
