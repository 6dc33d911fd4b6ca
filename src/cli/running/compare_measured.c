#include "cli/running/compare_measured.h"

#include "base/count.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/running/expert_loads.h"
#include "config/yaml.h"
#include "device/device.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/json_reader.h"
#include "options/inspect_corpus.h"
#include "options/json.h"
#include "options/lengths.h"
#include "plan/report.h"
#include "run/resolve_auto.h"
#include "run/run_config.h"
#include "schedule/layout_config.h"
#include "schedule/schedule.h"

#include <math.h>
#include <string.h>

enum { MOST_KINDS = 24, JSON_LIMIT_BYTES = 1 << 30, MOST_SECONDS = 1 << 30, CELL_BYTES = 48 };

/* Sums over all instructions with the same name. */
typedef struct kind {
  char name[TRI_EVENT_NAME_BYTES];
  double predicted_s, measured_s; /* total time of the instructions in seconds */
  double predicted, measured;     /* number of instructions */
} kind;

typedef struct comparison {
  const tri_run_config *config;
  const tri_cluster *cluster;
  tri_system system;
  tri_simulation_request request;
  tri_length_draws drawn; /* micro-batches drawn with the lengths of the run's documents */
  tri_prediction prediction;
  tri_memory_parts memory; /* memory of the first rank */
  json_t *summary;
  kind kinds[MOST_KINDS];
  int num_kinds;
} comparison;

static tri_status read_json(const char *folder, const char *name, json_t **out) {
  return tri_json_read_in(folder, name, JSON_LIMIT_BYTES, out);
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static kind *kind_of(comparison *c, const char *name) {
  for (int i = 0; i < c->num_kinds; i++) {
    if (strcmp(c->kinds[i].name, name) == 0) return &c->kinds[i];
  }
  if (c->num_kinds == MOST_KINDS) return NULL;
  kind *made = &c->kinds[c->num_kinds++];
  snprintf(made->name, sizeof made->name, "%s", name);
  return made;
}

/* Returns whether an instruction computes. Communication is not among the kinds, because it is reported in the
 * shares. */
static bool is_work(const char *category) { return strcmp(category, "communication") != 0; }

static void add_measured(comparison *c, const json_t *trace) {
  json_t *event = NULL;
  size_t i;
  json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *category = json_string_value(json_object_get(event, "cat"));
    if (name == NULL || category == NULL || !is_work(category)) continue;
    kind *of = kind_of(c, name);
    if (of == NULL) continue;
    const double length_s = json_number_value(json_object_get(event, "dur")) / 1e6;
    if (!(length_s >= 0 && length_s <= MOST_SECONDS)) continue; /* a run writes no larger values */
    of->measured_s += length_s;
    of->measured += 1;
  }
}

static tri_status add_predicted(comparison *c) {
  tri_timeline *timeline = NULL;
  TRI_TRY(tri_simulate_timeline(&c->request, &timeline));
  for (int r = 0; r < timeline->num_ranks; r++) {
    for (int64_t i = 0; i < timeline->ranks[r].count; i++) {
      const tri_event *event = &timeline->ranks[r].events[i];
      kind *of = is_work(tri_event_kind_name(event->kind)) ? kind_of(c, event->name) : NULL;
      if (of == NULL) continue;
      of->predicted_s += event->end_s - event->begin_s;
      of->predicted += 1;
    }
  }
  tri_timeline_destroy(timeline);
  return TRI_OK;
}

static bool has_rollouts(const tri_run_config *config) { return config->data.prompts[0] != '\0'; }

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Returns a number of the summary; NaN if it is missing or not a number, as it may be after the file was edited. */
static double measured_of(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  const double most = 1e30, number = json_is_number(value) ? json_number_value(value) : NAN;
  return fabs(number) <= most ? number : NAN;
}

static double measured_share(const comparison *c, const char *name) {
  return measured_of(json_object_get(c->summary, "share"), name);
}

static double measured_step_s(const comparison *c) {
  double step_s = measured_share(c, "step_s");
  return step_s > 0 ? step_s : measured_of(c->summary, "step_s");
}

