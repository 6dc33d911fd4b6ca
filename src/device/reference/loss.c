/* The loss: softmax over rows of logits, its statistics and gradient; queries of logits; objectives of completions. */
#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_softmax_logits(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                        tri_logit_form form, void *logits) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double cap = form.soft_cap;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t v = r * ld; v < r * ld + vocabulary; v++) {
      const double scaled = form.scale * load(wide, logits, v);
      store(wide, logits, v, cap > 0 ? cap * tanh(scaled / cap) : scaled);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_softmax_statistics(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                            int64_t ld, const void *logits, const int32_t *labels, int64_t first_id,
                                            void *maximum, void *sum, void *label_logit) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    double most = -INFINITY, total = 0;
    for (int64_t v = 0; v < vocabulary; v++) most = fmax(most, load(wide, logits, r * ld + v));
    for (int64_t v = 0; v < vocabulary; v++) total += exp(load(wide, logits, r * ld + v) - most);
    int64_t label = labels[r] - first_id;
    bool inside = label >= 0 && label < vocabulary;
    store(wide, maximum, r, most);
    store(wide, sum, r, total);
    store(wide, label_logit, r, inside ? load(wide, logits, r * ld + label) : 0.0);
  }
  return TRI_OK;
}

tri_status tri_reference_softmax_rescale(tri_queue *queue, tri_dtype type, int64_t rows, const void *from,
                                         const void *to, void *sum) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    store(wide, sum, r, load(wide, sum, r) * exp(load(wide, from, r) - load(wide, to, r)));
  }
  return TRI_OK;
}

tri_status tri_reference_softmax_loss(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                      const float *weights, const void *maximum, const void *sum,
                                      const void *label_logit, void *losses) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    double loss = log(load(wide, sum, r)) + load(wide, maximum, r) - load(wide, label_logit, r);
    store(wide, losses, r, labels[r] < 0 ? 0.0 : loss * (double)weights[r]);
  }
  return TRI_OK;
}

/* Arguments of the gradient of logits. */
typedef struct logit_gradients {
  tri_dtype type;
  int64_t vocabulary, ld, first_id, gradient_ld;
  tri_logit_form form;
  const void *logits, *maximum, *sum;
  const int32_t *labels;
  void *gradient;
} logit_gradients;

/* Computes the gradient of row r. It may overlap the logits: its elements are never wider, so v is read before it is
 * overwritten. */
static void gradient_row(const logit_gradients *g, int64_t r, double factor, double slope, double mean) {
  const tri_dtype wide = tri_dtype_wide(g->type);
  for (int64_t v = 0; v < g->vocabulary; v++) {
    const double logit = load(wide, g->logits, r * g->ld + v), less = logit - load(wide, g->maximum, r);
    const double probability = exp(less) / load(wide, g->sum, r);
    double value = factor * g->form.scale * (probability - (v == g->labels[r] - g->first_id ? 1.0 : 0.0));
    if (slope != 0) value += slope * g->form.scale * (probability > 0 ? probability * (less - mean) : 0.0);
    if (g->form.soft_cap > 0) value *= 1.0 - pow(logit / g->form.soft_cap, 2.0);
    store(g->type, g->gradient, r * g->gradient_ld + v, g->labels[r] < 0 ? 0.0 : value);
  }
}

tri_status tri_reference_softmax_gradient(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                          int64_t ld, tri_logit_form form, const void *logits, const int32_t *labels,
                                          const float *weights, const double *factors, int64_t first_id,
                                          const tri_step_values *values, const void *maximum, const void *sum,
                                          int64_t gradient_ld, void *gradient) {
  (void)queue;
  const logit_gradients g = {type, vocabulary, ld, first_id, gradient_ld, form, logits, maximum, sum, labels, gradient};
  for (int64_t r = 0; r < rows; r++)
    gradient_row(&g, r, factors != NULL ? factors[r] : values->loss_scale * (double)weights[r], 0, 0);
  return TRI_OK;
}

