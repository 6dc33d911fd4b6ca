/* Losses on preferences, of a preferred answer and a rejected one. For the host and for kernels of GPUs.
 *
 * A loss is a function of a few numbers of each completion (tri_completion_sums): S, the sum of its labels' log
 * probabilities; R, the same sum under the reference model; n, the number of its labels. With r = S - R and m = S / n,
 * and the suffixes _c and _r for the chosen and the rejected completion, each function below is one loss of one pair
 * (or of one completion) with its derivatives with respect to S. All are those of TRL 1.16 (DPOTrainer, KTOTrainer, and
 * the experimental CPOTrainer and ORPOTrainer), whose names of loss_type are given if they differ.
 *
 * The mean over pairs, and an added cross entropy, are not here, because they are the same for each loss.
 *
 * Results are finite if the exact ones are: with f(x) = log(1 + exp(x)) and s(x) = 1 / (1 + exp(-x)), no function
 * computes the exponential of a large number. */
#ifndef TRI_DEVICE_PREFERENCE_H
#define TRI_DEVICE_PREFERENCE_H

#include "base/host_and_gpu.h"

#include <stdint.h>

#if !defined(TRI_ON_GPU)
#include <math.h>
#endif

/* X(VALUE, name, paired, reference): TRI_PREFERENCE_VALUE, and its name in run files; whether it is a loss of a pair,
 * rather than of one completion that is desirable or not; whether R is used. A row without its function does not
 * build. */
#define TRI_PREFERENCE_LOSSES(X)                                                                                       \
  X(DPO, dpo, 1, 1)                                                                                                    \
  X(IPO, ipo, 1, 1)                                                                                                    \
  X(HINGE, hinge, 1, 1)                                                                                                \
  X(ROBUST, robust, 1, 1)                                                                                              \
  X(SIGMOID_NORM, sigmoid_norm, 1, 1)                                                                                  \
  X(APO_ZERO, apo_zero, 1, 1)                                                                                          \
  X(APO_DOWN, apo_down, 1, 1)                                                                                          \
  X(SIMPO, simpo, 1, 0)                                                                                                \
  X(CPO, cpo, 1, 0)                                                                                                    \
  X(ORPO, orpo, 1, 0)                                                                                                  \
  X(EXO_PAIR, exo_pair, 1, 1)                                                                                          \
  X(NCA_PAIR, nca_pair, 1, 1)                                                                                          \
  X(BCO_PAIR, bco_pair, 1, 1)                                                                                          \
  X(SPPO_HARD, sppo_hard, 1, 1)                                                                                        \
  X(DISCOPOP, discopop, 1, 1)                                                                                          \
  X(KTO, kto, 0, 1)                                                                                                    \
  X(APO_ZERO_UNPAIRED, apo_zero_unpaired, 0, 1)                                                                        \
  /* the next row goes here */

#define TRI_PREFERENCE_VALUE(VALUE, ...) TRI_PREFERENCE_##VALUE,
typedef enum tri_preference_loss { TRI_PREFERENCE_LOSSES(TRI_PREFERENCE_VALUE) } tri_preference_loss;
#define TRI_PREFERENCE_ONE_(...) +1
enum { TRI_NUM_PREFERENCE_LOSSES = 0 TRI_PREFERENCE_LOSSES(TRI_PREFERENCE_ONE_) };

typedef struct tri_preference_settings {
  int32_t loss; /* a tri_preference_loss */
  int32_t pad;
  double beta;                                 /* factor beta of the losses; above 0 */
  double label_smoothing;                      /* e: in robust, cpo and simpo below 1/2; in exo_pair above 0 */
  double simpo_gamma;                          /* simpo: the margin, in units of the loss's argument */
  double desirable_weight, undesirable_weight; /* kto, apo_zero_unpaired: factors of the losses of desirable and of
                                                  undesirable completions */
  double kl;           /* kto: z, the mean of S - R of the batch's mismatched completions, not below 0; a constant */
  double discopop_tau; /* discopop: tau, above 0 */
} tri_preference_settings;

typedef struct tri_completion_sums {
  double logp, reference, labels; /* S, R, n */
} tri_completion_sums;