/* Formats a value to `out`, and returns `out`. A value that is not finite becomes "-": it was not measured, or follows
 * from a value that was not. */
static const char *cell(const char *format, double value, char out[CELL_BYTES]) {
  snprintf(out, CELL_BYTES, isfinite(value) ? format : "-", value); /* a format is always one of this file */
  return out;
}

static double error_of(double predicted, double measured) {
  return measured > 0 ? tri_format_rounded(100 * (predicted / measured - 1), 1) : NAN;
}

typedef struct share {
  const char *name;
  double predicted, measured;
} share;
enum { SHARES = 3 + TRI_STEP_AXES };

static void shares_of(const comparison *c, share out[SHARES]) {
  const tri_step_time *t = &c->prediction.time;
  double step = c->prediction.step_s;
  *out++ = (share){"compute", t->compute / step, measured_share(c, "compute")};
  for (int i = 0; i < TRI_STEP_AXES; i++) {
    const char *name = tri_axis_name(tri_step_axis(i));
    *out++ = (share){name, t->along[tri_step_axis(i)] / step, measured_share(c, name)};
  }
  const double all = measured_share(c, "all"); /* NaN for a summary of an older version, which lacks this share */
  *out++ = (share){"bubble", t->bubble / step, measured_share(c, "bubble") + (isfinite(all) ? all : 0)};
  *out++ = (share){"optimizer", t->optimizer / step, measured_share(c, "optimizer")};
}

static double mean_ms(double seconds, double count) { return count > 0 ? 1e3 * seconds / count : 0; }

/* Warns if computation took more than 1.5 times as long as predicted. The usual cause is other work on these cores: the
 * cluster's file describes the idle machine, so the error is not that of the model. */
static void print_slow_computation(const comparison *c) {
  const double slow = 1.5, took = measured_share(c, "compute") * measured_step_s(c);
  const double ratio = took / c->prediction.time.compute;
  if (!(ratio > slow)) return;
  printf(
      "computation took %.1f times as long as %s predicts: was there other work on these cores, or does the file "
      "describe another machine? With the measured rate the step would take %.4f s\n",
      ratio, c->cluster->name, c->prediction.step_s - c->prediction.time.compute + took);
}

static void against_print_text(const comparison *c) {
  share shares[SHARES];
  char layout[TRI_LAYOUT_TEXT_BYTES];
  double measured = measured_step_s(c), peak = measured_of(c->summary, "peak_bytes_measured");
  char found[CELL_BYTES], error[CELL_BYTES];
  shares_of(c, shares);
  printf("%s on %s, %s\n", c->config->model.name, c->cluster->name,
         tri_layout_text(&c->config->layout, layout, sizeof layout));
  printf("%-22s %14s %14s %10s\n", "", "predicted", "measured", "error");
  printf("%-22s %12.4f s %14s %10s\n", "step", c->prediction.step_s, cell("%.4f s", measured, found),
         cell("%+.1f %%", error_of(c->prediction.step_s, measured), error));
  if (has_rollouts(c->config)) {
    printf(
        "the step is an update on %ld sequences, the mean of this run; rollouts and rewards are neither predicted nor "
        "in the measured time\n",
        (long)c->request.global_batch);
  }
  printf("%-22s %14.0f %14s %10s\n", "bytes of rank 0", c->memory.peak, cell("%.0f", peak, found),
         cell("%+.1f %%", error_of(c->memory.peak, peak), error));
  print_slow_computation(c);
  if (c->config->model.num_experts > 0 && c->request.expert_imbalance > 0) {
    printf(
        "the experts of the busiest rank had %.2f times the rows of equally busy experts; the prediction assumes "
        "this\n",
        c->request.expert_imbalance);
  }
  for (int i = 0; i < SHARES; i++) {
    printf("%-22s %12.1f %% %14s %15s\n", shares[i].name, tri_format_rounded(100 * shares[i].predicted, 1),
           cell("%.1f %%", tri_format_rounded(100 * shares[i].measured, 1), found),
           cell("%+.1f points", tri_format_rounded(100 * (shares[i].predicted - shares[i].measured), 1), error));
  }
  for (int i = 0; i < c->num_kinds; i++) {
    const kind *k = &c->kinds[i];
    double predicted = mean_ms(k->predicted_s, k->predicted), took = mean_ms(k->measured_s, k->measured);
    if (k->measured == 0 || took < 0.01) continue;
    printf("%-22s %11.2f ms %11.2f ms %10s\n", k->name, predicted, took,
           cell("%+.1f %%", error_of(predicted, took), error));
  }
}

