/* Sampling of tokens from rows of logits (device/logit_query.h): one block per query, and a range of the row per
 * thread, so that the sums depend only on the vocabulary. With the weights exp((x - maximum) / temperature), an id is
 * sampled as the first whose sum of weights up to it is above uniform * total.
 *
 * The block reads the row for its maximum, and then for the sums of weights at temperature 1 (log probability and
 * entropy). If the query's temperature differs, it reads the row a third time for the sums of weights at that
 * temperature. Then one thread searches the ranges, and the elements of one of them. */
#include "device/gpu/kernels/logit_query.h"

#include "device/gpu/kernels/wide.h"

typedef struct query_shared {
  wide each[MOST_WARPS];
  double sums[TRI_LOGIT_RANGES], spreads[TRI_LOGIT_RANGES];
} query_shared;

/* A row, and the weights exp((x - most) * inverse) of its elements. inverse: 1 / temperature. */
typedef struct query_row {
  const wide *logits;
  int64_t vocabulary;
  wide most, inverse;
} query_row;

/* Returns the end of the range that begins at `first`. */
DEVICE int64_t range_end(const query_row *row, int64_t first) {
  const int64_t end = first + tri_logit_range(row->vocabulary);
  return end < row->vocabulary ? end : row->vocabulary;
}

/* Returns the weight, and sets *less to its logarithm, at least -1e30: finite, because 0 times *less must be 0. */
DEVICE wide weight_of(const query_row *row, int64_t v, wide *less) {
  const wide x = (row->logits[v] - row->most) * row->inverse, least = (wide)-1e30f;
  *less = x > least ? x : least;
  return wide_exp(*less);
}

/* Finds the row's maximum. Returns false if any logit is not finite; such a logit times 0 is NaN, and so is the sum.
 * All threads of the block call this, and get the same result. */
DEVICE int find_maximum(query_row *row, query_shared *shared) {
  wide most = -wide_infinity(), zero = 0;
  for (int64_t v = thread(); v < row->vocabulary; v += threads()) {
    const wide x = row->logits[v];
    most = x > most ? x : most;
    zero += x * 0;
  }
  row->most = block_maximum(most, shared->each);
  return block_sum(zero, shared->each) == 0;
}

/* Sums the weights of each range in shared->sums, and returns their total to all threads. *spread: the total of the
 * weights times their logarithms. All threads of the block call it; has two barriers. */
DEVICE double add_weights(const query_row *row, query_shared *shared, double *spread) {
  const int64_t first = thread() * tri_logit_range(row->vocabulary);
  double sum = 0, spread_sum = 0, total = 0;
  for (int64_t v = first; v < range_end(row, first); v++) {
    wide less = 0;
    const wide weight = weight_of(row, v, &less);
    sum += (double)weight;
    spread_sum += (double)weight * (double)less;
  }
  barrier(); /* all threads have read the previous values */
  shared->sums[thread()] = sum;
  shared->spreads[thread()] = spread_sum;
  barrier();
  *spread = 0;
  for (int i = 0; i < TRI_LOGIT_RANGES; i++) {
    total += shared->sums[i];
    *spread += shared->spreads[i];
  }
  return total;
}

/* Returns the first element of the range whose weight brings `left` below 0. If no element does because of rounding, or
 * with only_last, returns the last element with a nonzero weight. Called by one thread, like the next functions. */
DEVICE int64_t find_in_range(const query_row *row, int64_t first, double left, int only_last) {
  int64_t last = first;
  for (int64_t v = first; v < range_end(row, first); v++) {
    wide less = 0;
    const double weight = (double)weight_of(row, v, &less);
    if (weight > 0) last = v;
    left -= weight;
    if (left < 0 && !only_last) return v;
  }
  return last;
}

/* Returns the first id whose sum of weights up to it is above `left`. If rounding leaves no such id, returns the last
 * one with a nonzero weight. */
DEVICE int64_t find_sampled(const query_row *row, const double *sums, double left) {
  const int64_t length = tri_logit_range(row->vocabulary);
  int64_t last = 0;
  for (int i = 0; i < TRI_LOGIT_RANGES; i++) {
    if (sums[i] > 0) last = i;
    if (sums[i] > left) return find_in_range(row, i * length, left, 0);
    left -= sums[i];
  }
  return find_in_range(row, last * length, 0, 1);
}

/* Returns the first id with the maximum. */
DEVICE int64_t find_likeliest(const query_row *row) {
  int64_t v = 0;
  while (row->logits[v] != row->most) v++;
  return v;
}

KERNEL(query_logits) {
  SHARED(query_shared, shared);
  const tri_logit_query query = a.queries[block_x()];
  double *numbers = a.numbers + block_x() * TRI_LOGIT_NUMBERS;
  query_row row;
  double spread = 0, unused = 0;
  row.logits = (const wide *)a.logits + query.row * a.ld;
  row.vocabulary = a.vocabulary;
  row.inverse = 1;
  if (thread() < TRI_LOGIT_NUMBERS) numbers[thread()] = 0;
  if (!find_maximum(&row, shared)) {
    if (thread() == 0) a.ids[block_x()] = -1;
    return;
  }
  const double total = add_weights(&row, shared, &spread);
  double sampled = total;
  if (query.temperature > 0 && query.temperature != 1) {
    const wide inverse = (wide)(1 / query.temperature);
    row.inverse = inverse < wide_infinity() ? inverse : (wide)3e38f;
    sampled = add_weights(&row, shared, &unused);
  }
  if (thread() > 0) return;
  int64_t id = query.given;
  if (id < 0)
    id = query.temperature > 0 ? find_sampled(&row, shared->sums, query.uniform * sampled) : find_likeliest(&row);
  const double less = (double)row.logits[id] - (double)row.most;
  a.ids[block_x()] = (int32_t)id;
  numbers[TRI_LOGIT_LOG_PROB] = less - log(total);
  numbers[TRI_LOGIT_ENTROPY] = log(total) - spread / total;
  numbers[TRI_LOGIT_VALUE] = (double)row.logits[id];
  if (query.temperature > 0) numbers[TRI_LOGIT_SAMPLED_LOG_PROB] = less * (double)row.inverse - log(sampled);
}
