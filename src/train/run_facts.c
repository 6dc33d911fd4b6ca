#include "train/run_facts.h"

#include "base/format.h"
#include "base/system.h"
#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "files/cache_folder.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "model/family.h"
#include "model/parameters.h"
#include "report/metrics.h"
#include "report/summary.h"
#include "run/learning_rate.h"
#include "run/preference_keys.h"
#include "schedule/layout_config.h"
#include "train/best_peak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static double tokens_of(const tri_run_data *data, int64_t num_train) {
  double tokens = 0;
  for (int64_t k = 0; k < num_train; k++) {
    if (data->train_corpora[k] != NULL) tokens += (double)tri_corpus_num_tokens(data->train_corpora[k]);
  }
  return tokens;
}

/* Opens the data unless they are open, or sets f->problem if they cannot be opened. A file of preferences is not
 * opened, because a run prepares it only when it begins. */
static void open_data(tri_training *t, tri_run_facts *f) {
  tri_run_config *config = t->config;
  tri_status status = TRI_OK;
  if (tri_preferences_are_text(config->data.preferences)) {
    snprintf(f->problem, sizeof f->problem, "%.400s is prepared when the run begins", config->data.preferences);
    return;
  }
  if (tri_run_data_per_epoch(&t->data) == 0) status = tri_run_data_open(config, t->task->data, &t->identity, &t->data);
  if (status != TRI_OK) {
    snprintf(f->problem, sizeof f->problem, "%.500s", tri_status_message());
    return;
  }
  f->per_epoch = tri_run_data_per_epoch(&t->data);
  f->train_tokens = tokens_of(&t->data, config->data.num_train);
}

/* Returns the step of a checkpoint's folder ("step-00000012"); 0 for other folders. */
static int64_t step_of(const char *folder) {
  static const char begin[] = "step-";
  const char *slash = strrchr(folder, '/'), *name = slash == NULL ? folder : slash + 1;
  return strncmp(name, begin, sizeof begin - 1) == 0 ? strtoll(name + sizeof begin - 1, NULL, 10) : 0;
}

/* Finds with which weights the run begins. */
static void find_begin(const tri_training *t, const char *resume, tri_run_facts *f) {
  const tri_run_config *config = t->config;
  const tri_checkpoint_use use = {.settings_only = true};
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES] = "";
  if (strcmp(resume, "auto") == 0 && tri_path_join(root, config->output, "checkpoints") == TRI_OK &&
      tri_path_exists(root) && tri_checkpoint_find(config->output, &use, path) == TRI_OK) {
    snprintf(f->begins, sizeof f->begins, "%s", path);
    f->done_steps = step_of(path);
  } else if (strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0) {
    snprintf(f->begins, sizeof f->begins, "%s", resume);
  } else if (config->init[0] != '\0') {
    snprintf(f->begins, sizeof f->begins, "%s", config->init);
  }
}

/* Returns the median duration of the steps that the run in the output has made; NaN if it has made none. */
static double step_s_of_output(const tri_run_config *config) {
  char path[TRI_PATH_BYTES];
  tri_metrics_history history = {0};
  tri_run_summary summary = {0};
  double step_s = NAN;
  if (tri_path_join(path, config->output, "metrics.jsonl") != TRI_OK || !tri_path_exists(path)) return NAN;
  if (tri_metrics_history_read(path, INT64_MAX, &history) != TRI_OK) return NAN;
  if (history.count > 0 && tri_run_summary_fill(&history, &summary) == TRI_OK) step_s = summary.step_s;
  tri_metrics_history_release(&history);
  return step_s;
}

static void find_time(tri_training *t, int64_t ranks, tri_run_facts *f) {
  const tri_run_config *config = t->config;
  const double left = (double)(config->optimizer.steps - f->done_steps), step_s = step_s_of_output(config);
  char folder[TRI_PATH_BYTES], key[TRI_PEAK_KEY_BYTES];
  f->seconds = NAN;
  if (config->optimizer.steps == 0) return; /* the run has epochs, and its data were not opened */
  if (isfinite(step_s) && step_s > 0) {
    f->seconds = left * step_s;
    f->seconds_from = TRI_TIME_OF_STEPS;
    return;
  }
  if (config->data.prompts[0] != '\0' || tri_training_has_small_products(t) || !tri_cache_folder(folder)) return;
  tri_best_peak_key(t->device, config->precision, config->allow_tf32, key);
  const double peak = tri_best_peak_read(folder, key);
  const double tokens = left * (double)config->optimizer.global_batch * (double)config->data.sequence;
  if (!(peak > 0)) return;
  f->seconds = tokens * tri_model_flops_per_token(&config->model, config->data.sequence, 1) / (peak * (double)ranks);
  f->seconds_from = TRI_TIME_AT_PEAK;
}

