/* Routers: those of published models, and shapes at the limits. The chosen experts are compared exactly, so no two
 * experts, and no two groups, are nearly equal in logits; some are exactly equal, and then the one with the lower
 * number comes first. */
#include "mesh/label.h"
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(i) ((void *)memory[i])

typedef struct router_call {
  tri_router router;
  int64_t rows, live, first_row, sequence_rows, sequences;
  double z, coefficient;
  int count, labels, logits, bias, experts, weights, gradient, balance, values, loads, loss, out; /* none: -1 */
} router_call;

/* scoring, experts, chosen; groups, kept, best of each; quota, normalised, scale */
static const tri_router routers[] = {
    {8, 2, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true},         /* Mixtral         */
    {64, 8, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, false},       /* OLMoE           */
    {128, 8, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true},       /* Qwen3           */
    {256, 8, 8, 4, 2, 2.5, TRI_ROUTER_SIGMOID, false, true},     /* DeepSeek-V3     */
    {64, 8, 8, 8, 1, 1, TRI_ROUTER_SOFTMAX, true, true},         /* Pangu Pro: MoGE */
    {12, 4, 4, 2, 3, 1, TRI_ROUTER_SIGMOID, true, true},         /* quota of some groups */
    {12, 6, 3, 2, 2, 0.5, TRI_ROUTER_SOFTMAX, false, false},     /* more than half of those kept */
    {33, 7, 1, 1, 1, 2, TRI_ROUTER_SIGMOID, false, false},       /* no whole warp   */
    {1, 1, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true},         /* no choice       */
    {5, 5, 5, 5, 1, 1, TRI_ROUTER_SIGMOID, false, true},         /* all of them     */
    {1024, 64, 32, 16, 2, 1, TRI_ROUTER_SIGMOID, true, true},    /* the most        */
    {1000, 64, 1000, 100, 1, 1, TRI_ROUTER_SOFTMAX, false, true} /* groups of one   */
};
enum { NUM_ROUTERS = sizeof routers / sizeof routers[0] };

static const int64_t row_counts[] = {1, 3, 17, 0, 70, 129};
enum { NUM_ROWS = sizeof row_counts / sizeof row_counts[0] };

static void say(problem *p, const router_call *x) {
  const tri_router *r = &x->router;
  describe(p, "%lld of %lld rows, %s, %lld of %lld experts, %lld of %lld groups%s%s, times %g", (long long)x->live,
           (long long)x->rows, r->scoring == TRI_ROUTER_SIGMOID ? "sigmoid" : "softmax", (long long)r->chosen,
           (long long)r->experts, (long long)r->kept_groups, (long long)r->groups, r->quota ? ", quota" : "",
           r->normalised ? ", normalised" : "", r->scale);
}

