/* Policy-gradient losses of reinforcement learning: GRPO (Shao et al. 2024, arXiv 2402.03300), DAPO (Yu et al. 2025,
 * arXiv 2503.14476), Dr. GRPO (Liu et al. 2025, arXiv 2503.20783), CISPO (arXiv 2506.13585) and GSPO (Zheng et al.
 * 2025, arXiv 2507.18071). For the host and for kernels of GPUs: one formula for all devices, whose exponentials may
 * differ in the last bit. The names are those of TRL 1.16 (GRPOConfig).
 *
 * A completion is sampled from the *behaviour* policy, and its labels have log-probabilities under several policies: lp
 * under the trained one, `behaviour`, `old` (the trained policy before the batch's first update), and `reference`. The
 * loss of label t of a completion with advantage A is
 *
 *   n (q P(r) + beta r k),   r = exp(lp - old),   k = exp(reference - lp) - (reference - lp) - 1
 *
 * P is the clipped objective, or CISPO's; q corrects for the difference between `old` and `behaviour` and has no
 * gradient; n, the normaliser, is the label's share of the batch: it makes the difference between the losses of GRPO,
 * DAPO and Dr. GRPO, and the host computes it from the whole batch. If `old` is not stored (one update a batch), it is
 * lp itself, without a gradient: r is 1, and its derivative is r.
 *
 * With by_sequence r is one number for a completion, exp(mean over its labels of (lp - old)), so that each label's
 * derivative depends on all labels of its completion. The same holds for some forms of q, and for the off-policy mask.
 * Then the sums over each completion are computed first (tri_policy_sums).
 *
 * Logarithms of ratios are clamped to +-20, and have no derivative beyond. Masks select, they do not multiply, so that
 * an infinite ratio that is masked does no harm. */
#ifndef TRI_DEVICE_POLICY_H
#define TRI_DEVICE_POLICY_H

#include "base/host_and_gpu.h"

#include <stdint.h>

#if !defined(TRI_ON_GPU)
#include <math.h>
#endif

/* P(r): the clipped objective, -min(min(r, delta) A, clamp(r, 1 - epsilon, 1 + epsilon_high) A), or CISPO's,
 * -min(r, epsilon_high) A lp, where the ratio has no gradient. */
typedef enum tri_policy_objective { TRI_POLICY_CLIPPED, TRI_POLICY_CISPO } tri_policy_objective;

/* q, from x = old - behaviour of the label, or its sum over the completion: exp(x), limited to [min, max] (truncate),
 * or 0 outside of that range (mask). NONE: 1. */
typedef enum tri_policy_importance {
  TRI_POLICY_IMPORTANCE_NONE,
  TRI_POLICY_TOKEN_TRUNCATE,
  TRI_POLICY_TOKEN_MASK,
  TRI_POLICY_SEQUENCE_TRUNCATE,
  TRI_POLICY_SEQUENCE_MASK
} tri_policy_importance;

/* A limit that is this number or above it means that there is no limit. */
#define TRI_POLICY_NO_LIMIT 1e300

typedef struct tri_policy_settings {
  int32_t objective;   /* a tri_policy_objective */
  int32_t importance;  /* a tri_policy_importance */
  int32_t by_sequence; /* whether r is one number for a completion; false: one for each label */
  int32_t has_old;     /* whether the column `old` exists; false: old is lp */
  double epsilon, epsilon_high;
  double delta; /* upper bound of r in the clipped objective; TRI_POLICY_NO_LIMIT: no such bound */
  double beta;  /* factor of the KL divergence from the reference; 0: no reference */
  double importance_min, importance_max;
  double entropy_coef; /* factor of the mean entropy of the labels' distributions, which is subtracted from the loss */
  double off_policy_limit; /* P of a completion with A < 0 is 0 if the mean of (behaviour - lp) over its labels is above
                              this limit */
} tri_policy_settings;

