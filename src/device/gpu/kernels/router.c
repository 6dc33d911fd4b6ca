/* Routers of experts, their balance and their losses. Logits are [rows, experts]; a row has `chosen` experts, or none
 * (ids -1) if it is padding.
 *
 *   router_forward, router_backward   a warp per row; its lanes share the row's experts (router_choice.h). The backward
 *                                     has the gradients of the row's scores in the warp's shared memory [experts]
 *   router_loads                      a block per slab of a sequence's rows; a thread sums some of the experts
 *   router_load_totals                a thread per sequence and column: sums the slabs in order
 *   router_balance                    a block per sequence
 *   router_z_loss                     a block per ROUTER_Z_ROWS rows, a warp per row
 *   router_not_finite, router_count   counts for tiles of pairs, and sums of such counts
 *
 * The invariant: the order of a sum depends on the shapes and on the rows of a sequence, not on the number of blocks.
 */
#include "device/gpu/kernels/router.h"

#include "device/gpu/kernels/groups.h"
#include "device/gpu/kernels/router_choice.h"
#include "device/gpu/kernels/rows.h"
#include "device/gpu/kernels/scan.h"
#include "mesh/label.h"

typedef struct asked {
  sixteen_bytes at[1];
} asked;

/* Routes a row of padding to no expert: ids -1 and weights 0. */
DEVICE void route_nowhere(int chosen, int32_t *experts, wide *weights) {
  for (int j = lane(); j < chosen; j += WARP) {
    experts[j] = -1;
    weights[j] = 0;
  }
}

/* Returns whether a row has experts; padding has none. */
DEVICE int is_routed(const router_kind *kind, const int32_t *experts, int64_t row) {
  return experts[row * kind->chosen] >= 0;
}

