/* Policy-gradient losses: sums over completions, factors and losses of rows. */
#include "device/policy.h"

#include "mesh/label.h"
#include "problem.h"

#define AT(i) ((void *)memory[i])
#define AT_OR_NULL(i) ((i) < 0 ? NULL : AT(i))

enum { CASES = 24, QUICK_CASES = 12, SUMS = sizeof(tri_policy_sums) / sizeof(double) };

typedef struct policy_call {
  tri_policy_batch of;
  int64_t rows;
  int labels, places, segments, advantage, normaliser, old, behaviour, reference, sums, log_probs, out, losses;
} policy_call;

static policy_call next_call(checker *c, int i) {
  const bool cispo = i % 4 == 3;
  policy_call x = {.of = {.settings = {.objective = cispo ? TRI_POLICY_CISPO : TRI_POLICY_CLIPPED,
                                       .importance = i % 5,
                                       .by_sequence = i % 2,
                                       .has_old = i % 3 != 0,
                                       .epsilon = 0.2,
                                       .epsilon_high = cispo ? 1.5 : 0.28,
                                       .delta = i % 7 < 3 ? 1.7 : TRI_POLICY_NO_LIMIT,
                                       .beta = i % 4 < 2 ? 0.05 : 0,
                                       .importance_min = 0.5,
                                       .importance_max = 3,
                                       .off_policy_limit = i % 6 == 5 ? 0.1 : TRI_POLICY_NO_LIMIT},
                          .sequences = draw_from(c, 1, 4),
                          .tokens = draw_from(c, 4, 90)}};
  x.rows = x.of.sequences * x.of.tokens;
  return x;
}

/* Completions of 1 to 9 labels, with gaps of 0 to 5 tokens. */
static int add_segments(problem *p, const policy_call *x) {
  const int number = add_array(p, "segments", TRI_INT32, x->rows);
  for (int64_t b = 0; b < x->of.sequences; b++) {
    int64_t completion = -1, left = 0, gap = draw(p->checker, 6);
    for (int64_t t = 0; t < x->of.tokens; t++) {
      if (gap == 0 && left == 0) {
        completion++;
        left = 1 + draw(p->checker, 9);
      }
      number_set(TRI_INT32, p->arguments[number].before, b * x->of.tokens + t, gap > 0 ? -1 : (double)completion);
      if (gap > 0) {
        gap--;
      } else if (--left == 0) {
        gap = draw(p->checker, 6);
      }
    }
  }
  return number;
}

static void add_columns(problem *p, policy_call *x) {
  x->segments = add_segments(p, x);
  x->advantage = add_input(p, "advantage", TRI_FP64, x->rows, 0, 1);
  x->normaliser = add_input(p, "normaliser", TRI_FP64, x->rows, 0.1, 0.02);
  x->old = x->of.settings.has_old ? add_input(p, "old", TRI_FP64, x->rows, -2, 0.3) : -1;
  x->behaviour = add_input(p, "behaviour", TRI_FP64, x->rows, -2, 0.3);
  x->reference = x->of.settings.beta > 0 ? add_input(p, "reference", TRI_FP64, x->rows, -2, 0.4) : -1;
  x->log_probs = add_input(p, "log_probs", TRI_FP64, x->rows, -2, 0.3);
}

static tri_status run_sums(const problem *p, tri_queue *queue, char *const *memory) {
  const policy_call *x = p->with;
  return KERNEL(queue, policy_sums, &x->of, AT(x->segments), AT(x->advantage), AT(x->normaliser), AT_OR_NULL(x->old),
                AT(x->behaviour), AT_OR_NULL(x->reference), AT(x->log_probs), AT(x->sums));
}

void cases_policy_sums(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? QUICK_CASES : CASES); i++) {
    problem p = problem_make(c, type);
    policy_call x = next_call(c, i);
    p.run = run_sums;
    p.with = &x;
    add_columns(&p, &x);
    x.sums = add_output(&p, "sums", TRI_FP64, SUMS * x.rows, true); /* those of missing completions stay */
    p.arguments[x.sums].tolerance = 1e-12;
    describe(&p, "settings %d, %lld sequences of %lld tokens", i, (long long)x.of.sequences, (long long)x.of.tokens);
    check(&p);
  }
}

static tri_status run_factors(const problem *p, tri_queue *queue, char *const *memory) {
  const policy_call *x = p->with;
  return KERNEL(queue, policy_factors, &x->of, x->rows, AT(x->labels), AT_OR_NULL(x->places), AT(x->segments),
                AT(x->advantage), AT(x->normaliser), AT_OR_NULL(x->old), AT(x->behaviour), AT_OR_NULL(x->reference),
                AT_OR_NULL(x->sums), AT(x->log_probs), AT(x->out), AT(x->losses));
}

void cases_policy_factors(checker *c, tri_dtype type) {
  for (int i = 0; i < (is_quick(c) ? QUICK_CASES : CASES); i++) {
    problem p = problem_make(c, type);
    policy_call x = next_call(c, i);
    p.run = run_factors;
    p.with = &x;
    x.labels = add_array(&p, "labels", TRI_INT32, x.rows);
    for (int64_t r = 0; r < x.rows; r++)
      number_set(TRI_INT32, p.arguments[x.labels].before, r, draw(c, 8) == 0 ? TRI_LABEL_NONE : 7);
    x.places = i % 2 == 0 ? -1 : add_array(&p, "places", TRI_INT32, x.rows);
    for (int64_t r = 0; r < x.rows && x.places >= 0; r++)
      number_set(TRI_INT32, p.arguments[x.places].before, r, (double)(x.rows - 1 - r));
    add_columns(&p, &x);
    x.sums = tri_policy_has_sums(&x.of.settings) ? add_input(&p, "sums", TRI_FP64, SUMS * x.rows, 0, 0.2) : -1;
    x.out = add_output(&p, "factors", TRI_FP64, x.rows, false);
    x.losses = add_output(&p, "losses", TRI_FP64, x.rows, false);
    p.arguments[x.out].tolerance = p.arguments[x.losses].tolerance = 1e-12;
    describe(&p, "settings %d, %lld sequences of %lld tokens", i, (long long)x.of.sequences, (long long)x.of.tokens);
    check(&p);
  }
}