typedef struct tri_preference_value {
  double loss;             /* loss of the pair, or of the completion */
  double chosen, rejected; /* d loss / d S of each; a single completion uses `chosen`, desirable or not */
} tri_preference_value;

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Computes s(x). */
TRI_HOST_AND_GPU double tri_preference_sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

/* Computes s'(x) = s(x) s(-x), the derivative of s. */
TRI_HOST_AND_GPU double tri_preference_sigmoid_slope(double x) {
  const double e = exp(-fabs(x));
  return e / ((1.0 + e) * (1.0 + e));
}

/* Computes f(x) = -log s(-x). */
TRI_HOST_AND_GPU double tri_preference_softplus(double x) { return (x > 0 ? x : 0.0) + log1p(exp(-fabs(x))); }

TRI_HOST_AND_GPU double tri_preference_ratio(const tri_completion_sums *sums) { return sums->logp - sums->reference; }

/* Returns n; a completion without labels counts as one with a label whose log probability is 0. */
TRI_HOST_AND_GPU double tri_preference_labels(const tri_completion_sums *sums) {
  return sums->labels > 1.0 ? sums->labels : 1.0;
}

/* Returns the value of a loss that has this slope with respect to a margin. The margin grows by `chosen` per unit of S
 * of the chosen completion, and falls by `rejected` per unit of S of the rejected one. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_of_margin(double loss, double slope, double chosen,
                                                               double rejected) {
  tri_preference_value out;
  out.loss = loss;
  out.chosen = slope * chosen;
  out.rejected = -slope * rejected;
  return out;
}

/* Computes (1 - e) f(-x) + e f(x): labels are wrong with probability e. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_logistic(double x, double smoothing, double chosen,
                                                              double rejected) {
  const double right = 1.0 - smoothing;
  const double loss = right * tri_preference_softplus(-x) + smoothing * tri_preference_softplus(x);
  const double slope = smoothing * tri_preference_sigmoid(x) - right * tri_preference_sigmoid(-x);
  return tri_preference_of_margin(loss, slope, chosen, rejected);
}

/* Computes beta (r_c - r_r). */
TRI_HOST_AND_GPU double tri_preference_margin(const tri_preference_settings *settings,
                                              const tri_completion_sums *chosen, const tri_completion_sums *rejected) {
  return settings->beta * (tri_preference_ratio(chosen) - tri_preference_ratio(rejected));
}

/* ---- losses of pairs --------------------------------------------------------------------------------------------- */

/* Computes f(-x), x = beta (r_c - r_r) (Rafailov et al. 2023, equation 7). TRL: sigmoid; label_smoothing is not used.
 */
TRI_HOST_AND_GPU tri_preference_value tri_preference_dpo(const tri_preference_settings *settings,
                                                         const tri_completion_sums *chosen,
                                                         const tri_completion_sums *rejected) {
  return tri_preference_logistic(tri_preference_margin(settings, chosen, rejected), 0.0, settings->beta,
                                 settings->beta);
}

/* Computes (r_c / n_c - r_r / n_r - 1 / (2 beta))^2 (Azar et al. 2023, equation 17, of means over labels as in its
 * authors' code). Without a reference it is CPOTrainer's ipo. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_ipo(const tri_preference_settings *settings,
                                                         const tri_completion_sums *chosen,
                                                         const tri_completion_sums *rejected) {
  const double labels_c = tri_preference_labels(chosen), labels_r = tri_preference_labels(rejected);
  const double off = tri_preference_ratio(chosen) / labels_c - tri_preference_ratio(rejected) / labels_r -
                     1.0 / (2.0 * settings->beta);
  return tri_preference_of_margin(off * off, 2.0 * off, 1.0 / labels_c, 1.0 / labels_r);
}

/* Computes max(0, 1 - x), x = beta (r_c - r_r) (Zhao et al. 2023, SLiC). Without a reference it is CPOTrainer's hinge.
 */
TRI_HOST_AND_GPU tri_preference_value tri_preference_hinge(const tri_preference_settings *settings,
                                                           const tri_completion_sums *chosen,
                                                           const tri_completion_sums *rejected) {
  const double left = 1.0 - tri_preference_margin(settings, chosen, rejected);
  return tri_preference_of_margin(left < 0 ? 0.0 : left, left > 0 ? -1.0 : 0.0, settings->beta, settings->beta);
}