tri_status tri_reference_softmax_gradient_entropy(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                                  int64_t ld, tri_logit_form form, const void *logits,
                                                  const int32_t *labels, const double *factors, const double *slopes,
                                                  const double *means, int64_t first_id, const void *maximum,
                                                  const void *sum, int64_t gradient_ld, void *gradient) {
  (void)queue;
  const logit_gradients g = {type, vocabulary, ld, first_id, gradient_ld, form, logits, maximum, sum, labels, gradient};
  for (int64_t r = 0; r < rows; r++) gradient_row(&g, r, factors[r], slopes[r], means[r]);
  return TRI_OK;
}

tri_status tri_reference_softmax_spread(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                        const void *logits, const void *maximum, void *spread) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    double total = 0;
    for (int64_t v = 0; v < vocabulary; v++) {
      const double less = load(wide, logits, r * ld + v) - load(wide, maximum, r), weight = exp(less);
      if (weight > 0) total += weight * less;
    }
    store(wide, spread, r, total);
  }
  return TRI_OK;
}

tri_status tri_reference_entropy_terms(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                       const float *weights, double coefficient, const tri_step_values *values,
                                       const void *sum, const void *spread, double *slopes, double *means,
                                       double *losses) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    slopes[r] = labels[r] < 0 ? 0.0 : coefficient * values->loss_scale * (double)weights[r];
    means[r] = load(wide, spread, r) / load(wide, sum, r);
    losses[r] -= slopes[r] * (log(load(wide, sum, r)) - means[r]);
  }
  return TRI_OK;
}

/* ---- queries of logits ------------------------------------------------------------------------------------------- */

/* Returns the sum of the weights exp((x - most) / temperature), and sets *spread to the sum of each weight times its
 * logarithm. */
static double weigh(tri_dtype wide, const void *logits, int64_t first, int64_t vocabulary, double most,
                    double temperature, double *spread) {
  double total = 0;
  *spread = 0;
  for (int64_t v = first; v < first + vocabulary; v++) {
    const double less = (load(wide, logits, v) - most) / temperature, weight = exp(less);
    total += weight;
    if (weight > 0) *spread += weight * less;
  }
  return total;
}

static int64_t find_sampled(tri_dtype wide, const void *logits, int64_t first, int64_t vocabulary, double most,
                            double temperature, double left) {
  int64_t last = 0;
  for (int64_t v = 0; v < vocabulary; v++) {
    const double weight = exp((load(wide, logits, first + v) - most) / temperature);
    if (weight > 0) last = v;
    left -= weight;
    if (left < 0) return v;
  }
  return last;
}

/* Answers one query: sets its numbers, and returns the id of the given, the sampled or the likeliest token; -1 if a
 * logit is not finite. */
static int32_t answer_query(tri_dtype wide, const void *logits, int64_t first, int64_t vocabulary,
                            const tri_logit_query *query, double numbers[TRI_LOGIT_NUMBERS]) {
  const double temperature = query->temperature;
  double most = -INFINITY, spread = 0, unused = 0;
  int64_t likeliest = 0, id = query->given;
  for (int i = 0; i < TRI_LOGIT_NUMBERS; i++) numbers[i] = 0;
  for (int64_t v = 0; v < vocabulary; v++) {
    const double x = load(wide, logits, first + v);
    if (!isfinite(x)) return -1;
    if (x > most) likeliest = v;
    most = fmax(most, x);
  }
  const double total = weigh(wide, logits, first, vocabulary, most, 1, &spread);
  const double sampled = temperature > 0 ? weigh(wide, logits, first, vocabulary, most, temperature, &unused) : 1;
  if (id < 0 && temperature > 0)
    id = find_sampled(wide, logits, first, vocabulary, most, temperature, query->uniform * sampled);
  if (id < 0) id = likeliest;
  const double less = load(wide, logits, first + id) - most;
  numbers[TRI_LOGIT_LOG_PROB] = less - log(total);
  numbers[TRI_LOGIT_ENTROPY] = log(total) - spread / total;
  numbers[TRI_LOGIT_VALUE] = load(wide, logits, first + id);
  if (temperature > 0) numbers[TRI_LOGIT_SAMPLED_LOG_PROB] = less / temperature - log(sampled);
  return (int32_t)id;
}

