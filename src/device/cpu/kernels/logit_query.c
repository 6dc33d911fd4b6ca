/* Sampling of tokens from rows of logits (device/logit_query.h). Exponentials are in fp32; a range is summed in the
 * lanes of vectors, and everything else in double. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <float.h>
#include <math.h>

/* A row, and the weights exp((x - maximum) * inverse) of its elements. */
typedef struct query_row {
  const float *logits;
  int64_t vocabulary;
  float maximum, inverse;
} query_row;

/* Finds the row's maximum. Returns false if any logit is not finite, because 0 times such a logit is NaN. */
INLINE bool find_maximum(query_row *row) {
  vf most = vf_splat(-INFINITY), zero = {0};
  FOR_VECTORS(v, count, 0, row->vocabulary, {
    const vf x = (int64_t)count == LANES ? vf_load(TRI_FP32, row->logits, v)
                                         : vf_load_some(TRI_FP32, row->logits, v, count, row->logits[v]);
    most = vf_max(x, most);
    zero += x * 0.0f;
  });
  row->maximum = vf_highest(most);
  return vf_sum(zero) == 0.0f;
}

INLINE int64_t range_end(const query_row *row, int64_t first) {
  const int64_t end = first + tri_logit_range(row->vocabulary);
  return end < row->vocabulary ? end : row->vocabulary;
}

/* Computes the weights exp((logit - maximum) * inverse) of `count` logits from v on, and sets *less to their
 * logarithms, at least -1e30. Lanes beyond the count have weight 0. */
INLINE vf weights_at(const query_row *row, int64_t v, int64_t count, vf *less) {
  const vf x = (int64_t)count == LANES ? vf_load(TRI_FP32, row->logits, v)
                                       : vf_load_some(TRI_FP32, row->logits, v, count, -INFINITY);
  *less = vf_max((x - row->maximum) * row->inverse, vf_splat(-1e30f)); /* finite, so that 0 times the value is 0 */
  return vf_exp(*less);
}

/* Sums the weights of each range into `sums`, and returns the sum of all. Sets *spread to the sum of each weight times
 * its logarithm, for the entropy. */
INLINE double add_weights(const query_row *row, double sums[TRI_LOGIT_RANGES], double *spread) {
  double total = 0;
  *spread = 0;
  for (int64_t i = 0, first = 0; first < row->vocabulary; i++, first = range_end(row, first)) {
    vf sum = {0}, spread_sum = {0};
    FOR_VECTORS(v, count, first, range_end(row, first), {
      vf less;
      const vf weight = weights_at(row, v, count, &less);
      sum += weight;
      spread_sum = vf_fma(weight, less, spread_sum);
    });
    sums[i] = vf_sum_double(sum);
    total += sums[i];
    *spread += vf_sum_double(spread_sum);
  }
  return total;
}

/* Returns the first element whose weight brings `left` below 0; if rounding leaves no such element, the last one with a
 * nonzero weight. */
static int64_t find_in_range(const query_row *row, int64_t first, double left) {
  int64_t last = first;
  FOR_VECTORS(v, count, first, range_end(row, first), {
    vf less;
    const vf weight = weights_at(row, v, count, &less);
    for (int64_t l = 0; l < count; l++) {
      if (weight[l] > 0) last = v + l;
      left -= (double)weight[l];
      if (left < 0) return v + l;
    }
  });
  return last;
}

static int64_t find_sampled(const query_row *row, const double sums[TRI_LOGIT_RANGES], double left) {
  int64_t last = 0;
  for (int64_t i = 0, first = 0; first < row->vocabulary; i++, first = range_end(row, first)) {
    if (sums[i] > 0) last = first;
    if (sums[i] > left) return find_in_range(row, first, left);
    left -= sums[i];
  }
  return find_in_range(row, last, INFINITY);
}

static int64_t find_likeliest(const query_row *row) {
  int64_t at = 0;
  while (row->logits[at] != row->maximum) at++;
  return at;
}

/* Answers a query: returns the token's id and sets its numbers, or returns -1 if a logit is not finite. */
static int32_t answer_query(const float *logits, int64_t vocabulary, const tri_logit_query *query,
                            double numbers[TRI_LOGIT_NUMBERS]) {
  query_row row = {.logits = logits, .vocabulary = vocabulary, .inverse = 1};
  double sums[TRI_LOGIT_RANGES], spread = 0;
  for (int i = 0; i < TRI_LOGIT_NUMBERS; i++) numbers[i] = 0;
  if (!find_maximum(&row)) return -1;
  const double total = add_weights(&row, sums, &spread), temperature = query->temperature;
  double sampled_total = total;
  if (temperature > 0 && temperature != 1) {
    double unused;
    row.inverse = 1 / temperature < FLT_MAX ? (float)(1 / temperature) : FLT_MAX;
    sampled_total = add_weights(&row, sums, &unused);
  }
  int64_t id = query->given;
  if (id < 0) id = temperature > 0 ? find_sampled(&row, sums, query->uniform * sampled_total) : find_likeliest(&row);
  const double less = (double)logits[id] - (double)row.maximum;
  numbers[TRI_LOGIT_LOG_PROB] = less - log(total);
  numbers[TRI_LOGIT_ENTROPY] = log(total) - spread / total;
  numbers[TRI_LOGIT_VALUE] = (double)logits[id];
  if (temperature > 0) numbers[TRI_LOGIT_SAMPLED_LOG_PROB] = less * (double)row.inverse - log(sampled_total);
  return (int32_t)id;
}

typedef struct queries {
  const tri_logit_query *queries;
  const float *logits;
  int64_t vocabulary, ld;
  int32_t *ids;
  double *numbers;
} queries;

static void answer_one(const void *context, int64_t i, int worker) {
  const queries *of = context;
  (void)worker;
  of->ids[i] = answer_query(of->logits + of->queries[i].row * of->ld, of->vocabulary, &of->queries[i],
                            of->numbers + i * TRI_LOGIT_NUMBERS);
}

static tri_status query_logits(tri_queue *queue, tri_dtype type, int64_t count, int64_t vocabulary, int64_t ld,
                               const void *logits, const tri_logit_query *asked, int32_t *ids, double *numbers) {
  const queries all = {asked, logits, vocabulary, ld, ids, numbers};
  (void)type; /* logits are fp32 for any type of activations */
  tri_regions_run(count * vocabulary > TRI_ALONE ? REGIONS : NULL, count, answer_one, &all);
  return TRI_OK;
}

void TRI_KERNEL(table_logit_query)(tri_device_kernels *table) { table->query_logits = query_logits; }