static tri_status against_print_json(const comparison *c) {
  share shares[SHARES];
  json_t *kinds = json_array(), *list = json_object();
  shares_of(c, shares);
  for (int i = 0; i < SHARES; i++) {
    json_object_set_new(list, shares[i].name,
                        json_pack("{s:o, s:o}", "predicted", tri_json_number(shares[i].predicted), "measured",
                                  tri_json_number(shares[i].measured)));
  }
  for (int i = 0; i < c->num_kinds; i++) {
    const kind *k = &c->kinds[i];
    json_array_append_new(kinds, json_pack("{s:s, s:f, s:f}", "instruction", k->name, "predicted_s",
                                           mean_ms(k->predicted_s, k->predicted) / 1e3, "measured_s",
                                           mean_ms(k->measured_s, k->measured) / 1e3));
  }
  json_t *document =
      json_pack("{s:{s:f, s:o}, s:{s:f, s:o}, s:o, s:o, s:o}", "step_s", "predicted", c->prediction.step_s, "measured",
                tri_json_number(measured_step_s(c)), "peak_bytes", "predicted", c->memory.peak, "measured",
                tri_json_number(measured_of(c->summary, "peak_bytes_measured")), "share", list, "instructions", kinds,
                "layout", tri_report_layout(&c->config->layout));
  if (c->config->model.num_experts > 0) {
    json_object_set_new(document, "expert_imbalance", json_real(c->request.expert_imbalance));
  }
  return tri_print_json(document);
}

/* Checks that the run's ranks resemble those with which the description was measured. Fails with TRI_BAD_CONFIG if the
 * number of threads per rank differs. Warns of other differences, and of facts that older files lack. */
static tri_status check_alike(const comparison *c, const char *run) {
  static const char *const calibrate = "`trireme calibrate OUT.yaml -n RANKS`, started like the run, writes one";
  const tri_cluster *cluster = c->cluster;
  int64_t threads = json_integer_value(json_object_get(c->summary, "threads"));
  const struct {
    const char *what;
    int64_t described, found;
  } others[] = {{"ranks", cluster->threads > 0 ? cluster->node_devices : 0,
                 json_integer_value(json_object_get(c->summary, "ranks"))},
                {"cores a node", cluster->cores, json_integer_value(json_object_get(c->summary, "cores"))},
                {"nodes", cluster->nodes, json_integer_value(json_object_get(c->summary, "nodes"))}};
  if (cluster->threads == 0) {
    tri_warn(
        "the cluster %s does not have the number of threads of a rank that it was measured with, so it may be another "
        "machine than the run's; %s",
        cluster->name, calibrate);
  } else if (threads == 0) {
    tri_warn("%s/summary.json does not have the number of threads of a rank; the cluster %s was measured with %ld", run,
             cluster->name, (long)cluster->threads);
  } else if (threads != cluster->threads) {
    return tri_fail(TRI_BAD_CONFIG,
                    "the run %s had %ld threads a rank, but the cluster %s was measured with %ld, so its predictions "
                    "are not valid for that run; %s",
                    run, (long)threads, cluster->name, (long)cluster->threads, calibrate);
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (others[i].described == 0 || others[i].found == 0 || others[i].described == others[i].found) continue;
    tri_warn("the run %s had %ld %s, and the cluster %s was measured with %ld", run, (long)others[i].found,
             others[i].what, cluster->name, (long)others[i].described);
  }
  return TRI_OK;
}

/* Sets the global batch of a run with rollouts to the mean number of sequences of its updates, in whole micro-batches
 * of all data ranks. This number varies, because the completions of an update are packed into sequences.
 * optimizer.global_batch is the maximum, for which memory is planned. Changes nothing if the mean is unknown or is not
 * below the maximum. */