KERNEL(router_forward) {
  SHARED_ASKED(asked, memory);
  const router_memory own = memory_of_warp((char *)memory + warp() * a.warp_bytes, &a.kind);
  const wide *logits = (const wide *)a.logits, *bias = (const wide *)a.bias;
  const int64_t rows = live_rows(a.capacity, a.count), warps = blocks_x() * block_warps();
  for (int64_t row = block_x() * block_warps() + warp(); row < rows; row += warps) {
    int32_t *experts = a.experts + row * a.kind.chosen;
    wide *weights = (wide *)a.weights + row * a.kind.chosen;
    if (a.labels != 0 && a.labels[row] == TRI_LABEL_PADDING) {
      route_nowhere(a.kind.chosen, experts, weights);
    } else {
      route_row(&a.kind, &own, logits + row * a.kind.experts, bias, experts, weights);
    }
  }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Writes the gradients of the scores of the chosen experts to gradient[experts]. No expert is chosen twice, so each
 * element is written by one lane. Called by a warp, like the next functions; none has a barrier. */
DEVICE void store_chosen(const router_backward_arguments *a, const statistics *s, const wide *logits, int64_t row,
                         wide *gradient) {
  const router_kind *kind = &a->kind;
  const int32_t *experts = a->experts + row * kind->chosen;
  const wide *dw = (const wide *)a->gradient_weights + row * kind->chosen;
  wide sum = 0, mean = 0; /* mean of dw, weighted by the normalised scores */
  for (int j = lane(); j < kind->chosen && kind->normalised; j += WARP) {
    const wide score = score_of(kind, s, logits[experts[j]]);
    sum += score;
    mean += dw[j] * score;
  }
  sum = warp_sum(sum);
  mean = warp_sum(mean);
  const wide by = divisor_of(kind, sum);
  mean = mean / by; /* 0 if scores are not normalised */
  for (int j = lane(); j < kind->chosen; j += WARP) gradient[experts[j]] = (wide)kind->scale / by * (dw[j] - mean);
}

/* Adds the gradients of the balance loss with respect to all scores. `balance` has the loss's gradients with respect to
 * the normalised scores, score / (sum of the row's scores). */
DEVICE void add_balance(const router_kind *kind, const statistics *s, const wide *logits, const wide *balance,
                        wide *gradient) {
  const wide sum = sum_of_scores(kind, logits);
  wide mean = 0;
  for (int i = lane(); i < kind->experts; i += WARP) mean += balance[i] * score_of(kind, s, logits[i]);
  mean = warp_sum(mean) / sum;
  for (int i = lane(); i < kind->experts; i += WARP) gradient[i] += (balance[i] - mean) / sum;
}

/* Computes the gradient of the logits from the gradient of the scores, and adds z times the gradient of log_sum_exp
 * squared. */
DEVICE void through_scores(const router_kind *kind, const statistics *s, const wide *logits, const wide *gradient,
                           wide z, wide *out) {
  const wide log_sum_exp = wide_log(s->sum) + s->most;
  wide mean = 0;
  for (int i = lane(); i < kind->experts && !kind->sigmoid; i += WARP) mean += gradient[i] * softmax_of(s, logits[i]);
  mean = warp_sum(mean);
  for (int i = lane(); i < kind->experts; i += WARP) {
    const wide softmax = softmax_of(s, logits[i]), score = score_of(kind, s, logits[i]);
    const wide slope = kind->sigmoid ? gradient[i] * score / (1 + wide_exp(logits[i])) : score * (gradient[i] - mean);
    out[i] = z == 0 ? slope : slope + 2 * z * log_sum_exp * softmax;
  }
}

KERNEL(router_backward) {
  SHARED_ASKED(asked, memory);
  wide *gradient = (wide *)(void *)((char *)memory + warp() * a.warp_bytes);
  const int64_t rows = live_rows(a.capacity, a.count), warps = blocks_x() * block_warps(), experts = a.kind.experts;
  const wide z = a.z == 0 ? 0 : (wide)(a.z * a.values->token_scale);
  for (int64_t row = block_x() * block_warps() + warp(); row < rows; row += warps) {
    const wide *logits = (const wide *)a.logits + row * experts;
    wide *out = (wide *)a.gradient_logits + row * experts;
    if (!is_routed(&a.kind, a.experts, row)) {
      for (int i = lane(); i < a.kind.experts; i += WARP) out[i] = 0;
      continue;
    }
    const statistics s = statistics_of(logits, a.kind.experts);
    for (int i = lane(); i < a.kind.experts; i += WARP) gradient[i] = 0;
    warp_barrier();
    store_chosen(&a, &s, logits, row, gradient);
    warp_barrier();
    if (a.balance != 0) {
      const int64_t sequence = quotient(a.first_row + row, a.sequence_rows);
      add_balance(&a.kind, &s, logits, (const wide *)a.balance + sequence * experts, gradient);
    }
    through_scores(&a.kind, &s, logits, gradient, z, out);
    warp_barrier(); /* all lanes are done with this row */
  }
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

/* Rows that a block sums at a time, in shared memory. */
typedef struct load_rows {
  statistics of[ROUTER_LOAD_ROWS];
  wide scores[ROUTER_LOAD_ROWS]; /* sum of a row's scores */
  int32_t experts[ROUTER_LOAD_ROWS * ROUTER_CHOSEN];
} load_rows;

/* The sums of a thread, for every router_loads_threads-th expert. counts: how often the expert is chosen. scores: the
 * sum of its normalised scores. */
enum { LOADS_EACH = ROUTER_EXPERTS / router_loads_threads };
typedef struct own_loads {
  wide counts[LOADS_EACH], scores[LOADS_EACH];
} own_loads;

/* Reads the experts of rows first .. first + rows - 1, and computes the statistics of their logits, a warp per row. The
 * caller synchronises the block. */
DEVICE void read_rows(const router_loads_arguments *a, int64_t first, int rows, load_rows *shared) {
  const int chosen = a->kind.chosen;
  for (int r = warp(); r < rows; r += block_warps()) {
    const wide *logits = (const wide *)a->logits + (first + r) * a->kind.experts;
    const statistics s = statistics_of(logits, a->kind.experts);
    const wide scores = sum_of_scores(&a->kind, logits);
    if (lane() > 0) continue;
    shared->of[r] = s;
    shared->scores[r] = scores;
  }
  for (int i = thread(); i < rows * chosen; i += threads()) shared->experts[i] = a->experts[first * chosen + i];
}

/* Adds the rows to the sums of this thread's experts. */
DEVICE void add_loads(const router_loads_arguments *a, int64_t first, int rows, const load_rows *shared,
                      own_loads *own) {
  const int chosen = a->kind.chosen;
  UNROLL for (int k = 0; k < LOADS_EACH; k++) {
    const int expert = thread() + k * router_loads_threads;
    if (expert >= a->kind.experts) continue;
    for (int r = 0; r < rows; r++) {
      if (shared->experts[r * chosen] < 0) continue;
      const wide logit = ((const wide *)a->logits)[(first + r) * a->kind.experts + expert];
      own->scores[k] += score_of(&a->kind, &shared->of[r], logit) / shared->scores[r];
    }
    int count = 0;
    for (int i = 0; i < rows * chosen; i++) count += shared->experts[i] == expert;
    own->counts[k] += (wide)count;
  }
}

/* Sums the loads of a slab, with one block per slab and sequence. Slab s begins at row s * slab_rows of its sequence,
 * even if the sequence begins before the first row of this call (a.first_row). */
KERNEL(router_loads) {
  SHARED(load_rows, shared);
  const int64_t sequence = quotient(block_x(), a.num_slabs), slab = block_x() - sequence * a.num_slabs;
  const int64_t begin = sequence * a.sequence_rows - a.first_row, behind = begin + a.sequence_rows;
  const int64_t slab_begin = begin + slab * a.slab_rows, slab_end = slab_begin + a.slab_rows;
  const int64_t live = live_rows(a.capacity, a.count), last = slab_end < behind ? slab_end : behind;
  const int64_t end = last < live ? last : live;
  own_loads own;
  UNROLL for (int k = 0; k < LOADS_EACH; k++) own.counts[k] = own.scores[k] = 0;
  for (int64_t first = slab_begin < 0 ? 0 : slab_begin; first < end; first += ROUTER_LOAD_ROWS) {
    const int rows = (int)(end - first < ROUTER_LOAD_ROWS ? end - first : ROUTER_LOAD_ROWS);
    barrier();
    read_rows(&a, first, rows, shared);
    barrier();
    add_loads(&a, first, rows, shared, &own);
  }
  wide *out = (wide *)a.slabs + block_x() * 2 * a.kind.experts;
  UNROLL for (int k = 0; k < LOADS_EACH; k++) {
    const int expert = thread() + k * router_loads_threads;
    if (expert >= a.kind.experts) continue;
    out[expert] = own.counts[k];
    out[a.kind.experts + expert] = own.scores[k];
  }
}

KERNEL(router_load_totals) {
  const wide *slabs = (const wide *)a.slabs;
  for (int64_t i = block_x() * threads() + thread(); i < a.sequences * a.width; i += blocks_x() * threads()) {
    const int64_t sequence = quotient(i, a.width), column = i - sequence * a.width;
    wide sum = 0;
    for (int64_t s = 0; s < a.num_slabs; s++) sum += slabs[(sequence * a.num_slabs + s) * a.width + column];
    ((wide *)a.loads)[i] = sum;
  }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

typedef struct warp_doubles {
  double each[MOST_WARPS];
} warp_doubles;

/* Computes the loss of each sequence, rate * the sum over experts of share * mean score, where share is counts *
 * experts / pairs; and balance[experts], the gradient of this loss with respect to the normalised scores of each row
 * (kernels.def). Counts are integers, so their sum is exact. */
KERNEL(router_balance) {
  SHARED(warp_doubles, shared);
  const int experts = a.kind.experts;
  const wide *counts = (const wide *)a.loads + block_x() * 2 * experts, *scores = counts + experts;
  wide *balance = (wide *)a.balance + block_x() * experts;
  const double rate = a.values->sequence_scale * a.coefficient;
  double pairs = 0, sum = 0;
  for (int i = thread(); i < experts; i += threads()) pairs += (double)counts[i];
  pairs = block_sum_double(pairs, shared->each);
  const double each = pairs == 0 ? 0 : (double)experts / pairs, tokens = pairs == 0 ? 1 : pairs / a.kind.chosen;
  for (int i = thread(); i < experts; i += threads()) {
    const double share = each * (double)counts[i];
    sum += share * ((double)scores[i] / tokens);
    balance[i] = (wide)(rate * share / tokens);
  }
  sum = block_sum_double(sum, shared->each);
  if (thread() == 0) a.parts[block_x()] = rate * sum;
}

/* Sums the squares of log_sum_exp over rows. Computes the logarithm in double, since it costs no time here. */
KERNEL(router_z_loss) {
  SHARED(warp_doubles, shared);
  const int64_t begin = block_x() * ROUTER_Z_ROWS, live = live_rows(a.capacity, a.count);
  const int64_t end = begin + ROUTER_Z_ROWS < live ? begin + ROUTER_Z_ROWS : live;
  double sum = 0;
  for (int64_t row = begin + warp(); row < end; row += block_warps()) {
    if (!is_routed(&a.kind, a.experts, row)) continue;
    const statistics s = statistics_of((const wide *)a.logits + row * a.kind.experts, a.kind.experts);
    const double log_sum_exp = log((double)s.sum) + (double)s.most;
    if (lane() == 0) sum += log_sum_exp * log_sum_exp;
  }
  sum = block_sum_double(sum, shared->each);
  if (thread() == 0) a.parts[block_x()] = a.z * a.values->token_scale * sum;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

typedef struct warp_counts {
  int each[MOST_WARPS];
} warp_counts;

/* Returns the sum of `own` over the block to all threads. */
DEVICE int block_count(int own, warp_counts *shared) {
  int all;
  block_sum_before(own, shared->each, &all);
  return all;
}

DEVICE int is_finite(wide x) { return x - x == 0; }

KERNEL(router_not_finite) {
  SHARED(warp_counts, shared);
  const wide *weights = (const wide *)a.weights;
  const int64_t rows = live_rows(a.capacity, a.count), pair = block_x() * GROUPS_TILE;
  const int64_t first = (pair + a.chosen - 1) / a.chosen, behind = (pair + GROUPS_TILE + a.chosen - 1) / a.chosen;
  int own = 0;
  for (int64_t row = first + thread(); row < behind && row < rows; row += threads()) {
    int odd = 0;
    for (int64_t j = 0; j < a.chosen; j++) odd |= !is_finite(weights[row * a.chosen + j]);
    own += odd;
  }
  const int all = block_count(own, shared);
  if (thread() == 0) a.found[block_x()] = all;
}

KERNEL(router_count) {
  SHARED(warp_counts, shared);
  const int64_t pairs = live_rows(a.capacity, a.count) * a.chosen, tiles = (pairs + GROUPS_TILE - 1) / GROUPS_TILE;
  int own = 0;
  for (int64_t t = thread(); t < tiles; t += threads()) own += a.tiles[block_x() * a.stride + t];
  const int all = block_count(own, shared);
  if (thread() == 0) a.counts[block_x()] += all;
}