/* The stored values of a label. */
typedef struct tri_policy_label {
  double advantage, normaliser, old, behaviour, reference;
} tri_policy_label;

/* Sums over the labels of a completion (tri_policy_has_sums). */
typedef struct tri_policy_sums {
  double labels;     /* number of labels */
  double log_ratio;  /* mean of lp - old */
  double importance; /* sum of old - behaviour */
  double drift;      /* mean of behaviour - lp */
  double slope;      /* with by_sequence: mean of the labels' tri_policy_value.through_ratio */
} tri_policy_sums;

/* The loss of a label, its derivative with respect to the logarithm of r, and its derivative with respect to lp with r
 * constant. */
typedef struct tri_policy_value {
  double loss, through_ratio, direct;
} tri_policy_value;

/* Returns whether q is a function of a sum over the completion. */
TRI_HOST_AND_GPU int tri_policy_weighs_sequences(const tri_policy_settings *settings) {
  switch ((tri_policy_importance)settings->importance) {
    case TRI_POLICY_IMPORTANCE_NONE:
    case TRI_POLICY_TOKEN_TRUNCATE:
    case TRI_POLICY_TOKEN_MASK: return 0;
    case TRI_POLICY_SEQUENCE_TRUNCATE:
    case TRI_POLICY_SEQUENCE_MASK: break;
  }
  return 1;
}

/* Returns whether a label's loss needs the sums over its completion. */
TRI_HOST_AND_GPU int tri_policy_has_sums(const tri_policy_settings *settings) {
  return settings->by_sequence || tri_policy_weighs_sequences(settings) ||
         settings->off_policy_limit < TRI_POLICY_NO_LIMIT;
}