static void find_batch(comparison *c) {
  const tri_layout *layout = &c->config->layout;
  const double steps = measured_of(c->summary, "steps"), tokens = measured_of(c->summary, "tokens");
  const double sequences = tokens / steps / (double)c->config->data.sequence;
  if (!has_rollouts(c->config) || !(sequences > 0 && sequences < (double)c->request.global_batch)) return;
  const int64_t together = layout->micro_batch * layout->data;
  const int64_t least = tri_divide_up((int64_t)ceil(sequences), together), most = c->request.global_batch / together;
  c->request.global_batch = together * tri_schedule_shorter(layout, least, most);
}

static tri_status against_compare(comparison *c, const char *run, const char *timeline) {
  char path[TRI_PATH_BYTES];
  json_t *trace = NULL;
  TRI_TRY(check_alike(c, run));
  TRI_TRY(tri_predict_memory(&c->request, 0, &c->memory));
  find_batch(c);
  TRI_TRY(tri_simulate_step(&c->request, &c->prediction));
  TRI_TRY(tri_path_join(path, run, "timeline.json"));
  if (timeline == NULL && !tri_path_exists(path)) return TRI_OK;
  TRI_TRY(timeline == NULL ? read_json(run, "timeline.json", &trace) : read_json("", timeline, &trace));
  add_measured(c, trace);
  json_decref(trace);
  return add_predicted(c);
}

/* Resolves and checks the layout as at the start of the run. config.yaml may leave `data` to the number of ranks, which
 * the summary has; and the user may have edited the file since. */
static tri_status resolve_layout(const comparison *c, tri_run_config *config) {
  tri_layout *layout = &config->layout;
  int64_t ranks = json_integer_value(json_object_get(c->summary, "ranks"));
  const int64_t own[] = {layout->tensor, layout->pipeline, layout->context, layout->data == 0 ? 1 : layout->data};
  if (ranks <= 0 && !tri_count_product(own, 4, &ranks))
    return tri_fail(TRI_BAD_LAYOUT, "the layout has too many ranks");
  return tri_layout_resolve(layout, &config->model, config->data.sequence, config->optimizer.global_batch, ranks);
}

/* Creates a device with as many threads as a rank of the run had, because the size of scratch memory depends on the
 * number of threads. Assumes that all ranks ran on one machine such as this one. */
static tri_status create_device(const tri_run_config *config, tri_device **out) {
  const tri_layout *layout = &config->layout;
  int64_t ranks = layout->tensor * layout->context * layout->data * layout->pipeline;
  if (config->threads > 0) return tri_device_create("auto", (int)config->threads, out);
  TRI_TRY(tri_device_create("auto", 0, out));
  int64_t threads = (*out)->description.threads / (ranks < 1 ? 1 : ranks);
  if (ranks <= 1) return TRI_OK;
  tri_device_destroy(*out);
  *out = NULL;
  return tri_device_create("auto", threads < 1 ? 1 : (int)threads, out);
}

static double tokens_of(const tri_length_ranges *lengths) {
  double sum = 0;
  for (int64_t i = 0; i < lengths->count; i++) sum += (double)lengths->ranges[i].tokens;
  return sum;
}

/* Computes the mean attention fraction of the corpora, weighted by their shares or sizes, and the lengths of the
 * documents of the last corpus. */
static tri_status sum_areas(const tri_run_config *config, double *out, tri_length_ranges *lengths) {
  const char *tokenizer = config->data.tokenizer[0] == '\0' ? NULL : config->data.tokenizer;
  bool packed = config->data.packing == TRI_PACKING_DOCUMENTS;
  tri_mixture_shares shares;
  double sum = 0, weights = 0, fraction = 0;
  const bool by_size = tri_run_config_mixes_by_size(config);
  if (!by_size) TRI_TRY(tri_run_config_shares(config, &shares));
  for (int64_t k = 0; k < config->data.num_train; k++) {
    TRI_TRY(tri_inspect_attention_fraction(config->data.train[k].path, tokenizer, config->data.sequence, packed,
                                           &fraction, lengths));
    const double weight = by_size ? tokens_of(lengths) : (double)shares.counts[k];
    sum += fraction * weight;
    weights += weight;
  }
  *out = sum / weights;
  return TRI_OK;
}