tri_status tri_run_facts_find(tri_training *t, const char *resume, int64_t ranks, int64_t rank,
                              const tri_dry_run_memory *memory, tri_run_facts *out) {
  tri_run_facts f = {.training = t, .ranks = ranks, .rank = rank, .memory = *memory};
  open_data(t, &f);
  find_begin(t, resume, &f);
  if (f.per_epoch > 0) TRI_TRY(tri_run_config_count_steps(t->config, f.per_epoch, 0, 0));
  find_time(t, ranks, &f);
  const bool own = t->device->info.place[0] != '\0'; /* the device has memory of its own */
  f.available = own ? (double)t->device->info.memory_bytes : (double)tri_system_memory_of_node();
  *out = f;
  return TRI_OK;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static bool has_own_memory(const tri_run_facts *f) { return f->training->device->info.place[0] != '\0'; }

/* Returns the bytes to compare with `available`: those of the rank on its device, or of all ranks on this machine. */
static double needed(const tri_run_facts *f) {
  return has_own_memory(f) ? (double)f->memory.device : (double)f->memory.all * (double)f->ranks;
}

static bool fits(const tri_run_facts *f) { return f->available == 0 || needed(f) <= f->available; }

static const char *decay_name(tri_decay decay) {
  switch (decay) {
    case TRI_DECAY_CONSTANT: return "constant";
    case TRI_DECAY_LINEAR: return "linear";
    case TRI_DECAY_COSINE: return "cosine";
    case TRI_DECAY_WSD: return "wsd";
  }
  return "";
}

static double tokens_of_step(const tri_run_config *config) {
  return (double)config->optimizer.global_batch * (double)config->data.sequence;
}

static void print_length(const tri_run_facts *f, FILE *to) {
  const tri_run_config *config = f->training->config;
  const int64_t steps = config->optimizer.steps;
  char each[32], all[32], corpus[32];
  if (f->problem[0] != '\0') fprintf(to, "data     not read: %s\n", f->problem);
  if (f->train_tokens > 0) {
    fprintf(to, "data     %s tokens, %ld sequence%s of %ld tokens\n",
            tri_format_count(f->train_tokens, corpus, sizeof corpus), (long)f->per_epoch, TRI_PLURAL(f->per_epoch),
            (long)config->data.sequence);
  } else if (f->per_epoch > 0) {
    fprintf(to, "data     %ld prompt%s\n", (long)f->per_epoch, TRI_PLURAL(f->per_epoch));
  }
  if (steps == 0) {
    fprintf(to, "length   %g epoch%s\n", config->optimizer.epochs, config->optimizer.epochs == 1 ? "" : "s");
    return;
  }
  fprintf(to, "length   %ld step%s", (long)steps, TRI_PLURAL(steps));
  if (config->data.prompts[0] == '\0') {
    fprintf(to, " of %s tokens, %s in all", tri_format_count(tokens_of_step(config), each, sizeof each),
            tri_format_count(tokens_of_step(config) * (double)steps, all, sizeof all));
    if (f->per_epoch > 0 && (config->data.num_train == 1 || config->optimizer.epochs > 0))
      fprintf(to, ": %.3g epochs", (double)steps * (double)config->optimizer.global_batch / (double)f->per_epoch);
  }
  fprintf(to, "\nrate     warm-up of %ld step%s to %g, then %s", (long)config->optimizer.warmup,
          TRI_PLURAL(config->optimizer.warmup), config->optimizer.lr, decay_name(config->optimizer.decay));
  const double last = tri_run_config_rate(config, steps);
  if (last != config->optimizer.lr) fprintf(to, " to %.3g", last);
  fprintf(to, "\n");
}

static void print_time(const tri_run_facts *f, FILE *to) {
  char seconds[32];
  switch (f->seconds_from) {
    case TRI_TIME_UNKNOWN: fprintf(to, "time     not known before the first steps\n"); return;
    case TRI_TIME_OF_STEPS:
      fprintf(to, "time     %s, at the rate of the steps in %s\n",
              tri_format_seconds(f->seconds, seconds, sizeof seconds), f->training->config->output);
      return;
    case TRI_TIME_AT_PEAK:
      fprintf(to, "time     at least %s, at the peak that this machine has reached\n",
              tri_format_seconds(f->seconds, seconds, sizeof seconds));
      return;
  }
}

static void print_memory(const tri_run_facts *f, FILE *to) {
  char need[32], of_rank[32], there[32], ranks[64] = "";
  if (!has_own_memory(f) && f->ranks > 1) {
    snprintf(ranks, sizeof ranks, " (%ld ranks of %s, as rank %ld)", (long)f->ranks,
             tri_format_bytes((double)f->memory.all, of_rank, sizeof of_rank), (long)f->rank);
  }
  fprintf(to, "memory   %s: %s of %s%s\n", fits(f) ? "fits" : "does not fit",
          tri_format_bytes(needed(f), need, sizeof need),
          f->available > 0 ? tri_format_bytes(f->available, there, sizeof there) : "an unknown size", ranks);
}

static void print_begin(const tri_run_facts *f, FILE *to) {
  if (f->done_steps > 0) {
    fprintf(to, "begins   after step %ld, from %s\n", (long)f->done_steps, f->begins);
  } else {
    fprintf(to, "begins   %s%s\n", f->begins[0] != '\0' ? "with the weights of " : "with initial weights", f->begins);
  }
}

void tri_run_facts_print(const tri_run_facts *f, FILE *to) {
  const tri_training *t = f->training;
  char title[TRI_RUN_TITLE_BYTES], parameters[32], device[128];
  tri_run_config_title(t->config, title, sizeof title);
  fprintf(to, "%s: %s parameters, %s on %s\n", title,
          tri_format_count(tri_model_num_parameters(&t->config->model), parameters, sizeof parameters),
          tri_dtype_name(t->config->precision), tri_device_describe(t->device, device, sizeof device));
  if (f->ranks > 1) {
    char layout[256];
    fprintf(to, "layout   %s\n", tri_training_describe_layout(t->config, f->ranks, layout, sizeof layout));
  }
  print_length(f, to);
  print_time(f, to);
  print_memory(f, to);
  print_begin(f, to);
}

json_t *tri_run_facts_json(const tri_run_facts *f) {
  const tri_run_config *config = f->training->config;
  const int64_t steps = config->optimizer.steps;
  const bool text = config->data.prompts[0] == '\0', counted = text && steps > 0;
  char title[TRI_RUN_TITLE_BYTES], layout[TRI_LAYOUT_TEXT_BYTES];
  tri_run_config_title(config, title, sizeof title);
  static const char *const sources[] = {NULL, "steps", "peak"};
  json_t *memory = json_pack(
      "{s:I, s:I, s:I, s:I, s:o, s:b}", "rank", (json_int_t)f->rank, "device_bytes", (json_int_t)f->memory.device,
      "host_bytes", (json_int_t)f->memory.host, "bytes", (json_int_t)f->memory.all, "available_bytes",
      f->available > 0 ? json_integer((json_int_t)f->available) : json_null(), "fits", (int)fits(f));
  json_t *object = json_pack(
      "{s:s, s:f, s:s, s:s, s:I, s:s, s:o, s:o, s:I, s:f, s:f, s:s}", "run", title, "parameters",
      tri_model_num_parameters(&config->model), "precision", tri_dtype_name(config->precision), "device",
      config->device, "ranks", (json_int_t)f->ranks, "layout", tri_layout_text(&config->layout, layout, sizeof layout),
      "steps", steps > 0 ? json_integer((json_int_t)steps) : json_null(), "tokens_per_step",
      text ? json_real(tokens_of_step(config)) : json_null(), "warmup", (json_int_t)config->optimizer.warmup, "lr",
      config->optimizer.lr, "last_lr", steps > 0 ? tri_run_config_rate(config, steps) : config->optimizer.lr, "decay",
      decay_name(config->optimizer.decay));
  if (object == NULL || memory == NULL) {
    json_decref(object);
    json_decref(memory);
    return NULL;
  }
  json_object_set_new(object, "tokens", counted ? json_real(tokens_of_step(config) * (double)steps) : json_null());
  json_object_set_new(object, "samples_per_epoch",
                      f->per_epoch > 0 ? json_integer((json_int_t)f->per_epoch) : json_null());
  json_object_set_new(object, "data_problem", f->problem[0] != '\0' ? json_string(f->problem) : json_null());
  json_object_set_new(object, "seconds", tri_json_number(f->seconds));
  json_object_set_new(object, "seconds_from",
                      sources[f->seconds_from] == NULL ? json_null() : json_string(sources[f->seconds_from]));
  json_object_set_new(object, "memory", memory);
  json_object_set_new(object, "begins_with", f->begins[0] != '\0' ? json_string(f->begins) : json_null());
  json_object_set_new(object, "done_steps", json_integer((json_int_t)f->done_steps));
  return object;
}
