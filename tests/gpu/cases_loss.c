/* The loss, the optimizer and sums. */
#include "device/exact_sum.h"
#include "mesh/label.h"
#include "problem.h"

#include <math.h>
#include <stdint.h>

#define AT(i) ((void *)memory[i])

typedef struct loss_call {
  int64_t rows, vocabulary, ld, gradient_ld, first_id;
  int logits, labels, weights, values, maximum, sum, label_logit, out;
  int factors, slopes, means, losses, spread; /* arguments of an entropy bonus */
  tri_logit_form form;
} loss_call;

/* Vocabularies and how long rows are beyond them. */
static bool next_loss(checker *c, int i, loss_call *x) {
  static const int64_t fixed[][3] = {{1, 1, 0}, {2, 3, 1},   {5, 257, 0}, {3, 1000, 3},
                                     {0, 8, 0}, {9, 64, 64}, {2, 5003, 1}};
  static const int64_t large[][3] = {{64, 50257, 47}, {1027, 512, 0}, {4, 128256, 0}};
  const int num_fixed = sizeof fixed / sizeof fixed[0], num_large = is_quick(c) ? 0 : sizeof large / sizeof large[0];
  const int64_t drawn[3] = {draw_from(c, 1, 20), draw_from(c, 1, 700), draw(c, 5)};
  const int64_t *shape = i < num_fixed ? fixed[i] : i < num_fixed + num_large ? large[i - num_fixed] : drawn;
  *x = (loss_call){.rows = shape[0], .vocabulary = shape[1], .ld = shape[1] + shape[2]};
  x->first_id = i % 3 == 0 ? 0 : draw(c, 100000);
  return i < num_fixed + num_large + (is_quick(c) ? 3 : 8);
}

/* Adds labels: some are in this slice, some in another rank's, and some are ignored. */
static int add_labels(problem *p, const loss_call *x) {
  const int number = add_array(p, "labels", TRI_INT32, x->rows);
  for (int64_t r = 0; r < x->rows; r++) {
    const int64_t inside = x->first_id + draw(p->checker, x->vocabulary);
    const int64_t kind = draw(p->checker, 6), ignored = r % 2 == 0 ? TRI_LABEL_NONE : TRI_LABEL_PADDING;
    const int64_t outside = kind == 0 ? x->first_id + x->vocabulary : x->first_id > 0 ? x->first_id - 1 : inside;
    number_set(TRI_INT32, p->arguments[number].before, r, (double)(kind == 2 ? ignored : kind < 2 ? outside : inside));
  }
  return number;
}

/* Every third problem has logits that exp cannot hold. */
static int add_logits(problem *p, const loss_call *x, int i) {
  const int number = add_array(p, "logits", p->wide, x->rows * x->ld);
  fill(p, number, matrix_of(x->rows, x->ld, x->vocabulary), i % 3 == 2 ? 500 : 0, i % 3 == 2 ? 3000 : 3);
  return number;
}

static void say(problem *p, const loss_call *x, const char *more) {
  describe(p, "%lld rows of %lld logits, %lld apart, from id %lld%s", (long long)x->rows, (long long)x->vocabulary,
           (long long)x->ld, (long long)x->first_id, more);
}

/* ---- softmax_logits, _statistics, _rescale, _loss ---------------------------------------------------------------- */

/* None, a scale, a cap, and both. */
static tri_logit_form form_of(int i) {
  static const tri_logit_form forms[] = {{1, 0}, {1, 30}, {0.0625, 0}, {1.3, 2}, {-0.3, 50}};
  return forms[i % (int)(sizeof forms / sizeof forms[0])];
}

static tri_status run_logits(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_logits, p->type, x->rows, x->vocabulary, x->ld, x->form, AT(x->logits));
}

void cases_softmax_logits(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_logits;
    p.with = &x;
    x.form = form_of(i + 1);
    x.logits = add_logits(&p, &x, i);
    writes(&p, x.logits, matrix_of(x.rows, x.ld, x.vocabulary), false);
    describe(&p, "%lld rows of %lld logits, %lld apart, by %g, to %g", (long long)x.rows, (long long)x.vocabulary,
             (long long)x.ld, x.form.scale, x.form.soft_cap);
    check(&p);
  }
}

