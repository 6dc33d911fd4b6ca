/* Layer norm and RMS norm: whole rows, and pieces of rows with gaps between them. */
#include "problem.h"

#define AT(i) ((void *)memory[i])

typedef struct norm_call {
  tri_norm norm; /* without its count */
  int count;     /* argument; and the others */
  int x, branch, sum, y, weight, bias, mean, rstd, gradient_x, gradient_weight, gradient_bias;
  int64_t live;
  bool accumulate;
} norm_call;

static tri_norm norm_of(const problem *p, char *const *memory) {
  const norm_call *x = p->with;
  tri_norm norm = x->norm;
  norm.rows = rows_of(p, norm.rows.capacity, x->count, memory);
  return norm;
}

static void *maybe(char *const *memory, int number) { return number < 0 ? NULL : memory[number]; }

static region x_region(const norm_call *x) {
  const tri_norm *n = &x->norm;
  return (region){0, x->live, n->x_row, n->groups, n->x_group, n->width};
}
static region y_region(const norm_call *x) {
  const tri_norm *n = &x->norm;
  return (region){0, x->live, n->y_row, n->groups, n->y_group, n->width};
}

/* Whole rows; heads of q within a row of q, k and v; pieces from rows of one form into rows of another. */
static tri_norm draw_norm(checker *c, tri_dtype type, int i, int64_t rows, int64_t width) {
  const double eps = i % 2 == 0 ? 1e-5 : 1e-6;
  tri_norm n = tri_norm_of_rows(type, tri_all_rows(rows), width, eps);
  n.offset = i % 4 < 2 ? 0 : 1;
  if (i % 3 == 0 || width > 600) return n;
  n.groups = draw_from(c, 1, 4);
  n.x_group = width + (i % 3 == 1 ? 0 : draw(c, 5));
  n.y_group = width + (i % 3 == 1 ? 0 : draw(c, 5));
  n.x_row = (n.groups + draw(c, 3)) * n.x_group + draw(c, 4);
  n.y_row = n.groups * n.y_group + draw(c, 4);
  return n;
}

static void say(problem *p, const norm_call *x, const char *more) {
  const tri_norm *n = &x->norm;
  describe(p, "%lld rows%s of %lld x %lld, x %lld and %lld apart, y %lld and %lld, offset %g%s",
           (long long)n->rows.capacity, x->count < 0 ? "" : " (counted)", (long long)n->groups, (long long)n->width,
           (long long)n->x_row, (long long)n->x_group, (long long)n->y_row, (long long)n->y_group, n->offset, more);
}

static int64_t x_elements(const norm_call *x) { return x->norm.rows.capacity * x->norm.x_row; }
static int64_t y_elements(const norm_call *x) { return x->norm.rows.capacity * x->norm.y_row; }

static int add_statistic(problem *p, const norm_call *x, const char *name, double centre) {
  const int number = add_array(p, name, p->wide, x->norm.rows.capacity * x->norm.groups);
  fill(p, number, all_of(x->live * x->norm.groups), centre, 0.1);
  return number;
}

static int add_statistic_out(problem *p, const norm_call *x, const char *name) {
  const int number = add_array(p, name, p->wide, x->norm.rows.capacity * x->norm.groups);
  writes(p, number, all_of(x->live * x->norm.groups), false);
  return number;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tri_status run_layer_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, layer_norm_forward, &norm, AT(x->x), maybe(memory, x->branch), maybe(memory, x->sum),
                AT(x->weight), maybe(memory, x->bias), AT(x->y), AT(x->mean), AT(x->rstd));
}
static tri_status run_rms_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, rms_norm_forward, &norm, AT(x->x), maybe(memory, x->branch), maybe(memory, x->sum),
                AT(x->weight), AT(x->y), AT(x->rstd));
}

/* In half of the problems; the sum in an array of its own, or over one of its inputs. */
static const char *add_branch(checker *c, problem *p, norm_call *x) {
  x->branch = x->sum = -1;
  if (draw_bool(c)) return "";
  x->branch = add_array(p, "branch", p->type, x_elements(x));
  fill(p, x->branch, x_region(x), 0, 0.7);
  const int64_t where = draw(c, 3);
  x->sum = where == 0 ? add_array(p, "sum", p->type, x_elements(x)) : where == 1 ? x->x : x->branch;
  writes(p, x->sum, x_region(x), false);
  return where == 0 ? ", branch" : where == 1 ? ", branch, over x" : ", branch, over it";
}

