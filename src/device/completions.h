/* The step between the statistics of the loss and its gradient, if the loss is a function of whole completions
 * (device/preference.h): computes each label's gradient factor from the log-probabilities of labels. For the host and
 * for kernels of GPUs: one formula for all devices, whose exponentials may differ in the last bit.
 *
 * The gradient of the logits is factor (p - onehot). For a label of a completion the factor is minus the derivative of
 * the loss with respect to the sum of the completion's log-probabilities; the label may also have a weight in an
 * additional cross entropy. */
#ifndef TRI_DEVICE_COMPLETIONS_H
#define TRI_DEVICE_COMPLETIONS_H

#include "device/exact_sum.h"
#include "device/preference.h"
#include "device/step_values.h"

/* The completions in the whole sequences of a micro-batch. The completions of a sequence are numbered from 0: 2 p and 2
 * p + 1 are a pair. If the loss is of single completions, only one of the two exists: 2 p if the completion is
 * desirable, 2 p + 1 if it is undesirable. */
typedef struct tri_completions {
  tri_preference_settings preference;
  int64_t sequences, tokens; /* sequences of a micro-batch; tokens of a sequence */
  int64_t pairs;             /* maximum number of pairs of a sequence */
} tri_completions;

#define TRI_COMPLETIONS_PAIRED_(VALUE, name, paired, ...)                                                              \
  case TRI_PREFERENCE_##VALUE: return paired;
TRI_HOST_AND_GPU int tri_preference_is_paired(int32_t loss) {
  switch (loss) { TRI_PREFERENCE_LOSSES(TRI_COMPLETIONS_PAIRED_) }
  return 0;
}

/* Returns the sums over the labels of completion `number` of a sequence, which are exact. `reference` may be NULL. A
 * nonexistent completion has no labels. */
TRI_HOST_AND_GPU tri_completion_sums tri_completion_of(int32_t number, int64_t tokens, const int32_t *segments,
                                                       const double *log_probs, const double *reference) {
  tri_exact_sum logp, of_reference;
  tri_completion_sums out;
  int64_t first = 0, end;
  while (first < tokens && segments[first] != number) first++;
  for (end = first; end < tokens && segments[end] == number;) end++;
  out.logp = out.reference = 0;
  out.labels = (double)(end - first);
  if (end == first) return out;
  TRI_NOT_UNROLLED for (int32_t i = 0; i < TRI_EXACT_SUM_LIMBS; i++) logp.limbs[i] = of_reference.limbs[i] = 0;
  logp.not_finite = logp.pending = of_reference.not_finite = of_reference.pending = 0;
  TRI_NOT_UNROLLED for (int64_t t = first; t < end; t++) {
    tri_exact_term_add(&logp, log_probs[t]);
    if (reference != 0) tri_exact_term_add(&of_reference, reference[t]);
  }
  out.logp = tri_exact_value(&logp);
  out.reference = tri_exact_value(&of_reference);
  return out;
}

/* Returns the loss of a pair, or of the single completion in its place, and its derivatives; all 0 if the completion,
 * or one of the pair, does not exist. */
TRI_HOST_AND_GPU tri_preference_value tri_completions_value(const tri_preference_settings *preference,
                                                            const tri_completion_sums *chosen,
                                                            const tri_completion_sums *rejected) {
  tri_preference_value value;
  value.loss = value.chosen = value.rejected = 0;
  if (tri_preference_is_paired(preference->loss)) {
    if (chosen->labels > 0 && rejected->labels > 0) value = tri_preference_pair(preference, chosen, rejected);
  } else if (chosen->labels > 0) {
    value = tri_preference_single(preference, chosen, 1);
  } else if (rejected->labels > 0) {
    value = tri_preference_single(preference, rejected, 0);
    value.rejected = value.chosen;
    value.chosen = 0;
  }
  return value;
}

/* Computes slopes[2 pair], slopes[2 pair + 1] and losses[pair] of pair number `pair` of a micro-batch, multiplied by
 * values->segment_scale. Pairs are numbered sequence after sequence. */
TRI_HOST_AND_GPU void tri_completions_pair(const tri_completions *of, int64_t pair, const int32_t *segments,
                                           const double *log_probs, const double *reference,
                                           const tri_step_values *values, double *slopes, double *losses) {
  const int64_t first = pair / of->pairs * of->tokens;
  const int32_t number = (int32_t)(2 * (pair % of->pairs));
  const double *const theirs = reference == 0 ? reference : reference + first;
  tri_preference_settings preference = of->preference;
  preference.kl = values->kl;
  const tri_completion_sums chosen = tri_completion_of(number, of->tokens, segments + first, log_probs + first, theirs);
  const tri_completion_sums rejected =
      tri_completion_of(number + 1, of->tokens, segments + first, log_probs + first, theirs);
  const tri_preference_value value = tri_completions_value(&preference, &chosen, &rejected);
  slopes[2 * pair] = values->segment_scale * value.chosen;
  slopes[2 * pair + 1] = values->segment_scale * value.rejected;
  losses[pair] = values->segment_scale * value.loss;
}

/* Returns the number of pairs of a sequence up to its last completion; segments ascend. */
TRI_HOST_AND_GPU int64_t tri_completions_count(int64_t tokens, const int32_t *segments) {
  int64_t last = tokens - 1;
  while (last >= 0 && segments[last] < 0) last--;
  return last < 0 ? 0 : segments[last] / 2 + 1;
}

/* Computes factors[r] of row r, and losses[r], the row's part of the cross entropy. places[r] is the index of the row
 * among the rows of the whole sequences; NULL: the index is r. */
TRI_HOST_AND_GPU void tri_completions_row(const tri_completions *of, int64_t r, const int32_t *labels,
                                          const float *weights, const int32_t *places, const int32_t *segments,
                                          const double *slopes, const double *log_probs, const tri_step_values *values,
                                          double *factors, double *losses) {
  const int64_t place = places == 0 ? r : places[r];
  const int32_t number = segments[place];
  const double weight = values->loss_scale * (double)weights[r];
  factors[r] = losses[r] = 0;
  if (labels[r] < 0) return;
  losses[r] = -weight * log_probs[r];
  factors[r] = weight - (number < 0 ? 0 : slopes[place / of->tokens * 2 * of->pairs + number]);
}

#endif
