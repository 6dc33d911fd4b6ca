/* Objectives of completions: log-probabilities of labels, slopes of a loss, factors of rows. */
#include "mesh/label.h"
#include "problem.h"

#define AT(i) ((void *)memory[i])

typedef struct completions_call {
  tri_completions of;
  int64_t rows, count;
  int labels, places, weights, maximum, sum, label_logit, log_probs, reference, segments, values, slopes, out, losses;
  bool accumulate;
} completions_call;

enum { MOST_CASES = 12 };

/* Every fourth one does not count. */
static int add_labels(problem *p, int64_t rows) {
  const int number = add_array(p, "labels", TRI_INT32, rows);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t kind = draw(p->checker, 8);
    const int64_t none = kind == 0 ? TRI_LABEL_NONE : TRI_LABEL_PADDING;
    number_set(TRI_INT32, p->arguments[number].before, r, (double)(kind < 2 ? none : draw(p->checker, 50000)));
  }
  return number;
}

/* A permutation: row r of `rows` is row a r + b of them. */
static int add_places(problem *p, int64_t rows) {
  const int number = add_array(p, "places", TRI_INT32, rows);
  const int64_t by = draw(p->checker, rows + 1);
  for (int64_t r = 0; r < rows; r++)
    number_set(TRI_INT32, p->arguments[number].before, r, (double)(rows - 1 - (r + by) % rows));
  return number;
}

/* Prompts and answers, one after the other; padding at the end. */
static int add_segments(problem *p, const tri_completions *of) {
  const int number = add_array(p, "segments", TRI_INT32, of->sequences * of->tokens);
  const bool paired = tri_preference_is_paired(of->preference.loss);
  for (int64_t b = 0; b < of->sequences; b++) {
    int64_t completion = 0, left = 0;
    const int64_t end = of->tokens - draw(p->checker, of->tokens / 2 + 1);
    for (int64_t t = 0; t < of->tokens; t++) {
      const bool answers = left > 0 && t < end;
      number_set(TRI_INT32, p->arguments[number].before, b * of->tokens + t, answers ? (double)completion : -1);
      left--;
      if (left > -2) continue;
      completion += t == 1 ? 0 : paired || draw_bool(p->checker) ? 1 : 2;
      if (completion >= 2 * of->pairs) break;
      left = 1 + draw(p->checker, 9);
    }
  }
  argument *a = &p->arguments[number];
  for (int64_t i = 0; i < a->count; i++) {
    if (number_get(TRI_INT32, a->before, i) >= (double)(2 * of->pairs)) number_set(TRI_INT32, a->before, i, -1);
  }
  return number;
}

static completions_call next_call(checker *c, int i) {
  static const double betas[] = {0.1, 1, 0.01};
  completions_call x = {.of = {.preference = {.loss = i % 17,
                                              .beta = betas[i % 3],
                                              .label_smoothing = 0.1,
                                              .simpo_gamma = 0.5,
                                              .desirable_weight = 1.5,
                                              .undesirable_weight = 0.75,
                                              .discopop_tau = 0.05},
                               .sequences = draw_from(c, 1, 4),
                               .tokens = draw_from(c, 4, 90)}};
  x.of.pairs = x.of.tokens;
  x.rows = x.of.sequences * x.of.tokens;
  return x;
}

static int add_values(problem *p) {
  const tri_step_values values = {.loss_scale = 0.25, .segment_scale = 0.125, .kl = 0.3, .gradient_scale = NAN};
  return add_bytes(p, "values", &values, sizeof values);
}

static int add_double_output(problem *p, const char *name, int64_t count) {
  const int number = add_output(p, name, TRI_FP64, count, false);
  p->arguments[number].tolerance = 1e-12; /* in double, whatever the type */
  return number;
}

/* ---- label_log_probs --------------------------------------------------------------------------------------------- */

static tri_status run_log_probs(const problem *p, tri_queue *queue, char *const *memory) {
  const completions_call *x = p->with;
  return KERNEL(queue, label_log_probs, p->type, x->rows, AT(x->labels), x->places < 0 ? NULL : AT(x->places),
                AT(x->maximum), AT(x->sum), AT(x->label_logit), AT(x->out), x->losses < 0 ? NULL : AT(x->losses));
}

