/* The loss of rows of logits [rows, vocabulary], which are by far the largest memory traffic of these kernels.
 * The kernels that read them, softmax_logits, softmax_statistics, softmax_gradient, softmax_spread and
 * softmax_gradient_entropy, have one block per row. The others have one thread per row, per pair of completions or per
 * possible completion, except sum_doubles, which has one block.
 *
 * A row's softmax is exp(x - maximum) / sum. With a vocabulary that is divided over ranks, each rank has the maximum
 * and the sum of its shard; softmax_rescale converts its sum to the maximum of all ranks, before the sums are added.
 *
 * The statistics read the logits once, with an online maximum and sum (Milakov and Gimelshein 2018, "Online normalizer
 * calculation for softmax"): if the maximum grows, the sum so far is multiplied by exp(old - new).
 *
 * A block processes a row in parts of threads * TAKEN elements. The elements of a thread do not depend on addresses, so
 * the bits of the results do not either. */
#include "device/gpu/kernels/loss.h"

#include "device/gpu/kernels/wide.h"

/* TAKEN: elements that a thread processes at a time. */
enum { TAKEN_VECTORS = TRI_GPU_TYPE == 64 ? 2 : 4, TAKEN = TAKEN_VECTORS * WIDE_VECTOR };

/* Loads up to WIDE_VECTOR logits from element `at` of a row of `vocabulary`; -infinity beyond its end. */
DEVICE void load_logits(const wide *row, int64_t at, int64_t vocabulary, wide out[WIDE_VECTOR]) {
  for (int j = 0; j < WIDE_VECTOR; j++) out[j] = at + j < vocabulary ? row[at + j] : -wide_infinity();
}

/* Loads this thread's elements of the part of a row that begins at `base`: groups of `each` adjacent elements,
 * interleaved with those of the other threads. If the part is complete and aligned, 16 bytes are loaded at once. */
DEVICE void load_taken(const wide *row, int64_t base, int64_t vocabulary, int each, wide out[TAKEN]) {
  const int64_t first = base + thread() * each, step = (int64_t)threads() * each;
  if (is_aligned(row) && base + (int64_t)threads() * TAKEN <= vocabulary) {
    for (int i = 0; i < TAKEN; i += WIDE_VECTOR) load_16_bytes(row + first + i / each * step + i % each, out + i);
  } else {
    for (int i = 0; i < TAKEN; i += WIDE_VECTOR)
      load_logits(row, first + i / each * step + i % each, vocabulary, out + i);
  }
}

/* ---- form -------------------------------------------------------------------------------------------------------- */

/* Returns the logit of a product of activations and weights: scaled, and with a soft cap if `cap` is above 0. */
DEVICE wide logit_of(wide product, wide scale, wide cap) {
  const wide scaled = scale * product;
  return cap > 0 ? cap * wide_tanh(scaled / cap) : scaled;
}