TRI_HOST_AND_GPU double tri_policy_limited(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/* Returns the ratio with logarithm x, with x limited to -20 .. 20. */
TRI_HOST_AND_GPU double tri_policy_ratio(double x) { return exp(tri_policy_limited(x, -20.0, 20.0)); }

/* Returns the derivative of tri_policy_ratio at x. */
TRI_HOST_AND_GPU double tri_policy_ratio_slope(double x) { return x < -20.0 || x > 20.0 ? 0.0 : tri_policy_ratio(x); }

/* Returns `old` of a label. */
TRI_HOST_AND_GPU double tri_policy_old(const tri_policy_settings *settings, const tri_policy_label *label, double lp) {
  return settings->has_old ? label->old : lp;
}

/* Returns q. */
TRI_HOST_AND_GPU double tri_policy_weight(const tri_policy_settings *settings, const tri_policy_label *label, double lp,
                                          const tri_policy_sums *sums) {
  const double x =
      tri_policy_weighs_sequences(settings) ? sums->importance : tri_policy_old(settings, label, lp) - label->behaviour;
  const double ratio = tri_policy_ratio(x);
  switch ((tri_policy_importance)settings->importance) {
    case TRI_POLICY_IMPORTANCE_NONE: return 1.0;
    case TRI_POLICY_TOKEN_TRUNCATE:
    case TRI_POLICY_SEQUENCE_TRUNCATE:
      return tri_policy_limited(ratio, settings->importance_min, settings->importance_max);
    case TRI_POLICY_TOKEN_MASK:
    case TRI_POLICY_SEQUENCE_MASK: break;
  }
  return ratio < settings->importance_min || ratio > settings->importance_max ? 0.0 : ratio;
}

/* Returns whether P of a completion is 0 because the trained policy is too far from the behaviour policy. */
TRI_HOST_AND_GPU int tri_policy_is_off_policy(const tri_policy_settings *settings, const tri_policy_label *label,
                                              const tri_policy_sums *sums) {
  return settings->off_policy_limit < TRI_POLICY_NO_LIMIT && label->advantage < 0 &&
         sums->drift > settings->off_policy_limit;
}

/* Returns the value of P(r) for the clipped objective. */
TRI_HOST_AND_GPU tri_policy_value tri_policy_clipped(const tri_policy_settings *settings, double advantage,
                                                     double log_ratio) {
  const double ratio = tri_policy_ratio(log_ratio);
  const double bounded = ratio > settings->delta ? settings->delta : ratio;
  const double clipped = tri_policy_limited(ratio, 1.0 - settings->epsilon, 1.0 + settings->epsilon_high);
  const double high = 1.0 + settings->epsilon_high;
  const double least = high < settings->delta ? high : settings->delta,
               most = high < settings->delta ? settings->delta : high;
  const int live = advantage >= 0 ? ratio <= least : ratio >= 1.0 - settings->epsilon && ratio <= most;
  tri_policy_value out;
  out.through_ratio = live ? -tri_policy_ratio_slope(log_ratio) * advantage : 0.0;
  out.direct = 0.0;
  out.loss = bounded * advantage < clipped * advantage ? -bounded * advantage : -clipped * advantage;
  return out;
}

/* Returns P(r). */
TRI_HOST_AND_GPU tri_policy_value tri_policy_surrogate(const tri_policy_settings *settings, double advantage,
                                                       double log_ratio, double lp) {
  const double ratio = tri_policy_ratio(log_ratio);
  tri_policy_value out;
  switch ((tri_policy_objective)settings->objective) {
    case TRI_POLICY_CLIPPED: return tri_policy_clipped(settings, advantage, log_ratio);
    case TRI_POLICY_CISPO: break;
  }
  out.through_ratio = 0.0;
  out.direct = -(ratio > settings->epsilon_high ? settings->epsilon_high : ratio) * advantage;
  out.loss = out.direct * lp;
  return out;
}

/* Adds beta r k to the loss of a label. */
TRI_HOST_AND_GPU void tri_policy_add_kl(const tri_policy_settings *settings, const tri_policy_label *label,
                                        double log_ratio, double lp, tri_policy_value *out) {
  const double given = label->reference - lp, x = tri_policy_limited(given, -20.0, 20.0);
  const double k = exp(x) - x - 1.0, ratio = tri_policy_ratio(log_ratio);
  out->loss += settings->beta * ratio * k;
  out->through_ratio += settings->beta * tri_policy_ratio_slope(log_ratio) * k;
  if (x == given) out->direct += settings->beta * ratio * (1.0 - exp(x));
}

/* Returns the value of a label. `sums` are the sums over its completion; they are read only if tri_policy_has_sums is
 * true. */
TRI_HOST_AND_GPU tri_policy_value tri_policy_value_of(const tri_policy_settings *settings,
                                                      const tri_policy_label *label, double lp,
                                                      const tri_policy_sums *sums) {
  const double log_ratio = settings->by_sequence ? sums->log_ratio : lp - tri_policy_old(settings, label, lp);
  const double weight =
      tri_policy_is_off_policy(settings, label, sums) ? 0.0 : tri_policy_weight(settings, label, lp, sums);
  tri_policy_value out = tri_policy_surrogate(settings, label->advantage, log_ratio, lp);
  out.loss = weight == 0 ? 0.0 : weight * out.loss;
  out.through_ratio = weight == 0 ? 0.0 : weight * out.through_ratio;
  out.direct = weight == 0 ? 0.0 : weight * out.direct;
  if (settings->beta > 0) tri_policy_add_kl(settings, label, log_ratio, lp, &out);
  out.loss *= label->normaliser;
  out.through_ratio *= label->normaliser;
  out.direct *= label->normaliser;
  return out;
}

/* ---- the labels of a micro-batch --------------------------------------------------------------------------------- */

/* A micro-batch of whole sequences, each with at most `tokens` completions, which are numbered from 0 (the column
 * segments). */
typedef struct tri_policy_batch {
  tri_policy_settings settings;
  int64_t sequences, tokens;
} tri_policy_batch;

/* The columns of the labels, each [sequences, tokens]; old and reference may be NULL if they are not used. */
typedef struct tri_policy_columns {
  const double *advantage, *normaliser, *old, *behaviour, *reference;
} tri_policy_columns;

TRI_HOST_AND_GPU tri_policy_label tri_policy_label_at(const tri_policy_columns *columns, int64_t at) {
  tri_policy_label out;
  out.advantage = columns->advantage[at];
  out.normaliser = columns->normaliser[at];
  out.behaviour = columns->behaviour[at];
  out.old = columns->old == 0 ? 0.0 : columns->old[at];
  out.reference = columns->reference == 0 ? 0.0 : columns->reference[at];
  return out;
}

/* Computes sums[sequence, number] of completion `number` of a sequence from the log-probabilities of whole sequences.
 * Writes nothing if the completion does not exist. */
TRI_HOST_AND_GPU void tri_policy_sum(const tri_policy_batch *of, int64_t sequence, int64_t number,
                                     const int32_t *segments, const tri_policy_columns *columns,
                                     const double *log_probs, tri_policy_sums *sums) {
  const int64_t begin = sequence * of->tokens, stop = begin + of->tokens;
  tri_policy_sums out;
  int64_t first = begin, end;
  while (first < stop && segments[first] != number) first++;
  for (end = first; end < stop && segments[end] == number;) end++;
  if (end == first) return;
  out.labels = (double)(end - first);
  out.log_ratio = out.importance = out.drift = out.slope = 0.0;
  TRI_NOT_UNROLLED for (int64_t t = first; t < end; t++) {
    const tri_policy_label label = tri_policy_label_at(columns, t);
    const double old = tri_policy_old(&of->settings, &label, log_probs[t]);
    out.log_ratio += log_probs[t] - old;
    out.importance += old - label.behaviour;
    out.drift += label.behaviour - log_probs[t];
  }
  out.log_ratio /= out.labels;
  out.drift /= out.labels;
  TRI_NOT_UNROLLED for (int64_t t = first; t < end; t++) {
    const tri_policy_label label = tri_policy_label_at(columns, t);
    out.slope += tri_policy_value_of(&of->settings, &label, log_probs[t], &out).through_ratio;
  }
  out.slope /= out.labels;
  sums[begin + number] = out;
}

/* Returns the number of completions of a sequence; segments ascend. */
TRI_HOST_AND_GPU int64_t tri_policy_count(int64_t tokens, const int32_t *segments) {
  int64_t last = tokens - 1;
  while (last >= 0 && segments[last] < 0) last--;
  return last < 0 ? 0 : segments[last] + 1;
}

/* Computes losses[r], the loss of row r, and factors[r]: the gradient of the row's logits is factors[r] * (p - onehot).
 * places[r]: index of the row among the rows of the whole sequences; NULL: r. log_probs has the log-probabilities of
 * this rank's rows. A label that belongs to no completion has no loss. */
TRI_HOST_AND_GPU void tri_policy_row(const tri_policy_batch *of, int64_t r, const int32_t *labels,
                                     const int32_t *places, const int32_t *segments, const tri_policy_columns *columns,
                                     const tri_policy_sums *sums, const double *log_probs, double *factors,
                                     double *losses) {
  const int64_t place = places == 0 ? r : places[r];
  const int32_t number = segments[place];
  factors[r] = losses[r] = 0.0;
  if (labels[r] < 0 || number < 0) return;
  const tri_policy_label label = tri_policy_label_at(columns, place);
  const tri_policy_sums none = {0, 0, 0, 0, 0};
  const tri_policy_sums *own = sums == 0 ? &none : &sums[place / of->tokens * of->tokens + number];
  const tri_policy_value value = tri_policy_value_of(&of->settings, &label, log_probs[r], own);
  losses[r] = value.loss;
  factors[r] = -(value.direct + (of->settings.by_sequence ? own->slope : value.through_ratio));
}

#endif
