/* Routers: the choice of a row's experts (base/router.h), and the balance of experts. Row by row. */
#include "device/reference/reference.h"
#include "mesh/label.h"

#include <math.h>
#include <string.h>

#define load tri_reference_load
#define store tri_reference_store

/* The values derived from a row of logits. */
typedef struct scores {
  double p[TRI_ROUTER_EXPERTS];       /* scores */
  double softmax[TRI_ROUTER_EXPERTS]; /* softmax of the logits */
  double sum;                         /* sum of the scores */
  double log_sum_exp;                 /* log-sum-exp of the logits */
} scores;

static void score(const tri_router *router, tri_dtype type, const void *logits, int64_t row, scores *out) {
  const int64_t experts = router->experts;
  double most = -INFINITY, total = 0;
  for (int64_t i = 0; i < experts; i++) most = fmax(most, load(type, logits, row * experts + i));
  for (int64_t i = 0; i < experts; i++) total += exp(load(type, logits, row * experts + i) - most);
  out->log_sum_exp = log(total) + most;
  out->sum = 0;
  for (int64_t i = 0; i < experts; i++) {
    const double logit = load(type, logits, row * experts + i);
    out->softmax[i] = exp(logit - most) / total;
    switch (router->scoring) {
      case TRI_ROUTER_SOFTMAX: out->p[i] = out->softmax[i]; break;
      case TRI_ROUTER_SIGMOID: out->p[i] = 1.0 / (1.0 + exp(-logit)); break;
    }
    out->sum += out->p[i];
  }
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Returns the index of the best of values [first, end) that is not taken, the lowest index among equal values, and
 * marks it as taken. At least one value must not be taken. NaN is better than any number, so that it shows in the
 * weights. */
static int64_t choose_best(const double *values, int64_t first, int64_t end, bool *taken) {
  int64_t best = -1;
  for (int64_t i = first; i < end; i++) {
    if (!taken[i] && (best < 0 || values[i] > values[best] || (isnan(values[i]) && !isnan(values[best])))) best = i;
  }
  taken[best] = true;
  return best;
}

static double group_score(const tri_router *router, const double *choice, int64_t group) {
  bool taken[TRI_ROUTER_EXPERTS] = {false};
  const int64_t width = router->experts / router->groups;
  double sum = 0;
  for (int64_t i = 0; i < router->best_of_group; i++) {
    sum += choice[choose_best(choice, group * width, (group + 1) * width, taken)];
  }
  return sum;
}

/* Marks all experts of the groups that are not kept as taken. */
static void drop_groups(const tri_router *router, const double *choice, bool *taken) {
  double best[TRI_ROUTER_EXPERTS] = {0};
  bool kept[TRI_ROUTER_EXPERTS] = {false};
  const int64_t width = router->experts / router->groups;
  for (int64_t g = 0; g < router->groups; g++) best[g] = group_score(router, choice, g);
  for (int64_t i = 0; i < router->kept_groups; i++) choose_best(best, 0, router->groups, kept);
  for (int64_t g = 0; g < router->groups; g++) memset(taken + g * width, !kept[g], (size_t)width);
}

/* Marks all experts as taken, except the chosen / kept_groups best of each kept group. */
static void drop_beyond_quota(const tri_router *router, const double *choice, bool *taken) {
  bool left[TRI_ROUTER_EXPERTS];
  const int64_t width = router->experts / router->groups;
  memcpy(left, taken, sizeof left);
  memset(taken, true, sizeof left);
  for (int64_t first = 0; first < router->experts; first += width) {
    if (left[first]) continue;
    for (int64_t i = 0; i < router->chosen / router->kept_groups; i++) {
      taken[choose_best(choice, first, first + width, left)] = false;
    }
  }
}

static void reference_choose_experts(const tri_router *router, const double *choice, int32_t *experts) {
  bool taken[TRI_ROUTER_EXPERTS] = {false};
  drop_groups(router, choice, taken);
  if (router->quota) drop_beyond_quota(router, choice, taken);
  for (int64_t j = 0; j < router->chosen; j++) experts[j] = (int32_t)choose_best(choice, 0, router->experts, taken);
}

/* Returns the divisor of the chosen experts' scores. */
static double divisor(const tri_router *router, const scores *s, const int32_t *experts) {
  double sum = 0;
  if (!router->normalised) return 1.0;
  for (int64_t j = 0; j < router->chosen; j++) sum += s->p[experts[j]];
  switch (router->scoring) {
    case TRI_ROUTER_SOFTMAX: return sum;
    case TRI_ROUTER_SIGMOID: return sum + 1e-20;
  }
  return sum;
}

/* Routes a row of padding to no expert: ids -1 and weights 0. */
static void route_nowhere(const tri_router *router, tri_dtype wide, int64_t row, int32_t *experts, void *weights) {
  for (int64_t j = 0; j < router->chosen; j++) {
    experts[row * router->chosen + j] = -1;
    store(wide, weights, row * router->chosen + j, 0.0);
  }
}

static bool is_routed(const tri_router *router, const int32_t *experts, int64_t row) {
  return experts[row * router->chosen] >= 0;
}

tri_status tri_reference_router_forward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                        const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                                        void *weights) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < live; r++) {
    scores s = {.sum = 0};
    double choice[TRI_ROUTER_EXPERTS] = {0};
    int32_t *chosen = experts + r * router->chosen;
    if (labels != NULL && labels[r] == TRI_LABEL_PADDING) {
      route_nowhere(router, wide, r, experts, weights);
      continue;
    }
    score(router, wide, logits, r, &s);
    for (int64_t i = 0; i < router->experts; i++) choice[i] = s.p[i] + (bias == NULL ? 0.0 : load(wide, bias, i));
    reference_choose_experts(router, choice, chosen);
    const double by = divisor(router, &s, chosen);
    for (int64_t j = 0; j < router->chosen; j++) {
      store(wide, weights, r * router->chosen + j, router->scale * s.p[chosen[j]] / by);
    }
  }
  return TRI_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Adds the gradients of the chosen experts' scores to `gradient`. */
