/* Softmax over rows of logits. A row of a large vocabulary is a few hundred KB: it stays in the L2 cache between the
 * two passes over it. Sums of exponentials are kept per lane and joined at the end of a range, in double. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

enum { CHUNK = 4096 };

enum { CHAINS = 4 };

INLINE float row_maximum(const float *row, int64_t vocabulary) {
  vf most[CHAINS];
  for (int chain = 0; chain < CHAINS; chain++) most[chain] = vf_splat(-INFINITY);
  int64_t v = 0;
  for (; v + CHAINS * LANES <= vocabulary; v += CHAINS * LANES) {
    for (int chain = 0; chain < CHAINS; chain++) {
      most[chain] = vf_max(vf_load(TRI_FP32, row, v + chain * LANES), most[chain]);
    }
  }
  float highest = vf_highest(vf_max(vf_max(most[0], most[1]), vf_max(most[2], most[3])));
  for (; v < vocabulary; v++) highest = row[v] > highest ? row[v] : highest;
  return highest;
}

INLINE double row_sum(const float *row, int64_t vocabulary, float maximum) {
  double total = 0;
  for (int64_t first = 0; first < vocabulary; first += CHUNK) {
    int64_t end = first + CHUNK < vocabulary ? first + CHUNK : vocabulary;
    vf sum = (vf){0};
    int64_t v = first;
    for (; v + LANES <= end; v += LANES) sum += vf_exp(vf_load(TRI_FP32, row, v) - maximum);
    if (v < end) sum += vf_exp(vf_load_some(TRI_FP32, row, v, end - v, -INFINITY) - maximum);
    total += vf_sum_double(sum);
  }
  return total;
}

/* Applies the scale and the soft cap to a row of logits. `share` is 1 / cap, or 0 without a cap. */
INLINE void form_row(float scale, float cap, float share, int64_t vocabulary, float *row) {
  FOR_VECTORS(v, count, 0, vocabulary, {
    vf scaled = vf_get(TRI_FP32, row, v, count) * scale;
    vf_put(TRI_FP32, row, v, count, share > 0 ? vf_tanh(scaled * share) * cap : scaled);
  });
}

static tri_status softmax_logits(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 tri_logit_form form, void *logits) {
  (void)type;
  const float share = form.soft_cap > 0 ? (float)(1.0 / form.soft_cap) : 0.0f;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (rows * vocabulary > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    float *row = (float *)logits + r * ld;
    if (share > 0) {
      form_row((float)form.scale, (float)form.soft_cap, share, vocabulary, row);
    } else {
      form_row((float)form.scale, 0.0f, 0.0f, vocabulary, row);
    }
  }
  return TRI_OK;
}

static tri_status softmax_statistics(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                     const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                     void *sum, void *label_logit) {
  (void)type; /* logits are fp32 for any type of activations */
#pragma omp parallel for schedule(static) num_threads(THREADS) if (rows * vocabulary > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    const float *row = (const float *)logits + r * ld;
    int64_t label = labels[r] - first_id;
    float most = row_maximum(row, vocabulary);
    ((float *)maximum)[r] = most;
    ((float *)sum)[r] = (float)row_sum(row, vocabulary, most);
    ((float *)label_logit)[r] = label >= 0 && label < vocabulary ? row[label] : 0.0f;
  }
  return TRI_OK;
}

static tri_status softmax_rescale(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                  void *sum) {
  (void)queue;
  (void)type;
  for (int64_t r = 0; r < rows; r++) {
    double factor = exp((double)((const float *)from)[r] - (double)((const float *)to)[r]);
    ((float *)sum)[r] = (float)((double)((const float *)sum)[r] * factor);
  }
  return TRI_OK;
}

static tri_status softmax_loss(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                               const float *weights, const void *maximum, const void *sum, const void *label_logit,
                               void *losses) {
  (void)queue;
  (void)type;
  for (int64_t r = 0; r < rows; r++) {
    double loss = log((double)((const float *)sum)[r]) + (double)((const float *)maximum)[r] -
                  (double)((const float *)label_logit)[r];
    ((float *)losses)[r] = labels[r] < 0 ? 0.0f : (float)(loss * (double)weights[r]);
  }
  return TRI_OK;
}