static tri_status run_statistics(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_statistics, p->type, x->rows, x->vocabulary, x->ld, AT(x->logits), AT(x->labels),
                x->first_id, AT(x->maximum), AT(x->sum), AT(x->label_logit));
}

/* The largest logit and the label's are elements of the input. */
void cases_softmax_statistics(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_statistics;
    p.with = &x;
    x.logits = add_logits(&p, &x, i);
    x.labels = add_labels(&p, &x);
    x.maximum = add_output(&p, "maximum", p.wide, x.rows, false);
    x.sum = add_output(&p, "sum", p.wide, x.rows, false);
    x.label_logit = add_output(&p, "label_logit", p.wide, x.rows, false);
    p.arguments[x.maximum].exact = p.arguments[x.label_logit].exact = true;
    say(&p, &x, "");
    check(&p);
  }
}

static tri_status run_rescale(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_rescale, p->type, x->rows, AT(x->maximum), AT(x->label_logit), AT(x->sum));
}

void cases_softmax_rescale(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_rescale;
    p.with = &x;
    x.maximum = add_input(&p, "from", p.wide, x.rows, 0, 1);
    x.label_logit = add_input(&p, "to", p.wide, x.rows, 1, 1);
    x.sum = add_output(&p, "sum", p.wide, x.rows, true);
    describe(&p, "%lld rows", (long long)x.rows);
    check(&p);
  }
}

/* ---- query_logits ------------------------------------------------------------------------------------------------ */

/* Returns a uniform random number in the middle of the interval of a token that is not unlikely. */
static double middle_of(const problem *p, const loss_call *x, int64_t row, double temperature) {
  const void *logits = p->arguments[x->logits].before;
  double most = -INFINITY, total = 0, before = 0, best = 0, middle = 0;
  for (int64_t v = 0; v < x->vocabulary; v++) most = fmax(most, number_get(p->wide, logits, row * x->ld + v));
  for (int64_t v = 0; v < x->vocabulary; v++)
    total += exp((number_get(p->wide, logits, row * x->ld + v) - most) / temperature);
  const int64_t first = draw(p->checker, x->vocabulary); /* the likeliest token from this one on */
  for (int64_t v = 0; v < x->vocabulary; v++) {
    const double weight = exp((number_get(p->wide, logits, row * x->ld + v) - most) / temperature);
    if ((v >= first || best < total / 1000) && weight > best) {
      best = weight;
      middle = before + weight / 2;
    }
    before += weight;
  }
  return middle / total;
}

/* Sampled at several temperatures, the likeliest, and given; row 2 holds a logit that is not finite. */
static void add_queries(problem *p, loss_call *x, int i) {
  static const double temperatures[] = {1, 0.7, 0, 1, 3}, not_finite[] = {NAN, INFINITY, -INFINITY};
  x->labels = add_array(p, "queries", TRI_FP64, 3 * x->rows);
  tri_logit_query *queries = (void *)p->arguments[x->labels].before;
  for (int64_t r = 0; r < x->rows; r++) {
    const double temperature = temperatures[(r + i) % 5];
    queries[r] = (tri_logit_query){.temperature = temperature,
                                   .uniform = middle_of(p, x, r, temperature > 0 ? temperature : 1),
                                   .row = (int32_t)r,
                                   .given = (r + i) % 5 > 2 ? (int32_t)draw(p->checker, x->vocabulary) : -1};
  }
  if (x->rows > 2)
    number_set(p->wide, p->arguments[x->logits].before, 2 * x->ld + draw(p->checker, x->vocabulary), not_finite[i % 3]);
}

static tri_status run_queries(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, query_logits, p->type, x->rows, x->vocabulary, x->ld, AT(x->logits), AT(x->labels),
                AT(x->maximum), AT(x->sum));
}

void cases_query_logits(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_queries;
    p.with = &x;
    x.logits = add_logits(&p, &x, i);
    add_queries(&p, &x, i);
    x.maximum = add_output(&p, "ids", TRI_INT32, x.rows, false);
    x.sum = add_output(&p, "numbers", TRI_FP64, TRI_LOGIT_NUMBERS * x.rows, false);
    p.arguments[x.maximum].exact = true;
    p.arguments[x.sum].tolerance = tolerance_of(p.wide); /* exponentials are of that type */
    say(&p, &x, "");
    check(&p);
  }
}