/* Number i of a kernel's problems, until it returns false: each router, with rows of every number in turn. */
static bool next_router(const checker *c, int i, router_call *x) {
  *x = (router_call){.router = routers[i % NUM_ROUTERS], .rows = row_counts[i % NUM_ROWS]};
  if (i >= NUM_ROUTERS && i < NUM_ROUTERS + NUM_ROWS) x->rows = row_counts[(i + 1) % NUM_ROWS];
  if (x->router.experts >= 1000 && x->rows > 20) x->rows = 20;
  if (!is_quick(c) && i % 11 == 5) x->rows = 2000;
  return i < NUM_ROUTERS * (is_quick(c) ? 2 : 5);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tri_status run_forward(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_forward, p->type, rows_of(p, x->rows, x->count, memory), &x->router,
                x->labels < 0 ? NULL : AT(x->labels), AT(x->logits), x->bias < 0 ? NULL : AT(x->bias), AT(x->experts),
                AT(x->weights));
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Whether the scores of groups differ enough for fp32 to see it. */
static bool groups_differ(const tri_router *r, const double *choice) {
  const int64_t width = r->experts / r->groups;
  double sums[TRI_ROUTER_EXPERTS], sorted[TRI_ROUTER_EXPERTS];
  if (r->best_of_group == 1) return true; /* as its experts do */
  for (int64_t g = 0; g < r->groups; g++) {
    memcpy(sorted, choice + g * width, (size_t)width * sizeof(double));
    qsort(sorted, (size_t)width, sizeof(double), by_value);
    sums[g] = 0;
    for (int64_t i = 0; i < r->best_of_group; i++) sums[g] += sorted[width - 1 - i];
  }
  qsort(sums, (size_t)r->groups, sizeof(double), by_value);
  for (int64_t g = 1; g < r->groups; g++)
    if (sums[g] - sums[g - 1] < 1e-5 * fabs(sums[g])) return false;
  return true;
}

/* Different logits, in any order. A sigmoid's scores lie below a half and 1 / (2 experts) apart, and biases are
 * multiples of a half: so the choices differ too. */
static void draw_row(checker *c, const tri_router *r, const double *bias, double *logits) {
  double choice[TRI_ROUTER_EXPERTS];
  for (int tries = 0; tries < 1000; tries++) {
    for (int64_t i = 0; i < r->experts; i++) {
      const int64_t at = draw(c, i + 1);
      logits[i] = logits[at];
      logits[at] = ((double)i + 0.5) / (double)r->experts;
    }
    double sum = 0;
    for (int64_t i = 0; i < r->experts; i++) {
      const double half = 0.5 * logits[i];
      logits[i] = r->scoring == TRI_ROUTER_SIGMOID ? log(half / (1 - half)) : 8 * logits[i] - 5;
      choice[i] = r->scoring == TRI_ROUTER_SIGMOID ? half : exp(logits[i]);
      sum += choice[i];
    }
    for (int64_t i = 0; i < r->experts; i++)
      choice[i] = choice[i] / (r->scoring == TRI_ROUTER_SIGMOID ? 1 : sum) + bias[i];
    if (groups_differ(r, choice)) return;
  }
}

/* Logits of a few values: equal ones have equal scores on any device. */
static void draw_equals(checker *c, const tri_router *r, double *logits) {
  static const double few[] = {0, 0.5, 1.5};
  for (int64_t i = 0; i < r->experts; i++) logits[i] = few[draw(c, 3)];
}

static void add_logits(problem *p, router_call *x, bool biased, bool equals) {
  const tri_router *r = &x->router;
  double bias[TRI_ROUTER_EXPERTS] = {0}, row[TRI_ROUTER_EXPERTS] = {0};
  x->bias = biased ? add_array(p, "bias", p->wide, r->experts) : -1;
  for (int64_t i = 0; i < r->experts && biased; i++) {
    bias[i] = equals ? 0.25 : 0.5 * (double)draw(p->checker, 3);
    number_set(p->wide, p->arguments[x->bias].before, i, bias[i]);
  }
  x->logits = add_array(p, "logits", p->wide, x->rows * r->experts);
  for (int64_t row_at = 0; row_at < x->live; row_at++) {
    if (equals) {
      draw_equals(p->checker, r, row);
    } else {
      draw_row(p->checker, r, bias, row);
    }
    for (int64_t i = 0; i < r->experts; i++)
      number_set(p->wide, p->arguments[x->logits].before, row_at * r->experts + i, row[i]);
  }
}

/* Adds labels; some of the rows are not tokens. */
static int add_labels(problem *p, const router_call *x) {
  static const double kinds[] = {17, TRI_LABEL_NONE, TRI_LABEL_PADDING, 0};
  const int number = add_array(p, "labels", TRI_INT32, x->rows);
  for (int64_t r = 0; r < x->live; r++)
    number_set(TRI_INT32, p->arguments[number].before, r, kinds[draw(p->checker, 4)]);
  return number;
}

void cases_router_forward(checker *c, tri_dtype type) {
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    const bool equals = i % 4 == 3;
    /* Beside a bias, small scores of a softmax over many are as good as none. */
    const bool biased = draw_bool(c) && (x.router.scoring == TRI_ROUTER_SIGMOID || x.router.experts <= 16);
    p.run = run_forward;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.labels = i % 3 == 1 ? add_labels(&p, &x) : -1;
    add_logits(&p, &x, biased, equals);
    x.experts = add_array(&p, "experts", TRI_INT32, x.rows * x.router.chosen);
    writes(&p, x.experts, all_of(x.live * x.router.chosen), false);
    p.arguments[x.experts].exact = true;
    x.weights = add_array(&p, "weights", p.wide, x.rows * x.router.chosen);
    writes(&p, x.weights, all_of(x.live * x.router.chosen), false);
    p.arguments[x.weights].yardstick = 0.1 / (double)x.router.experts;
    say(&p, &x);
    describe(&p, "%s%s%s", x.labels < 0 ? "" : ", filled up", biased ? ", bias" : "", equals ? ", of equals" : "");
    check(&p);
  }
}

