#include "data/preference_sums.h"

#include "device/completions.h"
#include "device/exact_sum.h"

#include <math.h>

static void add_answer(tri_preference_sums *to, const tri_preference_settings *settings,
                       const tri_completion_sums *sums, int side) {
  if (sums->labels == 0) return;
  to->count[side]++;
  tri_exact_sum_add(&to->rewards[side], tri_preference_reward(settings, sums));
  tri_exact_sum_add(&to->logps[side], tri_preference_logp(settings, sums));
}

static void add_unit(tri_preference_sums *to, const tri_preference_settings *settings,
                     const tri_preference_unit *unit) {
  const tri_completion_sums *chosen = &unit->sums[0], *rejected = &unit->sums[1];
  add_answer(to, settings, chosen, 0);
  add_answer(to, settings, rejected, 1);
  tri_exact_sum_add(&to->loss, tri_completions_value(settings, chosen, rejected).loss);
  to->pairs++;
  to->right += tri_preference_reward(settings, chosen) > tri_preference_reward(settings, rejected);
}

tri_status tri_preference_sums_add(tri_preference_sums *sums, const tri_preference_settings *settings,
                                   const tri_preference_at *at, int64_t count, const double *rows,
                                   tri_preference_unit *units) {
  for (int64_t s = 0; s < count; s++) {
    int64_t found = 0;
    TRI_TRY(tri_preference_units(at, s, rows + s * at->source->options.sequence, units, &found));
    for (int64_t u = 0; u < found; u++) add_unit(sums, settings, &units[u]);
  }
  return TRI_OK;
}

tri_status tri_preference_sums_add_cross_entropy(tri_preference_sums *sums, const tri_preference_at *at, int64_t count,
                                                 const double *rows) {
  const int64_t sequence = at->source->options.sequence;
  const tri_feed feed = tri_preference_feed(at);
  tri_sample sample = {0};
  tri_status status = tri_sample_alloc(TRI_COLUMNS_ALWAYS, sequence, &sample);
  for (int64_t s = 0; s < count && status == TRI_OK; s++) {
    status = tri_feed_read(&feed, s, &sample);
    for (int64_t i = 0; i < sequence && status == TRI_OK; i++) {
      if (sample.labels[i] < 0 || sample.weights[i] == 0) continue;
      tri_exact_sum_add(&sums->cross_entropy, -rows[s * sequence + i] * (double)sample.weights[i]);
      tri_exact_sum_add(&sums->weights, (double)sample.weights[i]);
    }
  }
  tri_sample_free(&sample);
  return status;
}

static double mean_of(tri_exact_sum *sum, double count) { return count > 0 ? tri_exact_sum_value(sum) / count : NAN; }

tri_status tri_preference_kl(const tri_preference_at *at, int64_t count, const double *rows, tri_preference_unit *units,
                             double *out) {
  tri_exact_sum sum = {0};
  int64_t answers = 0;
  for (int64_t s = 0; s < count; s++) {
    int64_t found = 0;
    TRI_TRY(tri_preference_units(at, s, rows + s * at->source->options.sequence, units, &found));
    for (int64_t u = 0; u < found; u++) {
      const tri_completion_sums *sums = &units[u].sums[units[u].sums[0].labels > 0 ? 0 : 1];
      tri_exact_sum_add(&sum, sums->logp - sums->reference);
    }
    answers += found;
  }
  *out = fmax(0, mean_of(&sum, (double)answers));
  return TRI_OK;
}

tri_preference_means tri_preference_sums_means(tri_preference_sums *sums, double label_scale) {
  tri_preference_means out = {.loss = mean_of(&sums->loss, (double)sums->pairs),
                              .accuracies = (double)sums->right / (double)sums->pairs};
  for (int side = 0; side < 2; side++) {
    out.rewards[side] = mean_of(&sums->rewards[side], (double)sums->count[side]);
    out.logps[side] = mean_of(&sums->logps[side], (double)sums->count[side]);
  }
  out.margins = out.rewards[0] - out.rewards[1];
  if (label_scale != 0) out.loss += label_scale * mean_of(&sums->cross_entropy, tri_exact_sum_value(&sums->weights));
  return out;
}