static void add_statistics(problem *p, loss_call *x, double logit_scale) {
  x->maximum = add_input(p, "maximum", p->wide, x->rows, 4 * logit_scale, 0.1);
  x->sum = add_array(p, "sum", p->wide, x->rows);
  for (int64_t r = 0; r < x->rows; r++)
    number_set(p->wide, p->arguments[x->sum].before, r, 1 + (double)draw(p->checker, 100) / 10);
}

static tri_status run_loss(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_loss, p->type, x->rows, AT(x->labels), AT(x->weights), AT(x->maximum), AT(x->sum),
                AT(x->label_logit), AT(x->out));
}

void cases_softmax_loss(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_loss;
    p.with = &x;
    x.labels = add_labels(&p, &x);
    x.weights = add_input(&p, "weights", TRI_FP32, x.rows, 1, 0.3);
    add_statistics(&p, &x, 1);
    x.label_logit = add_input(&p, "label_logit", p.wide, x.rows, 0, 1);
    x.out = add_output(&p, "losses", p.wide, x.rows, false);
    say(&p, &x, "");
    check(&p);
  }
}

/* ---- softmax_gradient -------------------------------------------------------------------------------------------- */

static tri_status run_gradient(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_gradient, p->type, x->rows, x->vocabulary, x->ld, x->form, AT(x->logits), AT(x->labels),
                AT(x->weights), NULL, x->first_id, AT(x->values), AT(x->maximum), AT(x->sum), x->gradient_ld,
                AT(x->out));
}

/* In the logits' own memory: an array of the gradient's type that begins as one of logits. */
static int add_logits_below(problem *p, loss_call *x) {
  const int64_t each = (int64_t)(tri_dtype_bytes(p->wide) / tri_dtype_bytes(p->type));
  const int number = add_array(p, "logits and gradient", p->type, x->rows * x->ld * each);
  for (int64_t r = 0; r < x->rows; r++) {
    for (int64_t v = 0; v < x->vocabulary; v++)
      number_set(p->wide, p->arguments[number].before, r * x->ld + v, 3 * draw_normal(p->checker));
  }
  x->gradient_ld = x->ld * each;
  p->arguments[number].aligned = each > 1;
  writes(p, number, matrix_of(x->rows, x->gradient_ld, x->vocabulary), false);
  return number;
}

static tri_status run_gradient_entropy(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_gradient_entropy, p->type, x->rows, x->vocabulary, x->ld, x->form, AT(x->logits),
                AT(x->labels), AT(x->factors), AT(x->slopes), AT(x->means), x->first_id, AT(x->maximum), AT(x->sum),
                x->gradient_ld, AT(x->out));
}

static void cases_gradient(checker *c, tri_dtype type, bool entropy) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    const tri_step_values values = {.loss_scale = 0.125, .lr = NAN, .gradient_scale = NAN};
    const bool in_place = i % 2 == 1;
    p.run = entropy ? run_gradient_entropy : run_gradient;
    p.with = &x;
    x.form = form_of(i / 2);
    x.labels = add_labels(&p, &x);
    if (entropy) {
      x.factors = add_input(&p, "factors", TRI_FP64, x.rows, 0, 0.1);
      x.slopes = add_input(&p, "slopes", TRI_FP64, x.rows, 0.1, 0.03);
      x.means = add_input(&p, "means", TRI_FP64, x.rows, -3, 1);
    } else {
      x.weights = add_input(&p, "weights", TRI_FP32, x.rows, 1, 0.3);
      x.values = add_bytes(&p, "values", &values, sizeof values);
    }
    add_statistics(&p, &x, 3);
    if (in_place) {
      x.out = x.logits = add_logits_below(&p, &x);
    } else {
      x.logits = add_array(&p, "logits", p.wide, x.rows * x.ld);
      fill(&p, x.logits, matrix_of(x.rows, x.ld, x.vocabulary), 0, 3);
      x.gradient_ld = x.vocabulary + draw(c, 4);
      x.out = add_array(&p, "gradient", type, x.rows * x.gradient_ld);
      writes(&p, x.out, matrix_of(x.rows, x.gradient_ld, x.vocabulary), false);
    }
    p.arguments[x.out].yardstick = 1e-3; /* times loss_scale, and most are of unlikely ids */
    say(&p, &x, x.form.soft_cap > 0 ? in_place ? ", capped, in place" : ", capped" : in_place ? ", in place" : "");
    check(&p);
  }
}