static void add_chosen(const tri_router *router, tri_dtype wide, const scores *s, const int32_t *experts,
                       const void *gradient_weights, int64_t first, double *gradient) {
  const double by = divisor(router, s, experts);
  double mean = 0; /* the gradient, weighted by the normalised scores */
  for (int64_t j = 0; router->normalised && j < router->chosen; j++) {
    mean += load(wide, gradient_weights, first + j) * s->p[experts[j]] / by;
  }
  for (int64_t j = 0; j < router->chosen; j++) {
    gradient[experts[j]] += router->scale / by * (load(wide, gradient_weights, first + j) - mean);
  }
}

/* Adds the balance loss's gradients of all scores, through p_i / (sum of p). */
static void add_balance(const tri_router *router, tri_dtype wide, const scores *s, const void *balance, int64_t first,
                        double *gradient) {
  double mean = 0;
  for (int64_t i = 0; i < router->experts; i++) mean += load(wide, balance, first + i) * s->p[i] / s->sum;
  for (int64_t i = 0; i < router->experts; i++) gradient[i] += (load(wide, balance, first + i) - mean) / s->sum;
}

/* Replaces the gradient of the scores by that of the logits. */
static void through_scores(const tri_router *router, const scores *s, double *gradient) {
  double mean = 0;
  for (int64_t i = 0; i < router->experts; i++) mean += gradient[i] * s->softmax[i];
  for (int64_t i = 0; i < router->experts; i++) {
    switch (router->scoring) {
      case TRI_ROUTER_SOFTMAX: gradient[i] = s->p[i] * (gradient[i] - mean); break;
      case TRI_ROUTER_SIGMOID: gradient[i] *= s->p[i] * (1.0 - s->p[i]); break;
    }
  }
}