/* Writes factor exp(logit - maximum) for each logit, times the derivative of the soft cap. The gradient may be at
 * the start of the row's own memory. That is safe for bf16, too, because vectors are processed in ascending order
 * and loaded before they are stored, so element v is written after element 2v was read. */
INLINE void probabilities(tri_dtype type, const float *row, int64_t vocabulary, float maximum, float factor,
                          float share, void *gradient, int64_t at) {
  FOR_VECTORS(v, count, 0, vocabulary, {
    vf logit = vf_get(TRI_FP32, row, v, count);
    vf value = vf_exp(logit - maximum) * factor;
    if (share > 0) value *= 1.0f - (logit * share) * (logit * share);
    vf_put(type, gradient, at + v, count, value);
  });
}

INLINE void zero_row(tri_dtype type, int64_t vocabulary, void *gradient, int64_t at) {
  memset((char *)gradient + (size_t)at * tri_dtype_bytes(type), 0, (size_t)vocabulary * tri_dtype_bytes(type));
}

/* Writes the values of `probabilities` plus the gradient of minus the entropy: slope p (logit - maximum - mean), where
 * slope includes 1 / sum. */
INLINE void with_entropy(tri_dtype type, const float *row, int64_t vocabulary, float maximum, float factor, float slope,
                         float mean, float share, void *gradient, int64_t at) {
  FOR_VECTORS(v, count, 0, vocabulary, {
    const vf logit = vf_get(TRI_FP32, row, v, count), less = logit - maximum;
    vf value = vf_exp(less) * (factor + slope * (vf_max(less, vf_splat(-1e4f)) - mean));
    if (share > 0) value *= 1.0f - (logit * share) * (logit * share);
    vf_put(type, gradient, at + v, count, value);
  });
}

typedef struct gradient_job {
  int64_t vocabulary, ld, gradient_ld, first_id;
  const float *logits, *maximum, *sum;
  const int32_t *labels;
  const float *weights;         /* used if `weighted` */
  const double *factors;        /* used if not `weighted` */
  const double *slopes, *means; /* slopes and means of the rows for an entropy bonus; NULL: no bonus */
  double scale, share;          /* scale of the whole gradient; 1 / the soft cap of the logits, or 0 */
  void *gradient;
  bool weighted; /* whether a row's gradient is multiplied by its weight; false: by its factor */
} gradient_job;

/* Computes the gradient of a row. The label's element is computed from its logit, which is read first, because the row
 * may be overwritten. */
INLINE void gradient_row(tri_dtype type, const gradient_job *job, int64_t r) {
  const float *row = job->logits + r * job->ld;
  int64_t at = r * job->gradient_ld, label = job->labels[r] - job->first_id;
  bool inside = label >= 0 && label < job->vocabulary;
  double label_logit = inside ? (double)row[label] : 0.0;
  const double weight = job->weighted ? (double)job->weights[r] : job->factors[r];
  double maximum = (double)job->maximum[r], sum = (double)job->sum[r], scale = job->scale * weight;
  const double slope = job->slopes == NULL ? 0.0 : job->scale * job->slopes[r];
  const double mean = job->means == NULL ? 0.0 : job->means[r];
  const float factor = (float)(scale / sum);
  if (slope != 0) {
    with_entropy(type, row, job->vocabulary, job->maximum[r], factor, (float)(slope / sum), (float)mean,
                 (float)job->share, job->gradient, at);
  } else if (job->share > 0) {
    probabilities(type, row, job->vocabulary, job->maximum[r], factor, (float)job->share, job->gradient, at);
  } else {
    probabilities(type, row, job->vocabulary, job->maximum[r], factor, 0.0f, job->gradient, at);
  }
  if (!inside) return;
  double probability = exp(label_logit - maximum) / sum;
  const double t = job->share > 0 ? label_logit * job->share : 0.0;
  double of_label = scale * (probability - 1.0);
  if (slope != 0 && probability > 0) of_label += slope * probability * (label_logit - maximum - mean);
  vf_put(type, job->gradient, at + label, 1, vf_splat((float)(of_label * (1.0 - t * t))));
}

