/* Routers (base/router.h): each row's scores, its best experts, and the gradients. A row's experts are in arrays on the
 * stack, and threads share the rows. */
#include "base/count.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "mesh/label.h"

#include <math.h>

enum {
  ROOM = TRI_ROUTER_EXPERTS + LANES
}; /* elements of an array of a row's experts that is read and written in whole vectors */

/* The values derived from a row of logits. */
typedef struct scores {
  float p[ROOM], softmax[ROOM];
  float sum;         /* sum of the scores */
  float log_sum_exp; /* log-sum-exp of the logits */
} scores;

#define PARALLEL_ROWS                                                                                                  \
  _Pragma("omp parallel for schedule(static) num_threads(THREADS) if (live * router->experts > TRI_ALONE)") for (      \
      int64_t r = 0; r < live; r++)

/* ---- scores ------------------------------------------------------------------------------------------------------ */

INLINE vf logits_at(const float *logits, int64_t i, int64_t count) {
  return count == LANES ? vf_load(TRI_FP32, logits, i) : vf_load_some(TRI_FP32, logits, i, count, -INFINITY);
}

static void score_softmax(int64_t experts, const float *logits, scores *out) {
  vf most = vf_splat(-INFINITY), total = {0};
  FOR_VECTORS(i, count, 0, experts, { most = vf_max(logits_at(logits, i, count), most); });
  const float maximum = vf_highest(most);
  FOR_VECTORS(i, count, 0, experts, {
    const vf power = vf_exp(logits_at(logits, i, count) - maximum);
    total += power;
    vf_store(TRI_FP32, out->softmax, i, power);
  });
  const float sum = vf_sum(total);
  FOR_VECTORS(i, count, 0, experts,
              { vf_store(TRI_FP32, out->softmax, i, vf_get(TRI_FP32, out->softmax, i, count) / sum); });
  out->log_sum_exp = logf(sum) + maximum;
}

static void score_sigmoid(int64_t experts, const float *logits, scores *out) {
  FOR_VECTORS(i, count, 0, experts, { vf_store(TRI_FP32, out->p, i, vf_sigmoid(logits_at(logits, i, count))); });
}

/* Computes only the scores, which suffice to choose and weigh experts. */
static void score_for_choice(const tri_router *router, const float *logits, scores *out) {
  switch (router->scoring) {
    case TRI_ROUTER_SOFTMAX:
      score_softmax(router->experts, logits, out);
      memcpy(out->p, out->softmax, (size_t)router->experts * sizeof *out->p);
      break;
    case TRI_ROUTER_SIGMOID: score_sigmoid(router->experts, logits, out); break;
  }
}