tri_status tri_reference_router_backward(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                         const void *logits, const int32_t *experts, const void *weights,
                                         const void *gradient_weights, const void *balance, int64_t first_row,
                                         int64_t sequence_rows, double z, const tri_step_values *values,
                                         void *gradient_logits) {
  (void)queue;
  (void)weights; /* an argument for devices that do not recompute the weights */
  const int64_t live = tri_rows_live(rows), experts_count = router->experts;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < live; r++) {
    scores s = {.sum = 0};
    double gradient[TRI_ROUTER_EXPERTS] = {0};
    if (!is_routed(router, experts, r)) {
      for (int64_t i = 0; i < experts_count; i++) store(wide, gradient_logits, r * experts_count + i, 0.0);
      continue;
    }
    score(router, wide, logits, r, &s);
    add_chosen(router, wide, &s, experts + r * router->chosen, gradient_weights, r * router->chosen, gradient);
    if (balance != NULL) {
      add_balance(router, wide, &s, balance, (first_row + r) / sequence_rows * experts_count, gradient);
    }
    through_scores(router, &s, gradient);
    for (int64_t i = 0; i < experts_count; i++) {
      if (z != 0) gradient[i] += 2.0 * z * values->token_scale * s.log_sum_exp * s.softmax[i];
      store(wide, gradient_logits, r * experts_count + i, gradient[i]);
    }
  }
  return TRI_OK;
}

/* ---- balance ----------------------------------------------------------------------------------------------------- */

tri_status tri_reference_router_loads(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                      const void *logits, const int32_t *experts, int64_t first_row,
                                      int64_t sequence_rows, int64_t sequences, void *loads) {
  (void)queue;
  const int64_t live = tri_rows_live(rows), experts_count = router->experts;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t sequence = 0; sequence < sequences; sequence++) {
    double counts[TRI_ROUTER_EXPERTS] = {0}, sums[TRI_ROUTER_EXPERTS] = {0};
    for (int64_t r = 0; r < live; r++) {
      scores s = {.sum = 0};
      if ((first_row + r) / sequence_rows != sequence || !is_routed(router, experts, r)) continue;
      score(router, wide, logits, r, &s);
      for (int64_t j = 0; j < router->chosen; j++) counts[experts[r * router->chosen + j]] += 1.0;
      for (int64_t i = 0; i < experts_count; i++) sums[i] += s.p[i] / s.sum;
    }
    for (int64_t i = 0; i < experts_count; i++) {
      store(wide, loads, 2 * sequence * experts_count + i, counts[i]);
      store(wide, loads, (2 * sequence + 1) * experts_count + i, sums[i]);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_router_balance(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                                        double coefficient, const tri_step_values *values, const void *loads,
                                        void *balance, double *loss) {
  (void)queue;
  const int64_t experts_count = router->experts;
  const tri_dtype wide = tri_dtype_wide(type);
  const double rate = values->sequence_scale * coefficient;
  double sum = 0;
  for (int64_t sequence = 0; sequence < sequences; sequence++) {
    double pairs = 0;
    for (int64_t i = 0; i < experts_count; i++) pairs += load(wide, loads, 2 * sequence * experts_count + i);
    const double tokens = pairs / (double)router->chosen;
    for (int64_t i = 0; i < experts_count; i++) {
      double count = load(wide, loads, 2 * sequence * experts_count + i);
      double mean = pairs == 0 ? 0 : load(wide, loads, (2 * sequence + 1) * experts_count + i) / tokens;
      double share = pairs == 0 ? 0 : (double)experts_count / pairs * count;
      sum += share * mean;
      store(wide, balance, sequence * experts_count + i, pairs == 0 ? 0 : rate * share / tokens);
    }
  }
  *loss += rate * sum;
  return TRI_OK;
}

tri_status tri_reference_router_z_loss(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                       double z, const tri_step_values *values, const void *logits,
                                       const int32_t *experts, double *loss) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  double sum = 0;
  for (int64_t r = 0; r < live; r++) {
    scores s = {.sum = 0};
    if (!is_routed(router, experts, r)) continue;
    score(router, tri_dtype_wide(type), logits, r, &s);
    sum += s.log_sum_exp * s.log_sum_exp;
  }
  *loss += z * values->token_scale * sum;
  return TRI_OK;
}

tri_status tri_reference_router_count(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                      const int32_t *experts, const void *weights, int64_t *counts) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  for (int64_t r = 0; r < live; r++) {
    bool finite = true;
    if (!is_routed(router, experts, r)) continue;
    for (int64_t j = 0; j < router->chosen; j++) {
      const int64_t at = r * router->chosen + j;
      counts[experts[at]]++;
      finite = finite && isfinite(load(tri_dtype_wide(type), weights, at));
    }
    if (!finite) counts[router->experts]++;
  }
  return TRI_OK;
}