/* Sets the fraction of attention that the masks leave. If a corpus is missing, warns, and attention is predicted as if
 * documents were joined. Lengths of micro-batches are only drawn if there is a single corpus; for a mixture only the
 * mean is known. */
static void find_fraction(comparison *c) {
  const tri_run_config *config = c->config;
  bool packed = config->data.packing == TRI_PACKING_DOCUMENTS;
  tri_length_ranges *lengths = NULL;
  tri_status status = tri_alloc("lengths of documents", 1, sizeof *lengths, &lengths);
  if (status == TRI_OK) status = sum_areas(config, &c->request.masked_attention_fraction, lengths);
  if (status == TRI_OK && config->data.num_train == 1) {
    status = tri_length_draws_create(lengths, config->data.sequence, packed, &c->drawn);
    c->request.drawn = c->drawn.table;
  }
  tri_free(lengths);
  if (status == TRI_OK) return;
  tri_warn("attention is predicted as if documents were joined, because their lengths are unknown: %s",
           tri_status_message());
}

/* Sets the imbalance of the experts to the one that was measured in the run; to 0 if metrics.jsonl is missing or has no
 * loads. Changes nothing for a model without experts. */
static tri_status find_imbalance(comparison *c, const char *run) {
  char path[TRI_PATH_BYTES];
  if (c->config->model.num_experts == 0) return TRI_OK;
  TRI_TRY(tri_path_join(path, run, "metrics.jsonl"));
  return tri_expert_loads_imbalance(path, c->config->layout.expert, &c->request.expert_imbalance);
}

static tri_status load_config(const char *path, tri_run_config *out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, TRI_YAML_MAX_BYTES, &text, &bytes));
  const tri_status status = tri_run_config_parse(path, text, bytes, NULL, 0, out);
  tri_free(text);
  if (status == TRI_OK) tri_run_resolve_auto_older(out);
  return status;
}

tri_status tri_compare_measured(const char *run, const tri_cluster *cluster, const char *timeline, bool json) {
  char path[TRI_PATH_BYTES];
  tri_run_config *config = NULL;
  tri_device *device = NULL;
  comparison *c = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_path_join(path, run, "config.yaml"));
  TRI_TRY_GOTO(tri_alloc("a comparison", 1, sizeof *c, &c), done);
  TRI_TRY_GOTO(tri_alloc("a run's configuration", 1, sizeof *config, &config), done);
  TRI_TRY_GOTO(load_config(path, config), done);
  TRI_TRY_GOTO(read_json(run, "summary.json", &c->summary), done);
  TRI_TRY_GOTO(resolve_layout(c, config), done);
  TRI_TRY_GOTO(create_device(config, &device), done);
  c->config = config;
  c->cluster = cluster;
  TRI_TRY_GOTO(tri_system_load("trireme", &c->system), done);
  c->request = (tri_simulation_request){.model = &config->model,
                                        .layout = &config->layout,
                                        .cluster = cluster,
                                        .system = &c->system,
                                        .global_batch = config->optimizer.global_batch,
                                        .sequence = config->data.sequence,
                                        .precision = config->precision,
                                        .optimizer = &config->optimizer.settings,
                                        .objective = &config->objective.trained,
                                        .masked = config->data.documents == TRI_DOCUMENTS_MASKED,
                                        .device = &device->description};
  if (c->request.masked && !has_rollouts(config)) find_fraction(c);
  TRI_TRY_GOTO(find_imbalance(c, run), done);
  TRI_TRY_GOTO(against_compare(c, run, timeline), done);
  if (json) {
    status = against_print_json(c);
  } else {
    against_print_text(c);
  }
done:
  tri_device_destroy(device);
  tri_free(config);
  if (c != NULL) {
    tri_length_draws_release(&c->drawn);
    json_decref(c->summary);
  }
  tri_free(c);
  return status;
}