/* Computes ((1 - e) f(-x) - e f(x)) / (1 - 2 e), x = beta (r_c - r_r) (Chowdhury et al. 2024, equation 12). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_robust(const tri_preference_settings *settings,
                                                            const tri_completion_sums *chosen,
                                                            const tri_completion_sums *rejected) {
  const double x = tri_preference_margin(settings, chosen, rejected), wrong = settings->label_smoothing;
  const double loss = (1.0 - wrong) * tri_preference_softplus(-x) - wrong * tri_preference_softplus(x);
  const double slope = -(1.0 - wrong) * tri_preference_sigmoid(-x) - wrong * tri_preference_sigmoid(x);
  const double scale = 1.0 / (1.0 - 2.0 * wrong);
  return tri_preference_of_margin(loss * scale, slope * scale, settings->beta, settings->beta);
}

/* Computes f(-x), x = beta (r_c / n_c - r_r / n_r): dpo of means over labels. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_sigmoid_norm(const tri_preference_settings *settings,
                                                                  const tri_completion_sums *chosen,
                                                                  const tri_completion_sums *rejected) {
  const double beta = settings->beta;
  const double labels_c = tri_preference_labels(chosen), labels_r = tri_preference_labels(rejected);
  const double x = beta * (tri_preference_ratio(chosen) / labels_c - tri_preference_ratio(rejected) / labels_r);
  return tri_preference_logistic(x, 0.0, beta / labels_c, beta / labels_r);
}

/* Computes s(-beta r_c) + s(beta r_r) (D'Oosterlinck et al. 2024, equation 7). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_apo_zero(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x_c = settings->beta * tri_preference_ratio(chosen);
  const double x_r = settings->beta * tri_preference_ratio(rejected);
  tri_preference_value out;
  out.loss = tri_preference_sigmoid(-x_c) + tri_preference_sigmoid(x_r);
  out.chosen = -settings->beta * tri_preference_sigmoid_slope(x_c);
  out.rejected = settings->beta * tri_preference_sigmoid_slope(x_r);
  return out;
}

/* Computes s(beta r_c) + s(-beta (r_c - r_r)) (D'Oosterlinck et al. 2024, equation 8). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_apo_down(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x_c = settings->beta * tri_preference_ratio(chosen);
  const double x = tri_preference_margin(settings, chosen, rejected);
  tri_preference_value out;
  out.loss = tri_preference_sigmoid(x_c) + tri_preference_sigmoid(-x);
  out.rejected = settings->beta * tri_preference_sigmoid_slope(x);
  out.chosen = settings->beta * tri_preference_sigmoid_slope(x_c) - out.rejected;
  return out;
}

/* Computes (1 - e) f(-x) + e f(x), x = beta (m_c - m_r) - gamma (Meng et al. 2024, equation 6). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_simpo(const tri_preference_settings *settings,
                                                           const tri_completion_sums *chosen,
                                                           const tri_completion_sums *rejected) {
  const double beta = settings->beta;
  const double labels_c = tri_preference_labels(chosen), labels_r = tri_preference_labels(rejected);
  const double x = beta * (chosen->logp / labels_c - rejected->logp / labels_r) - settings->simpo_gamma;
  return tri_preference_logistic(x, settings->label_smoothing, beta / labels_c, beta / labels_r);
}

/* Computes (1 - e) f(-x) + e f(x), x = beta (S_c - S_r) (Xu et al. 2024, equation 3). TRL: CPOTrainer's sigmoid. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_cpo(const tri_preference_settings *settings,
                                                         const tri_completion_sums *chosen,
                                                         const tri_completion_sums *rejected) {
  return tri_preference_logistic(settings->beta * (chosen->logp - rejected->logp), settings->label_smoothing,
                                 settings->beta, settings->beta);
}

/* Returns the mean log probability, at most -2^-24: a mean that fp32 cannot distinguish from 0 is replaced by that, so
 * that odds are finite. */
TRI_HOST_AND_GPU double tri_preference_mean(const tri_completion_sums *sums) {
  const double mean = sums->logp / tri_preference_labels(sums), most = -1.0 / 16777216.0;
  return mean > most ? most : mean;
}