static void gradient_rows(const tri_queue *queue, tri_dtype type, int64_t rows, const gradient_job *job) {
#pragma omp parallel for schedule(static) num_threads(THREADS) if (rows * job->vocabulary > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    if (job->labels[r] < 0) {
      BY_TYPE(zero_row, job->vocabulary, job->gradient, r * job->gradient_ld);
    } else {
      BY_TYPE(gradient_row, job, r);
    }
  }
}

static tri_status softmax_gradient(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                   tri_logit_form form, const void *logits, const int32_t *labels, const float *weights,
                                   const double *factors, int64_t first_id, const tri_step_values *values,
                                   const void *maximum, const void *sum, int64_t gradient_ld, void *gradient) {
  const gradient_job job = {.vocabulary = vocabulary,
                            .ld = ld,
                            .gradient_ld = gradient_ld,
                            .first_id = first_id,
                            .logits = logits,
                            .maximum = maximum,
                            .sum = sum,
                            .labels = labels,
                            .weights = weights,
                            .factors = factors,
                            .weighted = factors == NULL,
                            .scale = (factors != NULL ? 1.0 : values->loss_scale) * form.scale,
                            .share = form.soft_cap > 0 ? 1.0 / form.soft_cap : 0.0,
                            .gradient = gradient};
  gradient_rows(queue, type, rows, &job);
  return TRI_OK;
}

/* ---- entropy ----------------------------------------------------------------------------------------------------- */

static tri_status softmax_gradient_entropy(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                           int64_t ld, tri_logit_form form, const void *logits, const int32_t *labels,
                                           const double *factors, const double *slopes, const double *means,
                                           int64_t first_id, const void *maximum, const void *sum, int64_t gradient_ld,
                                           void *gradient) {
  const gradient_job job = {.vocabulary = vocabulary,
                            .ld = ld,
                            .gradient_ld = gradient_ld,
                            .first_id = first_id,
                            .logits = logits,
                            .maximum = maximum,
                            .sum = sum,
                            .labels = labels,
                            .factors = factors,
                            .slopes = slopes,
                            .means = means,
                            .scale = form.scale,
                            .share = form.soft_cap > 0 ? 1.0 / form.soft_cap : 0.0,
                            .gradient = gradient};
  gradient_rows(queue, type, rows, &job);
  return TRI_OK;
}

/* Returns exp(x - maximum) (x - maximum); 0 for -infinity. */
INLINE vf spread_of(vf x, float maximum) {
  const vf less = x - maximum;
  return vf_exp(less) * vf_max(less, vf_splat(-1e4f));
}

INLINE double row_spread(const float *row, int64_t vocabulary, float maximum) {
  double total = 0;
  for (int64_t first = 0; first < vocabulary; first += CHUNK) {
    const int64_t end = first + CHUNK < vocabulary ? first + CHUNK : vocabulary;
    vf sum = (vf){0};
    int64_t v = first;
    for (; v + LANES <= end; v += LANES) sum += spread_of(vf_load(TRI_FP32, row, v), maximum);
    if (v < end) sum += spread_of(vf_load_some(TRI_FP32, row, v, end - v, -INFINITY), maximum);
    total += vf_sum_double(sum);
  }
  return total;
}

static tri_status softmax_spread(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 const void *logits, const void *maximum, void *spread) {
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (rows * vocabulary > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++)
    ((float *)spread)[r] = (float)row_spread((const float *)logits + r * ld, vocabulary, ((const float *)maximum)[r]);
  return TRI_OK;
}