static void forward(checker *c, tri_dtype type, bool centred) {
  norm_call x = {0};
  int64_t rows, width;
  for (int i = 0; next_shape(c, i, &rows, &width); i++) {
    problem p = problem_make(c, type);
    p.run = centred ? run_layer_forward : run_rms_forward;
    p.with = &x;
    x.norm = draw_norm(c, type, i, rows, width);
    x.live = add_rows(&p, rows, &x.count);
    x.x = add_array(&p, "x", type, x_elements(&x));
    fill(&p, x.x, x_region(&x), i % 2 == 0 ? 3.0 : 0.0, 1.5);
    const char *more = add_branch(c, &p, &x);
    x.weight = add_input(&p, "weight", p.wide, width, 1, 0.5);
    x.bias = centred && draw_bool(c) ? add_input(&p, "bias", p.wide, width, 0, 1) : -1;
    x.y = add_array(&p, "y", type, y_elements(&x));
    writes(&p, x.y, y_region(&x), false);
    if (centred) x.mean = add_statistic_out(&p, &x, "mean");
    x.rstd = add_statistic_out(&p, &x, "rstd");
    say(&p, &x, more);
    check(&p);
  }
}

void cases_layer_norm_forward(checker *c, tri_dtype type) { forward(c, type, true); }
void cases_rms_norm_forward(checker *c, tri_dtype type) { forward(c, type, false); }

/* ---- backward of the input --------------------------------------------------------------------------------------- */

static tri_status run_layer_input(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, layer_norm_backward_input, &norm, AT(x->y), AT(x->x), AT(x->weight), AT(x->mean), AT(x->rstd),
                AT(x->gradient_x), x->accumulate);
}
static tri_status run_rms_input(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, rms_norm_backward_input, &norm, AT(x->y), AT(x->x), AT(x->weight), AT(x->rstd),
                AT(x->gradient_x), x->accumulate);
}

static void add_backward(problem *p, norm_call *x, bool centred) {
  x->y = add_array(p, "gradient of y", p->type, y_elements(x));
  fill(p, x->y, y_region(x), 0, 1);
  x->x = add_array(p, "x", p->type, x_elements(x));
  fill(p, x->x, x_region(x), 0.3, 1);
  if (centred) x->mean = add_statistic(p, x, "mean", 0.3);
  x->rstd = add_statistic(p, x, "rstd", 1);
}

static void backward_input(checker *c, tri_dtype type, bool centred) {
  norm_call x = {0};
  int64_t rows, width;
  for (int i = 0; next_shape(c, i, &rows, &width); i++) {
    problem p = problem_make(c, type);
    p.run = centred ? run_layer_input : run_rms_input;
    p.with = &x;
    x.norm = draw_norm(c, type, i, rows, width);
    x.live = add_rows(&p, rows, &x.count);
    const bool same = x.norm.x_row == x.norm.y_row && x.norm.x_group == x.norm.y_group;
    x.accumulate = draw_bool(c);
    add_backward(&p, &x, centred);
    x.weight = add_input(&p, "weight", p.wide, width, 1, 0.5);
    const bool in_place = same && !x.accumulate && draw_bool(c);
    x.gradient_x = in_place ? x.y : add_array(&p, "gradient of x", type, x_elements(&x));
    if (in_place) {
      writes(&p, x.y, y_region(&x), false);
    } else {
      writes(&p, x.gradient_x, x_region(&x), x.accumulate);
    }
    say(&p, &x, x.accumulate ? ", accumulated" : in_place ? ", in place" : "");
    check(&p);
  }
}

void cases_layer_norm_backward_input(checker *c, tri_dtype type) { backward_input(c, type, true); }
void cases_rms_norm_backward_input(checker *c, tri_dtype type) { backward_input(c, type, false); }

/* ---- backward of the weight -------------------------------------------------------------------------------------- */

static tri_status run_layer_weight(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, layer_norm_backward_weight, &norm, AT(x->y), AT(x->x), AT(x->mean), AT(x->rstd),
                AT(x->gradient_weight), maybe(memory, x->gradient_bias), x->accumulate);
}
static tri_status run_rms_weight(const problem *p, tri_queue *queue, char *const *memory) {
  const norm_call *x = p->with;
  const tri_norm norm = norm_of(p, memory);
  return KERNEL(queue, rms_norm_backward_weight, &norm, AT(x->y), AT(x->x), AT(x->rstd), AT(x->gradient_weight),
                x->accumulate);
}

static void backward_weight(checker *c, tri_dtype type, bool centred) {
  norm_call x = {0};
  int64_t rows, width;
  for (int i = 0; next_shape(c, i, &rows, &width); i++) {
    problem p = problem_make(c, type);
    if (rows == 0) continue; /* that many do nothing, and leave a gradient as it is: never requested */
    p.run = centred ? run_layer_weight : run_rms_weight;
    p.with = &x;
    x.norm = draw_norm(c, type, i, rows, width);
    x.live = add_rows(&p, rows, &x.count);
    x.accumulate = draw_bool(c);
    add_backward(&p, &x, centred);
    x.gradient_weight = add_output(&p, "gradient of weight", p.wide, width, x.accumulate);
    x.gradient_bias = centred && draw_bool(c) ? add_output(&p, "gradient of bias", p.wide, width, x.accumulate) : -1;
    say(&p, &x, x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}

void cases_layer_norm_backward_weight(checker *c, tri_dtype type) { backward_weight(c, type, true); }
void cases_rms_norm_backward_weight(checker *c, tri_dtype type) { backward_weight(c, type, false); }