void cases_label_log_probs(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? 6 : MOST_CASES); i++) {
    problem p = problem_make(c, type);
    completions_call x = next_call(c, i);
    p.run = run_log_probs;
    p.with = &x;
    x.labels = add_labels(&p, x.rows);
    x.places = i % 2 == 0 ? -1 : add_places(&p, x.rows);
    x.maximum = add_input(&p, "maximum", p.wide, x.rows, 3, 1);
    x.label_logit = add_input(&p, "label_logit", p.wide, x.rows, 0, 1);
    x.sum = add_array(&p, "sum", p.wide, x.rows);
    for (int64_t r = 0; r < x.rows; r++)
      number_set(p.wide, p.arguments[x.sum].before, r, 1 + (double)draw(c, 1000) / 10);
    x.out = add_double_output(&p, "log_probs", x.rows);
    x.losses = i % 2 == 0 ? -1 : add_double_output(&p, "whole", x.rows);
    describe(&p, "%lld rows%s", (long long)x.rows, i % 2 == 0 ? "" : ", and in other places");
    check(&p);
  }
}

/* ---- completion_slopes ------------------------------------------------------------------------------------------- */

static tri_status run_slopes(const problem *p, tri_queue *queue, char *const *memory) {
  const completions_call *x = p->with;
  return KERNEL(queue, completion_slopes, &x->of, AT(x->segments), AT(x->log_probs),
                x->reference < 0 ? NULL : AT(x->reference), AT(x->values), AT(x->out), AT(x->losses));
}

/* Each loss with and without a reference. */
void cases_completion_slopes(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? 17 : 51); i++) {
    problem p = problem_make(c, type);
    completions_call x = next_call(c, i);
    p.run = run_slopes;
    p.with = &x;
    x.segments = add_segments(&p, &x.of);
    x.log_probs = add_input(&p, "log_probs", TRI_FP64, x.rows, -2, 0.5);
    x.reference = i % 5 == 4 ? -1 : add_input(&p, "reference", TRI_FP64, x.rows, -2, 0.5);
    x.values = add_values(&p);
    x.out = add_double_output(&p, "slopes", 2 * x.of.sequences * x.of.pairs);
    x.losses = add_double_output(&p, "losses", x.of.sequences * x.of.pairs);
    describe(&p, "loss %d, %lld sequences of %lld tokens", x.of.preference.loss, (long long)x.of.sequences,
             (long long)x.of.tokens);
    check(&p);
  }
}

/* ---- label_factors ----------------------------------------------------------------------------------------------- */

static tri_status run_factors(const problem *p, tri_queue *queue, char *const *memory) {
  const completions_call *x = p->with;
  return KERNEL(queue, label_factors, &x->of, x->rows, AT(x->labels), AT(x->weights),
                x->places < 0 ? NULL : AT(x->places), AT(x->segments), AT(x->slopes), AT(x->log_probs), AT(x->values),
                AT(x->out), AT(x->losses));
}

void cases_label_factors(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? 6 : MOST_CASES); i++) {
    problem p = problem_make(c, type);
    completions_call x = next_call(c, i);
    p.run = run_factors;
    p.with = &x;
    x.labels = add_labels(&p, x.rows);
    x.weights = add_input(&p, "weights", TRI_FP32, x.rows, 1, 0.3);
    x.places = i % 2 == 0 ? -1 : add_places(&p, x.rows);
    x.segments = add_segments(&p, &x.of);
    x.slopes = add_input(&p, "slopes", TRI_FP64, 2 * x.of.sequences * x.of.pairs, 0, 1);
    x.log_probs = add_input(&p, "log_probs", TRI_FP64, x.rows, -2, 0.5);
    x.values = add_values(&p);
    x.out = add_double_output(&p, "factors", x.rows);
    x.losses = add_double_output(&p, "losses", x.rows);
    describe(&p, "%lld sequences of %lld tokens%s", (long long)x.of.sequences, (long long)x.of.tokens,
             i % 2 == 0 ? "" : ", of other ranks' too");
    check(&p);
  }
}

/* ---- sum_doubles ------------------------------------------------------------------------------------------------- */

static tri_status run_sum(const problem *p, tri_queue *queue, char *const *memory) {
  const completions_call *x = p->with;
  return KERNEL(queue, sum_doubles, x->count, AT(x->log_probs), AT(x->out), x->accumulate);
}

void cases_sum_doubles(checker *c, tri_dtype type) {
  static const int64_t counts[] = {0, 1, 2, 63, 257, 1025, 70001};
  for (int i = 0; i < (int)(sizeof counts / sizeof counts[0]); i++) {
    problem p = problem_make(c, type);
    completions_call x = {.count = counts[i], .accumulate = i % 2 == 1};
    p.run = run_sum;
    p.with = &x;
    x.log_probs = add_input(&p, "in", TRI_FP64, x.count, 3, 1);
    x.out = add_output(&p, "out", TRI_FP64, 1, x.accumulate);
    p.arguments[x.out].tolerance = 1e-12;
    describe(&p, "%lld elements%s", (long long)x.count, x.accumulate ? ", accumulated" : "");
    check(&p);
  }
}