static tri_status entropy_terms(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                const float *weights, double coefficient, const tri_step_values *values,
                                const void *sum, const void *spread, double *slopes, double *means, double *losses) {
  (void)queue;
  (void)type;
  for (int64_t r = 0; r < rows; r++) {
    const double total = (double)((const float *)sum)[r];
    slopes[r] = labels[r] < 0 ? 0.0 : coefficient * values->loss_scale * (double)weights[r];
    means[r] = (double)((const float *)spread)[r] / total;
    losses[r] -= slopes[r] * (log(total) - means[r]);
  }
  return TRI_OK;
}

/* ---- objectives of completions ----------------------------------------------------------------------------------- */

static tri_status label_log_probs(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                  const int32_t *places, const void *maximum, const void *sum, const void *label_logit,
                                  double *log_probs, double *whole) {
  (void)queue;
  (void)type;
  for (int64_t r = 0; r < rows; r++) {
    const double log_prob = (double)((const float *)label_logit)[r] - (double)((const float *)maximum)[r] -
                            log((double)((const float *)sum)[r]);
    log_probs[r] = labels[r] < 0 ? 0.0 : log_prob;
    if (whole != NULL) whole[places[r]] = log_probs[r];
  }
  return TRI_OK;
}

static tri_status completion_slopes(tri_queue *queue, const tri_completions *completions, const int32_t *segments,
                                    const double *log_probs, const double *reference, const tri_step_values *values,
                                    double *slopes, double *losses) {
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

static tri_status label_factors(tri_queue *queue, const tri_completions *completions, int64_t rows,
                                const int32_t *labels, const float *weights, const int32_t *places,
                                const int32_t *segments, const double *slopes, const double *log_probs,
                                const tri_step_values *values, double *factors, double *losses) {
  (void)queue;
  for (int64_t r = 0; r < rows; r++) {
    tri_completions_row(completions, r, labels, weights, places, segments, slopes, log_probs, values, factors, losses);
  }
  return TRI_OK;
}

static tri_status policy_sums(tri_queue *queue, const tri_policy_batch *policy, const int32_t *segments,
                              const double *advantage, const double *normaliser, const double *old,
                              const double *behaviour, const double *reference, const double *log_probs, void *sums) {
  (void)queue;
  const tri_policy_columns columns = {advantage, normaliser, old, behaviour, reference};
  for (int64_t b = 0; b < policy->sequences; b++) {
    const int64_t count = tri_policy_count(policy->tokens, segments + b * policy->tokens);
    for (int64_t c = 0; c < count; c++) tri_policy_sum(policy, b, c, segments, &columns, log_probs, sums);
  }
  return TRI_OK;
}

static tri_status policy_factors(tri_queue *queue, const tri_policy_batch *policy, int64_t rows, const int32_t *labels,
                                 const int32_t *places, const int32_t *segments, const double *advantage,
                                 const double *normaliser, const double *old, const double *behaviour,
                                 const double *reference, const void *sums, const double *log_probs, double *factors,
                                 double *losses) {
  (void)queue;
  const tri_policy_columns columns = {advantage, normaliser, old, behaviour, reference};
  for (int64_t r = 0; r < rows; r++)
    tri_policy_row(policy, r, labels, places, segments, &columns, sums, log_probs, factors, losses);
  return TRI_OK;
}

static tri_status sum_doubles(tri_queue *queue, int64_t count, const double *in, double *out, bool accumulate) {
  (void)queue;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += in[i];
  *out = accumulate ? *out + sum : sum;
  return TRI_OK;
}

void TRI_KERNEL(table_loss)(tri_device_kernels *table) {
  table->softmax_logits = softmax_logits;
  table->softmax_statistics = softmax_statistics;
  table->softmax_rescale = softmax_rescale;
  table->softmax_loss = softmax_loss;
  table->softmax_gradient = softmax_gradient;
  table->label_log_probs = label_log_probs;
  table->completion_slopes = completion_slopes;
  table->label_factors = label_factors;
  table->softmax_spread = softmax_spread;
  table->entropy_terms = entropy_terms;
  table->softmax_gradient_entropy = softmax_gradient_entropy;
  table->policy_sums = policy_sums;
  table->policy_factors = policy_factors;
  table->sum_doubles = sum_doubles;
}