/* ---- choices of a router ----------------------------------------------------------------------------------------- */

/* Different experts for each row, any; of some rows none. */
static int add_chosen(problem *p, const router_call *x) {
  const int number = add_array(p, "experts", TRI_INT32, x->rows * x->router.chosen);
  int32_t all[TRI_ROUTER_EXPERTS], *experts = (int32_t *)(void *)p->arguments[number].before;
  for (int32_t i = 0; i < TRI_ROUTER_EXPERTS; i++) all[i] = i;
  for (int64_t r = 0; r < x->live; r++) {
    const bool nowhere = draw(p->checker, 5) == 0;
    for (int64_t j = 0; j < x->router.chosen; j++) {
      const int64_t at = draw_from(p->checker, j, x->router.experts - 1);
      const int32_t one = all[at];
      all[at] = all[j];
      all[j] = one;
      experts[r * x->router.chosen + j] = nowhere ? -1 : one;
    }
    for (int32_t i = 0; i < TRI_ROUTER_EXPERTS; i++) all[i] = i;
  }
  return number;
}

static bool is_routed(const problem *p, const router_call *x, int64_t row) {
  const int32_t *experts = (const int32_t *)(const void *)p->arguments[x->experts].before;
  return experts[row * x->router.chosen] >= 0;
}

/* 0, of rows that go nowhere. */
static void clear_weights(problem *p, const router_call *x, int64_t row) {
  for (int64_t j = 0; j < x->router.chosen; j++)
    number_set(p->wide, p->arguments[x->weights].before, row * x->router.chosen + j, 0);
}

/* The weights that follow from it. */
static int add_weights_of(problem *p, const router_call *x) {
  const tri_router *router = &x->router;
  const int number = add_array(p, "weights", p->wide, x->rows * router->chosen);
  const int32_t *experts = (const int32_t *)(const void *)p->arguments[x->experts].before;
  for (int64_t r = 0; r < x->live; r++) {
    double p_of[TRI_ROUTER_CHOSEN], sum = 0, all = 0;
    if (!is_routed(p, x, r)) continue;
    for (int64_t i = 0; i < router->experts; i++)
      all += exp(number_get(p->wide, p->arguments[x->logits].before, r * router->experts + i));
    for (int64_t j = 0; j < router->chosen; j++) {
      const int64_t at = r * router->experts + experts[r * router->chosen + j];
      const double logit = number_get(p->wide, p->arguments[x->logits].before, at);
      p_of[j] = router->scoring == TRI_ROUTER_SIGMOID ? 1 / (1 + exp(-logit)) : exp(logit) / all;
      sum += p_of[j];
    }
    for (int64_t j = 0; j < router->chosen; j++) {
      const double weight = router->scale * p_of[j] / (router->normalised ? sum : 1);
      number_set(p->wide, p->arguments[number].before, r * router->chosen + j, weight);
    }
  }
  return number;
}

