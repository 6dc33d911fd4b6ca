/* Running average of the weights, with any optimizer: one more state of each parameter that is updated. Training does
 * not read it; exporting, evaluation and generation can use it. */
#include "optimizers/optimizer.h"

static const tri_config_key keys[] = {
    {TRI_CONFIG_KEY(tri_average_settings, every, TRI_CONFIG_INT), .fallback = "0",
     .range = {.low = 0, .high = (int64_t)1 << 40},
     .help = "updates between the weights that are averaged; 0: no average"},
    {TRI_CONFIG_KEY(tri_average_settings, decay, TRI_CONFIG_DOUBLE), .fallback = "0.999",
     .range = {.low = 0, .high = 1, .open_high = true},
     .help = "the average is decay x the average + (1 - decay) x the weights; 0 is the mean of all of them"},
    {TRI_CONFIG_KEY(tri_average_settings, after, TRI_CONFIG_INT), .fallback = "0",
     .range = {.low = 0, .high = (int64_t)1 << 40}, .help = "updates before the first weights that are averaged"},
};
const tri_config_table tri_average_keys = TRI_CONFIG_TABLE("run file", keys);

const tri_optimizer_state tri_average_state = {.suffix = TRI_AVERAGE_SUFFIX,
                                               .owner = TRI_STATE_OF_RUN,
                                               .with_sign = true,
                                               .as_value = true,
                                               .is_kept = tri_average_is_kept};

bool tri_average_is_kept(const tri_optimizer_settings *settings) { return settings->average.every > 0; }

bool tri_average_is_due(const tri_optimizer_settings *settings, int64_t update) {
  const int64_t later = update - settings->average.after;
  return tri_average_is_kept(settings) && later > 0 && later % settings->average.every == 0;
}

double tri_average_weight(const tri_optimizer_settings *settings, int64_t taken) {
  const double decay = settings->average.decay;
  if (taken == 0) return 1.0;
  return decay > 0 ? 1.0 - decay : 1.0 / (double)(taken + 1);
}

double tri_average_element_bytes(const tri_optimizer_settings *settings, size_t element) {
  return tri_average_is_kept(settings) ? 3 * (double)element / (double)settings->average.every : 0;
}

tri_status tri_average_check(const tri_optimizer_settings *settings, const tri_optimizer *other) {
  if (!tri_average_is_kept(settings) || other == NULL) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`average.every` %ld: %s averages its points by itself; leave `average` out",
                  (long)settings->average.every, other->name);
}