/* Returns log(1 - exp(x)), x < 0, by the formula that does not cancel (Maechler 2012). */
TRI_HOST_AND_GPU double tri_preference_log_complement(double x) {
  return x > -0.6931471805599453 ? log(-expm1(x)) : log1p(-exp(x));
}

/* Computes beta f(-x), x = log odds_c - log odds_r with odds = exp(m) / (1 - exp(m)) (Hong et al. 2024, equations 4 and
 * 7). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_orpo(const tri_preference_settings *settings,
                                                          const tri_completion_sums *chosen,
                                                          const tri_completion_sums *rejected) {
  const double mean_c = tri_preference_mean(chosen), mean_r = tri_preference_mean(rejected);
  const double x = mean_c - mean_r - (tri_preference_log_complement(mean_c) - tri_preference_log_complement(mean_r));
  /* d x / d m_c = 1 / (1 - exp(m_c)), and the negative for m_r */
  return tri_preference_of_margin(
      settings->beta * tri_preference_softplus(-x), -settings->beta * tri_preference_sigmoid(-x),
      -1.0 / (expm1(mean_c) * tri_preference_labels(chosen)), -1.0 / (expm1(mean_r) * tri_preference_labels(rejected)));
}

/* Computes s(x) log(s(x) / (1 - e)) + s(-x) log(s(-x) / e), x = beta (r_c - r_r) (Ji et al. 2024, equation 16). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_exo_pair(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x = tri_preference_margin(settings, chosen, rejected);
  const double log_right = log1p(-settings->label_smoothing), log_wrong = log(settings->label_smoothing);
  const double loss = tri_preference_sigmoid(x) * (-tri_preference_softplus(-x) - log_right) +
                      tri_preference_sigmoid(-x) * (-tri_preference_softplus(x) - log_wrong);
  return tri_preference_of_margin(loss, tri_preference_sigmoid_slope(x) * (x - log_right + log_wrong), settings->beta,
                                  settings->beta);
}

/* Computes f(-beta r_c) + f(beta r_c) / 2 + f(beta r_r) / 2 (Chen et al. 2024, noise contrastive alignment). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_nca_pair(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x_c = settings->beta * tri_preference_ratio(chosen);
  const double x_r = settings->beta * tri_preference_ratio(rejected);
  tri_preference_value out;
  out.loss = tri_preference_softplus(-x_c) + 0.5 * tri_preference_softplus(x_c) + 0.5 * tri_preference_softplus(x_r);
  out.chosen = settings->beta * (0.5 * tri_preference_sigmoid(x_c) - tri_preference_sigmoid(-x_c));
  out.rejected = settings->beta * 0.5 * tri_preference_sigmoid(x_r);
  return out;
}

/* Computes f(-beta r_c) + f(beta r_r) (Jung et al. 2024). TRL's DPOTrainer does not subtract a running mean of rewards.
 */
TRI_HOST_AND_GPU tri_preference_value tri_preference_bco_pair(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x_c = settings->beta * tri_preference_ratio(chosen);
  const double x_r = settings->beta * tri_preference_ratio(rejected);
  tri_preference_value out;
  out.loss = tri_preference_softplus(-x_c) + tri_preference_softplus(x_r);
  out.chosen = -settings->beta * tri_preference_sigmoid(-x_c);
  out.rejected = settings->beta * tri_preference_sigmoid(x_r);
  return out;
}

/* Computes (r_c - 1 / (2 beta))^2 + (r_r + 1 / (2 beta))^2 (Wu et al. 2024, equation 4.7, the chosen one always wins).
 */
TRI_HOST_AND_GPU tri_preference_value tri_preference_sppo_hard(const tri_preference_settings *settings,
                                                               const tri_completion_sums *chosen,
                                                               const tri_completion_sums *rejected) {
  const double off_c = tri_preference_ratio(chosen) - 0.5 / settings->beta;
  const double off_r = tri_preference_ratio(rejected) + 0.5 / settings->beta;
  tri_preference_value out;
  out.loss = off_c * off_c + off_r * off_r;
  out.chosen = 2.0 * off_c;
  out.rejected = 2.0 * off_r;
  return out;
}