tri_status tri_reference_query_logits(tri_queue *queue, tri_dtype type, int64_t count, int64_t vocabulary, int64_t ld,
                                      const void *logits, const tri_logit_query *queries, int32_t *ids,
                                      double *numbers) {
  (void)queue;
  for (int64_t i = 0; i < count; i++)
    ids[i] = answer_query(tri_dtype_wide(type), logits, queries[i].row * ld, vocabulary, &queries[i],
                          numbers + i * TRI_LOGIT_NUMBERS);
  return TRI_OK;
}

/* ---- objectives of completions ----------------------------------------------------------------------------------- */

tri_status tri_reference_label_log_probs(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                         const int32_t *places, const void *maximum, const void *sum,
                                         const void *label_logit, double *log_probs, double *whole) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    const double log_prob = load(wide, label_logit, r) - load(wide, maximum, r) - log(load(wide, sum, r));
    log_probs[r] = labels[r] < 0 ? 0.0 : log_prob;
    if (whole != NULL) whole[places[r]] = log_probs[r];
  }
  return TRI_OK;
}

tri_status tri_reference_completion_slopes(tri_queue *queue, const tri_completions *completions,
                                           const int32_t *segments, const double *log_probs, const double *reference,
                                           const tri_step_values *values, double *slopes, double *losses) {
  (void)queue;
  for (int64_t b = 0; b < completions->sequences; b++) {
    const int64_t pairs = tri_completions_count(completions->tokens, segments + b * completions->tokens);
    const int64_t first = b * completions->pairs, end = first + completions->pairs;
    for (int64_t pair = first; pair < first + pairs; pair++)
      tri_completions_pair(completions, pair, segments, log_probs, reference, values, slopes, losses);
    for (int64_t pair = first + pairs; pair < end; pair++) slopes[2 * pair] = slopes[2 * pair + 1] = losses[pair] = 0;
  }
  return TRI_OK;
}

tri_status tri_reference_label_factors(tri_queue *queue, const tri_completions *completions, int64_t rows,
                                       const int32_t *labels, const float *weights, const int32_t *places,
                                       const int32_t *segments, const double *slopes, const double *log_probs,
                                       const tri_step_values *values, double *factors, double *losses) {
  (void)queue;
  for (int64_t r = 0; r < rows; r++) {
    tri_completions_row(completions, r, labels, weights, places, segments, slopes, log_probs, values, factors, losses);
  }
  return TRI_OK;
}

tri_status tri_reference_policy_sums(tri_queue *queue, const tri_policy_batch *policy, const int32_t *segments,
                                     const double *advantage, const double *normaliser, const double *old,
                                     const double *behaviour, const double *reference, const double *log_probs,
                                     void *sums) {
  (void)queue;
  const tri_policy_columns columns = {advantage, normaliser, old, behaviour, reference};
  for (int64_t b = 0; b < policy->sequences; b++) {
    const int64_t count = tri_policy_count(policy->tokens, segments + b * policy->tokens);
    for (int64_t c = 0; c < count; c++) tri_policy_sum(policy, b, c, segments, &columns, log_probs, sums);
  }
  return TRI_OK;
}

tri_status tri_reference_policy_factors(tri_queue *queue, const tri_policy_batch *policy, int64_t rows,
                                        const int32_t *labels, const int32_t *places, const int32_t *segments,
                                        const double *advantage, const double *normaliser, const double *old,
                                        const double *behaviour, const double *reference, const void *sums,
                                        const double *log_probs, double *factors, double *losses) {
  (void)queue;
  const tri_policy_columns columns = {advantage, normaliser, old, behaviour, reference};
  for (int64_t r = 0; r < rows; r++)
    tri_policy_row(policy, r, labels, places, segments, &columns, sums, log_probs, factors, losses);
  return TRI_OK;
}

tri_status tri_reference_sum_doubles(tri_queue *queue, int64_t count, const double *in, double *out, bool accumulate) {
  (void)queue;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += in[i];
  *out = accumulate ? *out + sum : sum;
  return TRI_OK;
}
