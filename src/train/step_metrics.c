/* Writes a line of metrics for each step. */
#include "train/train_internal.h"

#include "base/log.h"
#include "model/family.h"
#include "model/window.h"

#include <math.h>

int64_t tri_training_sources(const tri_training *t, tri_source_metrics out[TRI_MOST_SOURCES]) {
  const tri_sampler *train = &t->data.train;
  const int64_t count = train->mixture.shares.num_sources, samples = t->progress.samples;
  for (int64_t k = 0; k < count; k++) {
    int64_t own = tri_sampler_count(train, k, samples);
    out[k] = (tri_source_metrics){.path = t->config->data.train[k].path,
                                  .share = samples == 0 ? 0 : (double)own / (double)samples,
                                  .tokens = own * train->sequence,
                                  .epochs = tri_sampler_epochs(train, k, samples)};
  }
  return count > 1 ? count : 0;
}

/* Returns the share of attention's work in a step that masks and windows leave, averaged over all layers: 1 if every
 * token sees all tokens before it in its sequence. */
static double attention_fraction_of(const tri_training *t, const tri_step *step) {
  const tri_model *model = &t->config->model;
  double sequence = (double)t->config->data.sequence, seen = 0;
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    seen += (double)(tri_model_window(model, layer) > 0 ? step->seen_in_window : step->seen);
  }
  double all = (double)step->samples * (sequence * (sequence + 1) / 2);
  return seen / ((double)model->num_layers * all);
}

/* Computes the metrics of the layers that have experts; `out` has room for all layers. Returns their number. */
static int64_t measure_experts(const tri_training *t, tri_expert_metrics *out) {
  const tri_router_loads loads = tri_engine_router_loads(t->engine);
  int64_t count = 0;
  for (int64_t layer = 0; layer < loads.num_layers; layer++) {
    const int64_t *load = loads.counts + layer * (loads.experts + 1);
    if (loads.rounds[layer] == 0) continue;
    out[count++] = tri_expert_metrics_of(layer, load, loads.experts, (int64_t)loads.rounds[layer]);
  }
  return count;
}

/* Returns the MFU; NAN if the peak is not known. */
static double mfu_of(const tri_training *t, double flops_per_s) {
  return t->peak_flops > 0 ? flops_per_s / (t->peak_flops * t->mesh.world.size) : NAN;
}

/* Sets t->answers to the step's accuracy, margin and log-probability of a run on preferences, of training and of
 * held-out pairs; to "" for other runs. */
static void describe_answers(tri_training *t) {
  static const char *const of[] = {"", "validation/"}, *const names[] = {TRI_ACCURACY, TRI_MARGIN, TRI_CHOSEN_LOGP};
  static const char *const words[] = {"accuracy", "margin", "logps/chosen"};
  char *out = t->answers;
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < 2; i++) {
    bool any = false;
    for (int k = 0; k < 3; k++) {
      char name[TRI_METRIC_NAME_BYTES];
      snprintf(name, sizeof name, "%s%s", of[i], names[k]);
      const tri_named_metric *metric = tri_named_metrics_find(&t->named, name);
      if (metric == NULL || !isfinite(metric->value)) continue;
      used += (size_t)snprintf(out + used, sizeof t->answers - used, "%s%s %.*f",
                               any      ? ", "
                               : i == 0 ? "; "
                                        : "; held-out pairs: ",
                               words[k], k < 2 ? 3 : 2, metric->value);
      any = true;
    }
  }
}

/* Returns the shares of a step's time if the last of the timed steps has just ended; else NULL. */
static const tri_timeline_shares *new_shares(const tri_training *t) {
  const tri_timing *timing = &t->timing;
  return timing->shares.num_steps > 0 && t->progress.step == timing->end ? &timing->shares : NULL;
}

tri_status tri_observe_metrics(tri_training *t, tri_made_step *made) {
  const tri_step *step = &made->step;
  if (!tri_training_is_rank0(t)) return TRI_OK;
  if (tri_folder_lock_is_lost(t->output.lock)) TRI_TRY(tri_folder_lock_check(t->output.lock));
  tri_log_to_parent("step %ld", (long)t->progress.step);
  double tokens = (double)(step->samples * t->config->data.sequence);
  double rate = tokens / made->seconds;
  double flops = tri_model_flops_per_token(&t->config->model, t->config->data.sequence, attention_fraction_of(t, step));
  TRI_TRY(tri_training_doubt_peak(t, mfu_of(t, rate * flops)));
  tri_source_metrics sources[TRI_MOST_SOURCES];
  tri_step_metrics line = {
      .step = t->progress.step,
      .loss = step->loss,
      .grad_norm = step->grad_norm,
      .lr = made->lr,
      .tokens = t->progress.tokens,
      .tokens_per_s = rate,
      .step_s = made->seconds,
      .mfu = mfu_of(t, rate * flops),
      .small_products = tri_training_has_small_products(t),
      .peak_bytes = tri_engine_measured_bytes(t->engine),
      .bad_steps = t->progress.bad_steps,
      .evaluated = made->evaluated,
      .validation_loss = t->validation_loss,
      .sources = sources,
      .num_sources = tri_training_sources(t, sources),
      .experts = t->experts,
      .num_expert_layers = measure_experts(t, t->experts),
      .router_loss = step->router_loss,
      .named = t->named,
      .time = new_shares(t),
  };
  t->loss = step->loss;
  TRI_TRY(tri_metrics_step(t->metrics, &line));
  describe_answers(t);
  tri_named_metrics_forget(&t->named);
  tri_metrics_progress(t->metrics, t->config->optimizer.steps);
  return TRI_OK;
}