void cases_softmax_gradient(checker *c, tri_dtype type) { cases_gradient(c, type, false); }
void cases_softmax_gradient_entropy(checker *c, tri_dtype type) { cases_gradient(c, type, true); }

/* ---- entropy ----------------------------------------------------------------------------------------------------- */

static tri_status run_spread(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, softmax_spread, p->type, x->rows, x->vocabulary, x->ld, AT(x->logits), AT(x->maximum),
                AT(x->spread));
}

void cases_softmax_spread(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_spread;
    p.with = &x;
    add_statistics(&p, &x, 3);
    x.logits = add_array(&p, "logits", p.wide, x.rows * x.ld);
    fill(&p, x.logits, matrix_of(x.rows, x.ld, x.vocabulary), 0, 3);
    x.spread = add_output(&p, "spread", p.wide, x.rows, false);
    say(&p, &x, "");
    check(&p);
  }
}

static tri_status run_entropy(const problem *p, tri_queue *queue, char *const *memory) {
  const loss_call *x = p->with;
  return KERNEL(queue, entropy_terms, p->type, x->rows, AT(x->labels), AT(x->weights), 0.3, AT(x->values), AT(x->sum),
                AT(x->spread), AT(x->slopes), AT(x->means), AT(x->losses));
}

void cases_entropy_terms(checker *c, tri_dtype type) {
  loss_call x;
  for (int i = 0; next_loss(c, i, &x); i++) {
    problem p = problem_make(c, type);
    const tri_step_values values = {.loss_scale = 0.125, .lr = NAN, .gradient_scale = NAN};
    p.run = run_entropy;
    p.with = &x;
    x.labels = add_labels(&p, &x);
    x.weights = add_input(&p, "weights", TRI_FP32, x.rows, 1, 0.3);
    x.values = add_bytes(&p, "values", &values, sizeof values);
    add_statistics(&p, &x, 3);
    x.spread = add_input(&p, "spread", p.wide, x.rows, -6, 1);
    x.slopes = add_output(&p, "slopes", TRI_FP64, x.rows, false);
    x.means = add_output(&p, "means", TRI_FP64, x.rows, false);
    x.losses = add_output(&p, "losses", TRI_FP64, x.rows, true);
    for (int of = x.slopes; of <= x.losses; of++) p.arguments[of].tolerance = 1e-12;
    say(&p, &x, "");
    check(&p);
  }
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

typedef struct adamw_call {
  tri_adamw options;
  int64_t count;
  int values, parameter, gradient, moment1, moment2, narrow; /* narrow -1: without */
} adamw_call;

static tri_status run_adamw(const problem *p, tri_queue *queue, char *const *memory) {
  const adamw_call *x = p->with;
  return KERNEL(queue, adamw, p->type, x->count, &x->options, AT(x->values), AT(x->parameter), AT(x->gradient),
                AT(x->moment1), AT(x->moment2), x->narrow < 0 ? NULL : AT(x->narrow));
}

/* A large rate, so that a wrong step is not lost in the parameter; second moments are positive. */
static void adamw_case(checker *c, tri_dtype type, int64_t count, int number, bool narrow) {
  static const int64_t updates[] = {1, 2, 10, 100000};
  problem p = problem_make(c, type);
  adamw_call x = {.count = count, .options = {0.9, 0.95, 1e-8, number % 2 == 0 ? 0.1 : 0, 1}, .narrow = -1};
  const tri_step_values values = {.lr = 0.1, .gradient_scale = 0.5, .loss_scale = NAN, .update = updates[draw(c, 4)]};
  p.run = run_adamw;
  p.with = &x;
  x.values = add_bytes(&p, "values", &values, sizeof values);
  x.parameter = add_output(&p, "parameter", p.wide, x.count, true);
  x.gradient = add_input(&p, "gradient", p.wide, x.count, 0, 1);
  x.moment1 = add_output(&p, "moment1", p.wide, x.count, true);
  x.moment2 = add_output(&p, "moment2", p.wide, x.count, true);
  if (narrow) x.narrow = add_output(&p, "narrow", type, x.count, false);
  for (int64_t e = 0; e < x.count; e++) {
    unsigned char *moments = p.arguments[x.moment2].before;
    number_set(p.wide, moments, e, number == 1 ? 0 : fabs(number_get(p.wide, moments, e)));
  }
  describe(&p, "%lld elements, update %lld, decay %g%s", (long long)x.count, (long long)values.update,
           x.options.weight_decay, narrow ? ", and a copy" : "");
  check(&p);
}

/* With the copy where type is narrower than the parameter. */
void cases_adamw(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 3, 4, 130, 2051, 16400, 2359296};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
    adamw_case(c, type, counts[i], (int)i, false);
    if (type != tri_dtype_wide(type)) adamw_case(c, type, counts[i], (int)i, true);
  }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef struct sum_call {
  int64_t count, block;
  int in, out;
  bool accumulate;
} sum_call;