static void score(const tri_router *router, const float *logits, scores *out) {
  vf sum = {0};
  score_for_choice(router, logits, out);
  switch (router->scoring) {
    case TRI_ROUTER_SOFTMAX: break;
    case TRI_ROUTER_SIGMOID: score_softmax(router->experts, logits, out); break;
  }
  FOR_VECTORS(i, count, 0, router->experts, { sum += vf_get(TRI_FP32, out->p, i, count); });
  out->sum = vf_sum(sum);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_routed(const tri_router *router, const int32_t *experts, int64_t row) {
  return experts[row * router->chosen] >= 0;
}

/* Keys: numbers as integers that are in the order of the floats. NaN is above all numbers, and the key TAKEN below all.
 */
enum { TAKEN = INT32_MIN };

INLINE vi keys_of(vf x) {
  const vi bits = (vi)(x + 0.0f); /* -0 is 0 */
  const vi keys = bits ^ ((bits >> 31) & INT32_MAX);
  const vi none = (vi)(x != x);
  return (keys & ~none) | (none & INT32_MAX);
}

/* Returns the number of a key, or NaN. */
INLINE float number_of(int32_t key) {
  const int32_t bits = key ^ ((key >> 31) & INT32_MAX);
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Computes the keys, followed by a vector of TAKEN. */
static void make_keys(int64_t experts, const float *values, int32_t *keys) {
  const vi nothing = TAKEN - (vi){0};
  FOR_VECTORS(i, count, 0, experts, {
    const vi key = keys_of(vf_get(TRI_FP32, values, i, count));
    memcpy(keys + i, &key, sizeof key);
  });
  memcpy(keys + experts, &nothing, sizeof nothing);
}

static void copy_keys(int64_t experts, const int32_t *from, int32_t *to) {
  memcpy(to, from, (size_t)(experts + LANES) * sizeof *to);
}

INLINE vi lane_numbers(void) {
  vi at;
  for (int l = 0; l < LANES; l++) at[l] = l;
  return at;
}

/* Returns the index of the best of keys [first, end), the lowest index among equal keys, and marks it as taken. At
 * least one key must not be taken. Reads to the end of a vector. */
static int64_t choose_best(int32_t *keys, int64_t first, int64_t end) {
  const vi at = lane_numbers();
  vi best = TAKEN - (vi){0}, places = {0};
  for (int64_t i = first; i < end; i += LANES) {
    vi key;
    memcpy(&key, keys + i, sizeof key);
    const vi place = at + (int32_t)i;
    const vi better = (key > best) & (place < (int32_t)end);
    best = (key & better) | (best & ~better);
    places = (place & better) | (places & ~better);
  }
  const vi others = best != vi_highest(best);
  const int64_t place = ~vi_highest(~(places | (others & INT32_MAX)));
  keys[place] = TAKEN;
  return place;
}

static void choose_all(int32_t *keys, int64_t first, int64_t end) {
  for (int64_t i = first; i < end; i++) keys[i] = TAKEN;
}

/* Returns the sum of the two best of keys [first, end). */
static float sum_of_two(const int32_t *keys, int64_t first, int64_t end) {
  const vi at = lane_numbers(), nothing = TAKEN - (vi){0};
  vi best = nothing, second = nothing;
  for (int64_t i = first; i < end; i += LANES) {
    vi key;
    memcpy(&key, keys + i, sizeof key);
    const vi inside = at < (int32_t)(end - i);
    key = (key & inside) | (nothing & ~inside);
    second = vi_max(second, vi_min(best, key));
    best = vi_max(best, key);
  }
  for (int by = LANES / 2; by > 0; by /= 2) {
    const vi other = vi_swap(best, by);
    second = vi_max(vi_max(second, vi_swap(second, by)), vi_min(best, other));
    best = vi_max(best, other);
  }
  return number_of(best[0]) + number_of(second[0]);
}

/* Returns the sum of the best selection scores of a group, best first. Models use two (DeepSeek-V3), which has a faster
 * path. */
static float group_score(const tri_router *router, const int32_t *keys, int64_t first, int64_t end) {
  int32_t left[ROOM];
  float sum = 0;
  if (router->best_of_group == 2) return sum_of_two(keys, first, end);
  memcpy(left, keys + first, (size_t)(end - first + LANES) * sizeof *left);
  for (int64_t i = 0; i < router->best_of_group; i++) sum += number_of(keys[first + choose_best(left, 0, end - first)]);
  return sum;
}

/* Marks all experts of the groups that are not kept as taken. */
static void drop_groups(const tri_router *router, int32_t *keys) {
  float scores_of_groups[ROOM];
  int32_t groups[ROOM];
  const int64_t width = router->experts / router->groups;
  if (router->kept_groups == router->groups) return;
  for (int64_t g = 0; g < router->groups; g++) {
    scores_of_groups[g] = group_score(router, keys, g * width, (g + 1) * width);
  }
  make_keys(router->groups, scores_of_groups, groups);
  for (int64_t i = 0; i < router->kept_groups; i++) choose_best(groups, 0, router->groups);
  for (int64_t g = 0; g < router->groups; g++) {
    if (groups[g] != TAKEN) choose_all(keys, g * width, (g + 1) * width);
  }
}

/* Marks all experts as taken, except the chosen / kept_groups best of each kept group. */
static void drop_beyond_quota(const tri_router *router, int32_t *keys) {
  int32_t all[ROOM], left[ROOM];
  const int64_t width = router->experts / router->groups;
  copy_keys(router->experts, keys, all);
  copy_keys(router->experts, keys, left);
  choose_all(keys, 0, router->experts);
  for (int64_t first = 0; first < router->experts; first += width) {
    for (int64_t i = 0; all[first] != TAKEN && i < router->chosen / router->kept_groups; i++) {
      const int64_t expert = choose_best(left, first, first + width);
      keys[expert] = all[expert];
    }
  }
}

static void cpu_choose_experts(const tri_router *router, const scores *s, const float *bias, int32_t *experts) {
  float choice[ROOM];
  int32_t keys[ROOM];
  FOR_VECTORS(i, count, 0, router->experts, {
    const vf p = vf_get(TRI_FP32, s->p, i, count);
    vf_store(TRI_FP32, choice, i, bias == NULL ? p : p + vf_get(TRI_FP32, bias, i, count));
  });
  make_keys(router->experts, choice, keys);
  drop_groups(router, keys);
  if (router->quota) drop_beyond_quota(router, keys);
  for (int64_t j = 0; j < router->chosen; j++) experts[j] = (int32_t)choose_best(keys, 0, router->experts);
}

/* Returns the divisor of the chosen experts' scores. */
static float divisor(const tri_router *router, const scores *s, const int32_t *experts) {
  float sum = 0;
  if (!router->normalised) return 1.0f;
  for (int64_t j = 0; j < router->chosen; j++) sum += s->p[experts[j]];
  switch (router->scoring) {
    case TRI_ROUTER_SOFTMAX: return sum;
    case TRI_ROUTER_SIGMOID: return sum + 1e-20f;
  }
  return sum;
}

static void route_row(const tri_router *router, const float *logits, const float *bias, int32_t *experts,
                      float *weights) {
  scores s;
  score_for_choice(router, logits, &s);
  cpu_choose_experts(router, &s, bias, experts);
  const float factor = (float)router->scale / divisor(router, &s, experts);
  for (int64_t j = 0; j < router->chosen; j++) weights[j] = factor * s.p[experts[j]];
}

/* Routes a row of padding to no expert: ids -1 and weights 0. */
static void route_nowhere(const tri_router *router, int32_t *experts, float *weights) {
  for (int64_t j = 0; j < router->chosen; j++) experts[j] = -1;
  memset(weights, 0, (size_t)router->chosen * sizeof *weights);
}

static tri_status router_forward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                 const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                                 void *weights) {
  (void)type; /* all arrays are fp32 */
  const int64_t live = tri_rows_live(rows);
  PARALLEL_ROWS {
    int32_t *row_experts = experts + r * router->chosen;
    float *row_weights = (float *)weights + r * router->chosen;
    if (labels != NULL && labels[r] == TRI_LABEL_PADDING) {
      route_nowhere(router, row_experts, row_weights);
    } else {
      route_row(router, (const float *)logits + r * router->experts, bias, row_experts, row_weights);
    }
  }
  return TRI_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

typedef struct backward {
  const tri_router *router;
  const float *logits, *gradient_weights, *balance;
  const int32_t *experts;
  int64_t first_row, sequence_rows;
  float z; /* factor of the gradient of the z-loss: its coefficient times 2 token_scale */
  float *gradient;
} backward;

/* Writes the gradients of all scores from the balance loss, through p_i / (sum of p). */
static void begin_gradient(const tri_router *router, const scores *s, const float *balance, float *gradient) {
  vf sum = {0};
  if (balance == NULL) {
    memset(gradient, 0, (size_t)router->experts * sizeof *gradient);
    return;
  }
  FOR_VECTORS(i, count, 0, router->experts,
              { sum += vf_get(TRI_FP32, balance, i, count) * vf_get(TRI_FP32, s->p, i, count); });
  const float mean = vf_sum(sum) / s->sum;
  FOR_VECTORS(i, count, 0, router->experts,
              { vf_put(TRI_FP32, gradient, i, count, (vf_get(TRI_FP32, balance, i, count) - mean) / s->sum); });
}

/* Adds the gradients of the chosen experts' scores to `gradient`. */
static void add_chosen(const tri_router *router, const scores *s, const int32_t *experts, const float *slopes,
                       float *gradient) {
  const float by = divisor(router, s, experts);
  float mean = 0; /* the gradient, weighted by the normalised scores */
  for (int64_t j = 0; router->normalised && j < router->chosen; j++) mean += slopes[j] * (s->p[experts[j]] / by);
  for (int64_t j = 0; j < router->chosen; j++) gradient[experts[j]] += (float)router->scale / by * (slopes[j] - mean);
}

/* Replaces the gradients of scores by the gradients of logits, and adds the gradient of the square of log_sum_exp. */
static void end_gradient(const tri_router *router, const scores *s, float z, float *gradient) {
  vf sum = {0};
  FOR_VECTORS(i, count, 0, router->experts,
              { sum += vf_get(TRI_FP32, gradient, i, count) * vf_get(TRI_FP32, s->softmax, i, count); });
  const float mean = vf_sum(sum), slope = z == 0 ? 0 : z * s->log_sum_exp;
  FOR_VECTORS(i, count, 0, router->experts, {
    const vf p = vf_get(TRI_FP32, s->p, i, count), softmax = vf_get(TRI_FP32, s->softmax, i, count);
    vf g = vf_get(TRI_FP32, gradient, i, count);
    switch (router->scoring) {
      case TRI_ROUTER_SOFTMAX: g = p * (g - mean); break;
      case TRI_ROUTER_SIGMOID: g = g * (p * (1.0f - p)); break;
    }
    vf_put(TRI_FP32, gradient, i, count, slope * softmax + g);
  });
}

static void backward_row(const backward *b, int64_t r) {
  scores s;
  const tri_router *router = b->router;
  const int64_t experts = router->experts;
  const float *balance = b->balance == NULL ? NULL : b->balance + (b->first_row + r) / b->sequence_rows * experts;
  float *gradient = b->gradient + r * experts;
  if (!is_routed(router, b->experts, r)) {
    memset(gradient, 0, (size_t)experts * sizeof *gradient);
    return;
  }
  score(router, b->logits + r * experts, &s);
  begin_gradient(router, &s, balance, gradient);
  add_chosen(router, &s, b->experts + r * router->chosen, b->gradient_weights + r * router->chosen, gradient);
  end_gradient(router, &s, b->z, gradient);
}

static tri_status router_backward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                  const void *logits, const int32_t *experts, const void *weights,
                                  const void *gradient_weights, const void *balance, int64_t first_row,
                                  int64_t sequence_rows, double z, const tri_step_values *values,
                                  void *gradient_logits) {
  (void)type;
  (void)weights; /* the weights are recomputed from the scores */
  const int64_t live = tri_rows_live(rows);
  const backward job = {.router = router,
                        .logits = logits,
                        .gradient_weights = gradient_weights,
                        .balance = balance,
                        .experts = experts,
                        .first_row = first_row,
                        .sequence_rows = sequence_rows,
                        .z = z == 0 ? 0 : (float)(2.0 * z * values->token_scale),
                        .gradient = gradient_logits};
  PARALLEL_ROWS { backward_row(&job, r); }
  return TRI_OK;
}

/* ---- balance ----------------------------------------------------------------------------------------------------- */

/* Sums rows [first, end) into two rows of loads. */
static void load_sequence(const tri_router *router, const float *logits, const int32_t *experts, int64_t first,
                          int64_t end, float *loads) {
  double sums[ROOM] = {0};
  const int64_t experts_count = router->experts;
  memset(loads, 0, (size_t)experts_count * sizeof *loads);
  for (int64_t r = first; r < end; r++) {
    scores s;
    if (!is_routed(router, experts, r)) continue;
    score(router, logits + r * experts_count, &s);
    for (int64_t i = 0; i < experts_count; i++) sums[i] += (double)(s.p[i] / s.sum);
    for (int64_t j = 0; j < router->chosen; j++) loads[experts[r * router->chosen + j]] += 1.0f;
  }
  for (int64_t i = 0; i < experts_count; i++) loads[experts_count + i] = (float)sums[i];
}

static tri_status router_loads(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                               const void *logits, const int32_t *experts, int64_t first_row, int64_t sequence_rows,
                               int64_t sequences, void *loads) {
  (void)type;
  const int64_t live = tri_rows_live(rows);
#pragma omp parallel for schedule(dynamic, 1) num_threads(THREADS) if (live * router->experts > TRI_ALONE)
  for (int64_t s = 0; s < sequences; s++) {
    const int64_t first = tri_larger(s * sequence_rows - first_row, 0), end = (s + 1) * sequence_rows - first_row;
    load_sequence(router, logits, experts, first, end < live ? end : live, (float *)loads + 2 * s * router->experts);
  }
  return TRI_OK;
}

static tri_status router_balance(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                                 double coefficient, const tri_step_values *values, const void *loads, void *balance,
                                 double *loss) {
  (void)queue;
  (void)type;
  const int64_t experts = router->experts;
  const double rate = values->sequence_scale * coefficient;
  double sum = 0;
  for (int64_t s = 0; s < sequences; s++) {
    const float *counts = (const float *)loads + 2 * s * experts, *scored = counts + experts;
    double pairs = 0;
    for (int64_t i = 0; i < experts; i++) pairs += (double)counts[i];
    const double share = pairs == 0 ? 0 : (double)experts / pairs;
    const double tokens = pairs == 0 ? 1 : pairs / (double)router->chosen;
    for (int64_t i = 0; i < experts; i++) {
      const double f = share * (double)counts[i];
      sum += f * (double)scored[i] / tokens;
      ((float *)balance)[s * experts + i] = (float)(rate * f / tokens);
    }
  }
  *loss += rate * sum;
  return TRI_OK;
}

/* Number of parts of the rows. Each part is summed by itself, and the number does not depend on the threads. */
enum { PARTS = 64 };

static tri_status router_z_loss(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router, double z,
                                const tri_step_values *values, const void *logits, const int32_t *experts,
                                double *loss) {
  (void)type;
  const int64_t live = tri_rows_live(rows), each = (live + PARTS - 1) / PARTS;
  double sums[PARTS] = {0}, sum = 0;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * router->experts > TRI_ALONE)
  for (int64_t part = 0; part < PARTS; part++) {
    for (int64_t r = part * each; r < (part + 1) * each && r < live; r++) {
      scores s;
      if (!is_routed(router, experts, r)) continue;
      score_softmax(router->experts, (const float *)logits + r * router->experts, &s);
      sums[part] += (double)s.log_sum_exp * (double)s.log_sum_exp;
    }
  }
  for (int64_t part = 0; part < PARTS; part++) sum += sums[part];
  *loss += z * values->token_scale * sum;
  return TRI_OK;
}

static tri_status router_count(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                               const int32_t *experts, const void *weights, int64_t *counts) {
  (void)queue;
  (void)type;
  const int64_t live = tri_rows_live(rows);
  for (int64_t r = 0; r < live; r++) {
    bool finite = true;
    if (!is_routed(router, experts, r)) continue;
    for (int64_t at = r * router->chosen; at < (r + 1) * router->chosen; at++) {
      counts[experts[at]]++;
      finite = finite && isfinite(((const float *)weights)[at]);
    }
    if (!finite) counts[router->experts]++;
  }
  return TRI_OK;
}

void TRI_KERNEL(table_router)(tri_device_kernels *table) {
  table->router_forward = router_forward;
  table->router_backward = router_backward;
  table->router_loads = router_loads;
  table->router_balance = router_balance;
  table->router_z_loss = router_z_loss;
  table->router_count = router_count;
}