KERNEL(softmax_logits) {
  wide *row = (wide *)a.logits + block_x() * a.ld;
  const wide scale = (wide)a.scale, cap = (wide)a.soft_cap;
  const int64_t vectors = is_aligned(row) ? a.vocabulary / WIDE_VECTOR : 0;
  for (int64_t i = thread(); i < vectors; i += threads()) {
    wide x[WIDE_VECTOR];
    load_16_bytes(row + i * WIDE_VECTOR, x);
    for (int j = 0; j < WIDE_VECTOR; j++) x[j] = logit_of(x[j], scale, cap);
    store_16_bytes(row + i * WIDE_VECTOR, x);
  }
  for (int64_t v = vectors * WIDE_VECTOR + thread(); v < a.vocabulary; v += threads())
    row[v] = logit_of(row[v], scale, cap);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

typedef struct running {
  wide most, sum; /* most: maximum of the elements so far. sum: sum of exp(x - most) */
} running;

/* Returns the number that is subtracted from exponents: the maximum, or 0 if all elements are -infinity, because
 * exp(-infinity - (-infinity)) would be NaN. */
DEVICE wide shift_of(wide most) { return most == -wide_infinity() ? 0 : most; }

/* Adds a thread's elements to its maximum and sum. NaN never becomes the maximum, but makes the sum NaN. */
DEVICE void add_to_running(running *r, const wide x[TAKEN]) {
  wide most = r->most;
  for (int j = 0; j < TAKEN; j++) most = x[j] > most ? x[j] : most;
  const wide shift = shift_of(most);
  if (most > r->most) r->sum *= wide_exp(r->most - shift);
  r->most = most;
  for (int j = 0; j < TAKEN; j++) r->sum += wide_exp(x[j] - shift);
}

typedef struct softmax_shared {
  wide each[MOST_WARPS];
} softmax_shared;

KERNEL(softmax_statistics) {
  SHARED(softmax_shared, shared);
  const int64_t r = block_x();
  const wide *row = (const wide *)a.logits + r * a.ld;
  running own;
  own.most = -wide_infinity();
  own.sum = 0;
  for (int64_t base = 0; base < a.vocabulary; base += (int64_t)threads() * TAKEN) {
    wide x[TAKEN];
    load_taken(row, base, a.vocabulary, WIDE_VECTOR, x);
    add_to_running(&own, x);
  }
  const wide most = block_maximum(own.most, shared->each);
  wide sum = block_sum(own.sum * wide_exp(own.most - shift_of(most)), shared->each);
  if (most == -wide_infinity() && a.vocabulary > 0) sum = most - most; /* all are -infinity: NaN */
  if (thread() > 0) return;
  const int64_t label = a.labels[r] - a.first_id;
  ((wide *)a.maximum)[r] = most;
  ((wide *)a.sum)[r] = sum;
  ((wide *)a.label_logit)[r] = label >= 0 && label < a.vocabulary ? row[label] : 0;
}

/* ---- one number per row ------------------------------------------------------------------------------------------ */

KERNEL(softmax_rescale) {
  const wide *from = (const wide *)a.from, *to = (const wide *)a.to;
  wide *sum = (wide *)a.sum;
  const int64_t r = block_x() * threads() + thread();
  if (r < a.rows) sum[r] *= wide_exp(from[r] - to[r]);
}

/* Computes the loss in double, because the difference of large numbers may be small; here that costs no time. */
KERNEL(softmax_loss) {
  const wide *maximum = (const wide *)a.maximum, *sum = (const wide *)a.sum, *logit = (const wide *)a.label_logit;
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.rows) return;
  const double loss = log((double)sum[r]) + (double)maximum[r] - (double)logit[r];
  ((wide *)a.losses)[r] = a.labels[r] < 0 ? 0 : (wide)(loss * (double)a.weights[r]);
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */

enum { GRADIENT_VECTORS = TAKEN / VECTOR };

/* Stores VECTOR elements of a row of the gradient, limited to the vocabulary. */
DEVICE void store_gradient(element *row, int64_t at, int64_t vocabulary, int aligned, const wide values[VECTOR]) {
  if (aligned && at + VECTOR <= vocabulary) {
    store_vector(row + at, values);
    return;
  }
  for (int j = 0; j < VECTOR; j++) {
    if (at + j < vocabulary) store(row + at + j, values[j]);
  }
}

/* gradient = (scale (softmax - 1 at the label) + slope p (x - most - mean)) * the derivative of the soft cap, where p
 * is the softmax, x the logit, most the row's maximum, and mean the sum of p (x - most); 0 in rows without a label. The
 * second term is the entropy bonus.
 *
 * A row of the gradient may be at the start of its row of logits, with elements that are at most as wide. So the block
 * reads each part of the row completely before it writes it: the gradient of a part ends before the first logit that is
 * still to be read. */
typedef struct row_gradient {
  const wide *logits;
  element *out;
  int64_t vocabulary, label; /* label: index in this rank's shard */
  wide most, each, scale;    /* most: maximum. each: 1 / sum. scale: the row's factor times the scale of the logits */
  wide slope, mean;          /* slope and mean of the row for an entropy bonus; slope 0: no bonus */
  wide share;                /* 1 / soft cap, or 0 */
  int counted;               /* whether the row has a label */
} row_gradient;

DEVICE void gradient_of_row(const row_gradient *g) {
  const int aligned = is_aligned(g->out);
  for (int64_t base = 0; base < g->vocabulary; base += (int64_t)threads() * TAKEN) {
    const int64_t first = base + thread() * VECTOR, step = (int64_t)threads() * VECTOR;
    wide x[TAKEN];
    for (int i = 0; i < TAKEN; i++) x[i] = 0;
    if (g->counted) {
      load_taken(g->logits, base, g->vocabulary, VECTOR, x);
      for (int i = 0; i < TAKEN; i++) {
        const wide one = first + i / VECTOR * step + i % VECTOR == g->label ? 1 : 0;
        const wide t = g->share > 0 ? x[i] * g->share : 0;
        const wide less = x[i] - g->most, p = wide_exp(less) * g->each;
        const wide of_entropy = g->slope != 0 && p > 0 ? g->slope * p * (less - g->mean) : 0;
        x[i] = (g->scale * (p - one) + of_entropy) * (1 - t * t);
      }
    }
    barrier();
    for (int i = 0; i < GRADIENT_VECTORS; i++)
      store_gradient(g->out, first + i * step, g->vocabulary, aligned, x + i * VECTOR);
  }
}

/* Sets the members of a row_gradient that are not factors, from the arguments `a` of a kernel. */
#define SET_ROW(g, r)                                                                                                  \
  do {                                                                                                                 \
    (g).logits = (const wide *)a.logits + (r)*a.ld;                                                                    \
    (g).out = (element *)a.gradient + (r)*a.gradient_ld;                                                               \
    (g).vocabulary = a.vocabulary;                                                                                     \
    (g).label = a.labels[r] - a.first_id;                                                                              \
    (g).most = ((const wide *)a.maximum)[r];                                                                           \
    (g).each = 1 / ((const wide *)a.sum)[r];                                                                           \
    (g).share = a.soft_cap > 0 ? 1 / (wide)a.soft_cap : 0;                                                             \
    (g).counted = a.labels[r] >= 0;                                                                                    \
  } while (0)

KERNEL(softmax_gradient) {
  const int64_t r = block_x();
  const wide factor = a.factors != 0 ? (wide)a.factors[r] : (wide)a.values->loss_scale * (wide)a.weights[r];
  row_gradient g;
  SET_ROW(g, r);
  g.scale = factor * (wide)a.scale;
  g.slope = g.mean = 0;
  gradient_of_row(&g);
}

KERNEL(softmax_gradient_entropy) {
  const int64_t r = block_x();
  row_gradient g;
  SET_ROW(g, r);
  g.scale = (wide)a.factors[r] * (wide)a.scale;
  g.slope = (wide)a.slopes[r] * (wide)a.scale;
  g.mean = (wide)a.means[r];
  gradient_of_row(&g);
}
#undef SET_ROW

/* ---- entropy ----------------------------------------------------------------------------------------------------- */

KERNEL(softmax_spread) {
  SHARED(softmax_shared, shared);
  const int64_t r = block_x();
  const wide *row = (const wide *)a.logits + r * a.ld;
  const wide most = ((const wide *)a.maximum)[r];
  wide own = 0;
  for (int64_t v = thread(); v < a.vocabulary; v += threads()) {
    const wide less = row[v] - most, weight = wide_exp(less);
    if (weight > 0) own += weight * less;
  }
  const wide sum = block_sum(own, shared->each);
  if (thread() == 0) ((wide *)a.spread)[r] = sum;
}

KERNEL(entropy_terms) {
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.rows) return;
  const double total = (double)((const wide *)a.sum)[r];
  a.slopes[r] = a.labels[r] < 0 ? 0 : a.coefficient * a.values->loss_scale * (double)a.weights[r];
  a.means[r] = (double)((const wide *)a.spread)[r] / total;
  a.losses[r] -= a.slopes[r] * (log(total) - a.means[r]);
}