static int add_exact_sum(problem *p, bool exact) {
  tri_exact_sum sum = {0};
  for (int i = 0; i < 40; i++) tri_exact_sum_add(&sum, ldexp(fabs(draw_normal(p->checker)), (int)draw(p->checker, 8)));
  const int number = add_bytes(p, "sum", &sum, sizeof sum);
  argument *a = &p->arguments[number];
  writes(p, number, all_of(a->count), false);
  a->sum = true;
  a->exact = exact;
  a->tolerance = 1e-12; /* in double, whatever the type */
  return number;
}

static tri_status run_block_squares(const problem *p, tri_queue *queue, char *const *memory) {
  const sum_call *x = p->with;
  return KERNEL(queue, block_squares, p->type, x->count, x->block, AT(x->in), AT(x->out));
}

void cases_block_squares(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 255, 256, 257, 5000, 100001, 3000000};
  static const int64_t blocks[] = {256, 1, 7, 256, 1000, 256, 256, 256};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
    for (int broken = 0; broken < (counts[i] > 256 ? 3 : 1); broken++) {
      problem p = problem_make(c, type);
      sum_call x = {.count = counts[i], .block = blocks[i]};
      p.run = run_block_squares;
      p.with = &x;
      x.in = add_input(&p, "in", p.wide, x.count, 0, i % 2 == 0 ? 1 : 1e-3);
      if (broken > 0) number_set(p.wide, p.arguments[x.in].before, draw(c, x.count), broken == 1 ? NAN : INFINITY);
      x.out = add_exact_sum(&p, false);
      describe(&p, "%lld elements in blocks of %lld%s", (long long)x.count, (long long)x.block,
               broken > 0 ? ", one is not finite" : "");
      check(&p);
    }
  }
}

static tri_status run_sum(const problem *p, tri_queue *queue, char *const *memory) {
  const sum_call *x = p->with;
  return KERNEL(queue, sum, p->type, x->count, AT(x->in), AT(x->out), x->accumulate);
}

void cases_sum(checker *c, tri_dtype type) {
  static const int64_t counts[] = {1, 2, 63, 1025, 8192, 70001, 2000001};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] - (is_quick(c) ? 1 : 0); i++) {
    problem p = problem_make(c, type);
    sum_call x = {.count = counts[i], .accumulate = i % 2 == 1};
    p.run = run_sum;
    p.with = &x;
    x.in = add_input(&p, "in", p.wide, x.count, 3, 1);
    x.out = add_output(&p, "out", TRI_FP64, 1, x.accumulate);
    describe(&p, "%lld elements%s", (long long)x.count, x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}

static tri_status run_exact_add(const problem *p, tri_queue *queue, char *const *memory) {
  const sum_call *x = p->with;
  (void)p;
  return KERNEL(queue, exact_add, AT(x->in), AT(x->out));
}

void cases_exact_add(checker *c, tri_dtype type) {
  static const double values[] = {
      1,    -0x1.23456789abcdep+3,   0.1,       1e300,    -1e300, 1e-300,      0x1p-1074, -3e-320, 0,
      -0.0, 0x1.fffffffffffffp+1023, 0x1p-1022, INFINITY, NAN,    12345.678901};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    problem p = problem_make(c, type);
    sum_call x = {.in = add_bytes(&p, "value", &values[i], sizeof values[i])};
    p.run = run_exact_add;
    p.with = &x;
    x.out = add_exact_sum(&p, true);
    describe(&p, "%.17g", values[i]);
    check(&p);
  }
}