/* Rows from somewhere in a sequence to somewhere in another. */
static void draw_sequences(checker *c, router_call *x) {
  x->sequence_rows = draw_from(c, 1, x->rows + 3);
  x->first_row = draw(c, x->sequence_rows);
  x->sequences = (x->first_row + (x->rows == 0 ? 0 : x->rows - 1)) / x->sequence_rows + 1;
}

static int add_values(problem *p, double token_scale, double sequence_scale) {
  const tri_step_values values = {.lr = NAN,
                                  .gradient_scale = NAN,
                                  .loss_scale = NAN,
                                  .token_scale = token_scale,
                                  .sequence_scale = sequence_scale};
  return add_bytes(p, "values", &values, sizeof values);
}

static int add_normal_logits(problem *p, const router_call *x) {
  const int number = add_array(p, "logits", p->wide, x->rows * x->router.experts);
  fill(p, number, all_of(x->live * x->router.experts), 0.5, 2);
  return number;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static tri_status run_backward(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_backward, p->type, rows_of(p, x->rows, x->count, memory), &x->router, AT(x->logits),
                AT(x->experts), AT(x->weights), AT(x->gradient), x->balance < 0 ? NULL : AT(x->balance), x->first_row,
                x->sequence_rows, x->z, AT(x->values), AT(x->out));
}

void cases_router_backward(checker *c, tri_dtype type) {
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_backward;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.z = i % 3 == 1 ? 0.7 : 0;
    draw_sequences(c, &x);
    x.logits = add_normal_logits(&p, &x);
    x.experts = add_chosen(&p, &x);
    x.weights = add_weights_of(&p, &x);
    for (int64_t r = 0; r < x.live; r++)
      if (!is_routed(&p, &x, r)) clear_weights(&p, &x, r);
    x.gradient = add_array(&p, "gradient of the weights", p.wide, x.rows * x.router.chosen);
    fill(&p, x.gradient, all_of(x.live * x.router.chosen), 0.2, 1);
    x.balance = draw_bool(c) ? add_input(&p, "balance", p.wide, x.sequences * x.router.experts, 0.5, 0.2) : -1;
    x.values = add_values(&p, 0.25, NAN);
    x.out = add_array(&p, "gradient of the logits", p.wide, x.rows * x.router.experts);
    writes(&p, x.out, all_of(x.live * x.router.experts), false);
    p.arguments[x.out].yardstick = 0.1 / (double)x.router.experts;
    say(&p, &x);
    describe(&p, "%s, z %g", x.balance < 0 ? "" : ", balanced", x.z);
    check(&p);
  }
}

/* ---- loads, balance, z ------------------------------------------------------------------------------------------- */

static tri_status run_loads(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_loads, p->type, rows_of(p, x->rows, x->count, memory), &x->router, AT(x->logits),
                AT(x->experts), x->first_row, x->sequence_rows, x->sequences, AT(x->loads));
}

void cases_router_loads(checker *c, tri_dtype type) {
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_loads;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    draw_sequences(c, &x);
    if (i % 4 == 2) x.sequences++; /* one that no row is of */
    x.logits = add_normal_logits(&p, &x);
    x.experts = add_chosen(&p, &x);
    x.loads = add_output(&p, "loads", p.wide, x.sequences * 2 * x.router.experts, false);
    p.arguments[x.loads].yardstick = 0.1 / (double)x.router.experts;
    say(&p, &x);
    describe(&p, ", %lld sequences of %lld, from %lld on", (long long)x.sequences, (long long)x.sequence_rows,
             (long long)x.first_row);
    check(&p);
  }
}

/* A loss is a number in double, of terms that are not. */
static int add_loss(problem *p) {
  const int number = add_output(p, "loss", TRI_FP64, 1, true);
  p->arguments[number].tolerance = tolerance_of(p->wide);
  return number;
}