/* Computes (1 - k) f(-x) + k exp(-x), k = s(x / tau), x = beta (r_c - r_r) (Lu et al. 2024, equation 5). If x is far
 * below 0, exp(-x) is large and k small, and their product is computed as one exponential. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_discopop(const tri_preference_settings *settings,
                                                              const tri_completion_sums *chosen,
                                                              const tri_completion_sums *rejected) {
  const double x = tri_preference_margin(settings, chosen, rejected), y = x / settings->discopop_tau;
  const double kept = tri_preference_sigmoid(-y), logistic = tri_preference_softplus(-x);
  const double exponential = x < 0 ? exp(y - x) * kept : exp(-x) * tri_preference_sigmoid(y);
  const double slope = (exponential * kept - logistic * tri_preference_sigmoid_slope(y)) / settings->discopop_tau -
                       kept * tri_preference_sigmoid(-x) - exponential;
  return tri_preference_of_margin(kept * logistic + exponential, slope, settings->beta, settings->beta);
}

/* ---- losses of one completion ------------------------------------------------------------------------------------ */

/* Returns s(-x) times the weight of a desirable completion, or s(x) times that of an undesirable one. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_of_gain(const tri_preference_settings *settings, double x,
                                                             int desirable) {
  const double weight = desirable ? settings->desirable_weight : settings->undesirable_weight;
  const double slope = weight * settings->beta * tri_preference_sigmoid_slope(x);
  tri_preference_value out;
  out.loss = weight * tri_preference_sigmoid(desirable ? -x : x);
  out.chosen = desirable ? -slope : slope;
  out.rejected = 0.0;
  return out;
}

/* Computes tri_preference_of_gain with x = beta (r - z) (Ethayarajh et al. 2024, equation 7). */
TRI_HOST_AND_GPU tri_preference_value tri_preference_kto(const tri_preference_settings *settings,
                                                         const tri_completion_sums *completion, int desirable) {
  return tri_preference_of_gain(settings, settings->beta * (tri_preference_ratio(completion) - settings->kl),
                                desirable);
}

/* Computes tri_preference_of_gain with x = beta r: the halves of apo_zero separately. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_apo_zero_unpaired(const tri_preference_settings *settings,
                                                                       const tri_completion_sums *completion,
                                                                       int desirable) {
  return tri_preference_of_gain(settings, settings->beta * tri_preference_ratio(completion), desirable);
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

TRI_HOST_AND_GPU tri_preference_value tri_preference_none(void) {
  tri_preference_value out;
  out.loss = out.chosen = out.rejected = nan("");
  return out;
}

#define TRI_PREFERENCE_CASE(VALUE, call)                                                                               \
  case TRI_PREFERENCE_##VALUE:                                                                                         \
    return call;
#define TRI_PREFERENCE_PAIR_1(name) tri_preference_##name(settings, chosen, rejected)
#define TRI_PREFERENCE_PAIR_0(name) tri_preference_none()
#define TRI_PREFERENCE_SINGLE_1(name) tri_preference_none()
#define TRI_PREFERENCE_SINGLE_0(name) tri_preference_##name(settings, completion, desirable)
#define TRI_PREFERENCE_PAIR(VALUE, name, paired, ...) TRI_PREFERENCE_CASE(VALUE, TRI_PREFERENCE_PAIR_##paired(name))
#define TRI_PREFERENCE_SINGLE(VALUE, name, paired, ...) TRI_PREFERENCE_CASE(VALUE, TRI_PREFERENCE_SINGLE_##paired(name))

/* Returns the value of settings->loss, a loss of pairs; NaN for other losses. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_pair(const tri_preference_settings *settings,
                                                          const tri_completion_sums *chosen,
                                                          const tri_completion_sums *rejected) {
  switch ((tri_preference_loss)settings->loss) { TRI_PREFERENCE_LOSSES(TRI_PREFERENCE_PAIR) }
  return tri_preference_none();
}

/* Returns the value of settings->loss, a loss of single completions; NaN for other losses. */
TRI_HOST_AND_GPU tri_preference_value tri_preference_single(const tri_preference_settings *settings,
                                                            const tri_completion_sums *completion, int desirable) {
  switch ((tri_preference_loss)settings->loss) { TRI_PREFERENCE_LOSSES(TRI_PREFERENCE_SINGLE) }
  return tri_preference_none();
}

#endif