/* ---- objectives of completions ----------------------------------------------------------------------------------- */

KERNEL(label_log_probs) {
  const wide *maximum = (const wide *)a.maximum, *sum = (const wide *)a.sum, *logit = (const wide *)a.label_logit;
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.rows) return;
  const double log_prob = (double)logit[r] - (double)maximum[r] - log((double)sum[r]);
  a.log_probs[r] = a.labels[r] < 0 ? 0 : log_prob;
  if (a.whole != 0) a.whole[a.places[r]] = a.log_probs[r];
}

KERNEL(completion_slopes) {
  const int64_t pair = block_x() * threads() + thread();
  if (pair >= a.completions.sequences * a.completions.pairs) return;
  tri_completions_pair(&a.completions, pair, a.segments, a.log_probs, a.reference, a.values, a.slopes, a.losses);
}

KERNEL(label_factors) {
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.rows) return;
  tri_completions_row(&a.completions, r, a.labels, a.weights, a.places, a.segments, a.slopes, a.log_probs, a.values,
                      a.factors, a.losses);
}

KERNEL(policy_sums) {
  const int64_t i = block_x() * threads() + thread();
  if (i >= a.policy.sequences * a.policy.tokens) return;
  tri_policy_sum(&a.policy, i / a.policy.tokens, i % a.policy.tokens, a.segments, &a.columns, a.log_probs, a.sums);
}

KERNEL(policy_factors) {
  const int64_t r = block_x() * threads() + thread();
  if (r >= a.rows) return;
  tri_policy_row(&a.policy, r, a.labels, a.places, a.segments, &a.columns, a.sums, a.log_probs, a.factors, a.losses);
}

typedef struct doubles_shared {
  double each[MOST_WARPS];
} doubles_shared;

KERNEL(sum_doubles) {
  SHARED(doubles_shared, shared);
  double own = 0;
  for (int64_t i = thread(); i < a.count; i += threads()) own += a.in[i];
  const double sum = block_sum_double(own, shared->each);
  if (thread() == 0) *a.out = a.accumulate ? *a.out + sum : sum;
}