static tri_status run_balance(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_balance, p->type, &x->router, x->sequences, x->coefficient, AT(x->values), AT(x->loads),
                AT(x->balance), AT(x->loss));
}

/* Counts and sums of scores; every fourth sequence is of no tokens. */
static int add_loads(problem *p, const router_call *x) {
  const int64_t width = 2 * x->router.experts;
  const int number = add_input(p, "loads", p->wide, x->sequences * width, 3, 1);
  for (int64_t i = 0; i < x->sequences * width; i++) {
    double count = (double)draw(p->checker, 300);
    if (i / width % 4 == 3) count = 0;
    if (i / width % 4 == 3 || i % width < x->router.experts) number_set(p->wide, p->arguments[number].before, i, count);
  }
  return number;
}

void cases_router_balance(checker *c, tri_dtype type) {
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_balance;
    p.with = &x;
    x.sequences = x.rows > 40 ? 40 : x.rows;
    x.coefficient = 0.5;
    x.loads = add_loads(&p, &x);
    x.values = add_values(&p, NAN, 0.125);
    x.balance = add_output(&p, "balance", p.wide, x.sequences * x.router.experts, false);
    p.arguments[x.balance].yardstick = 0;
    x.loss = add_loss(&p);
    say(&p, &x);
    describe(&p, ", %lld sequences", (long long)x.sequences);
    check(&p);
  }
}

static tri_status run_z_loss(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_z_loss, p->type, rows_of(p, x->rows, x->count, memory), &x->router, x->z, AT(x->values),
                AT(x->logits), AT(x->experts), AT(x->loss));
}

void cases_router_z_loss(checker *c, tri_dtype type) {
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    p.run = run_z_loss;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.z = 0.3;
    x.logits = add_normal_logits(&p, &x);
    x.experts = add_chosen(&p, &x);
    x.values = add_values(&p, 0.25, NAN);
    x.loss = add_loss(&p);
    say(&p, &x);
    check(&p);
  }
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static tri_status run_count(const problem *p, tri_queue *queue, char *const *memory) {
  const router_call *x = p->with;
  return KERNEL(queue, router_count, p->type, rows_of(p, x->rows, x->count, memory), &x->router, AT(x->experts),
                AT(x->weights), (int64_t *)AT(x->out));
}

void cases_router_count(checker *c, tri_dtype type) {
  static const double odd[] = {NAN, INFINITY, -INFINITY};
  router_call x;
  for (int i = 0; next_router(c, i, &x); i++) {
    problem p = problem_make(c, type);
    int64_t counts[TRI_ROUTER_EXPERTS + 1];
    p.run = run_count;
    p.with = &x;
    x.live = add_rows(&p, x.rows, &x.count);
    x.experts = add_chosen(&p, &x);
    x.weights = add_array(&p, "weights", p.wide, x.rows * x.router.chosen);
    fill(&p, x.weights, all_of(x.live * x.router.chosen), 1, 0.2);
    for (int64_t r = 0; r < x.live; r++) {
      if (!is_routed(&p, &x, r)) clear_weights(&p, &x, r);
      if (!is_routed(&p, &x, r) || draw(c, 3) > 0) continue;
      const int64_t at = r * x.router.chosen + draw(c, x.router.chosen);
      number_set(p.wide, p.arguments[x.weights].before, at, odd[draw(c, 3)]);
    }
    for (int64_t e = 0; e <= x.router.experts; e++) counts[e] = draw(c, (int64_t)1 << 40);
    x.out = add_bytes(&p, "counts", counts, (size_t)(x.router.experts + 1) * sizeof counts[0]);
    writes(&p, x.out, all_of(p.arguments[x.out].count), false);
    p.arguments[x.out].exact = true;
    say(&p, &x);
    check(&p);
  }
}
