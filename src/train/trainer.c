/* The loop: one step, its metrics, now and then a look at the validation loss and a checkpoint. Where the run is stands
 * in tri_progress alone; a run that is killed anywhere and resumed makes the same steps as one that was not. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/recorder.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"
#include "comm/agreement.h"
#include "device/choices.h"
#include "engine/peak.h"
#include "engine/rank_device.h"
#include "model/family.h"
#include "model/window.h"
#include "recovery/checkpointing.h"
#include "recovery/flight.h"
#include "recovery/saver.h"
#include "recovery/snapshot.h"
#include "recovery/watchdog.h"
#include "report/loss_curve.h"
#include "report/metrics.h"
#include "report/summary.h"
#include "report/timing.h"
#include "run/identity.h"
#include "run/output.h"
#include "run/run_data.h"
#include "train/dry_run.h"
#include "train/learning_rate.h"
#include "train/products.h"
#include "train/readiness.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct trainer {
  tri_run_config *config; /* its layout gets resolved */
  tri_mesh mesh;
  tri_device *device;
  tri_engine *engine;
  tri_expert_metrics *experts; /* [layers]: scratch for a line of the metrics */
  tri_saver *saver;
  tri_snapshots *snapshots; /* or NULL */
  tri_folder_lock *lock;    /* of the output; on the first rank */
  tri_identity identity;
  tri_run_data data;
  tri_metrics *metrics;
  tri_progress progress;
  double peak_flops;
  double load_s;          /* of the state that it began with */
  double validation_loss; /* the last one; NaN before the first */
  int64_t evaluated_step; /* whose state the last evaluation found finite, or -1 */
  size_t predicted_bytes;
  tri_watchdog *watchdog;
  char flight[TRI_PATH_BYTES]; /* the folder in which ranks say what they were doing */
  tri_timing timing;
  bool stopping;          /* some rank was asked to */
  bool save_waits;        /* it was due among bad steps, and is made after the next good one */
  bool snapshot_unproven; /* no good step has been made from the newest one */
} trainer;

static bool is_first(const trainer *t) { return t->mesh.world.rank == 0; }

/* ---- setting up ------------------------------------------------------------------------------------------------- */

static tri_engine_options engine_options(const tri_run_config *config, const tri_mesh *mesh) {
  return (tri_engine_options){
      .model = &config->model,
      .layout = &config->layout,
      .mesh = mesh,
      .global_batch = config->optimizer.global_batch,
      .sequence = config->data.sequence,
      .precision = config->precision,
      .masked = config->data.documents == TRI_DOCUMENTS_MASKED,
      .seed = config->seed,
      .ignore_token = (int32_t)config->data.ignore_token,
      .optimizer = &config->optimizer.settings,
      .clip = config->optimizer.clip,
      .saves = true,
      .saves_in_background = config->checkpoint.async,
  };
}

static tri_status check_memory(trainer *t) {
  tri_engine_options options = engine_options(t->config, &t->mesh);
  return tri_readiness_memory(&options, t->device, t->config->checkpoint.snapshot_every > 0);
}

static tri_status agree_on_products(trainer *t, bool anew) {
  tri_engine_options options = engine_options(t->config, &t->mesh);
  return tri_products_agree(&options, t->config, t->device, anew);
}

static tri_status create_engine(trainer *t) {
  tri_engine_options options = engine_options(t->config, &t->mesh);
  TRI_TRY(tri_engine_create(&options, t->device, &t->engine));
  TRI_TRY(tri_alloc("metrics of experts", (size_t)t->config->model.num_layers, sizeof *t->experts, &t->experts));
  t->predicted_bytes = tri_engine_predicted_bytes(t->engine);
  return TRI_OK;
}

static tri_status write_config(const tri_run_config *config) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  TRI_TRY(tri_path_join(path, config->output, "config.yaml"));
  TRI_TRY(tri_run_config_print(config, &text));
  tri_status status = tri_file_replace(path, text, strlen(text));
  tri_free(text);
  return status;
}

/* What is in memory is taken where no checkpoint is newer. */
static tri_status open_snapshots(trainer *t, const char *resume, bool *found) {
  const tri_run_config *config = t->config;
  const tri_group *world = &t->mesh.world;
  char root[TRI_PATH_BYTES];
  int64_t saved = -1, step = -1;
  if (config->checkpoint.snapshot_every == 0) {
    tri_snapshots_forget(config->output);
    return TRI_OK;
  }
  TRI_TRY(tri_snapshots_create(t->engine, config, &t->identity, &t->snapshots));
  if (strcmp(resume, "auto") != 0) {
    tri_snapshots_remove(t->snapshots);
    return tri_barrier(world);
  }
  TRI_TRY(tri_path_join(root, config->output, "checkpoints"));
  if (is_first(t)) saved = tri_checkpoint_highest_step(root);
  TRI_TRY(tri_broadcast(world, 0, sizeof saved, &saved));
  TRI_TRY(tri_snapshots_find(t->snapshots, &step));
  if (step < 0 || step < saved) return TRI_OK;
  tri_status status = tri_snapshots_load(t->snapshots, step, &t->progress);
  *found = status == TRI_OK;
  if (*found) {
    if (is_first(t)) tri_log("resuming from the memory of the nodes, after step %ld", (long)t->progress.step);
    return TRI_OK;
  }
  if (status != TRI_BAD_FILE && status != TRI_IO_FAILED) return status;
  if (is_first(t)) tri_log("passing over the snapshot of step %ld: %s", (long)step, tri_status_message());
  return TRI_OK;
}

/* Opens the output and takes the run up where it was. */
static tri_status open_output(trainer *t, const char *resume) {
  const tri_run_config *config = t->config;
  bool found = false;
  double begin_s = tri_clock_s();
  TRI_TRY(open_snapshots(t, resume, &found));
  if (!found) {
    TRI_TRY(tri_checkpointing_load(t->engine, config, &t->identity, resume, &t->progress, &found));
    if (found) tri_saver_resumed(t->saver, t->progress.step);
  }
  if (found) t->load_s = tri_clock_s() - begin_s;
  tri_engine_set_averaging(t->engine, (tri_averaging){t->progress.highest_lr, t->progress.average_weights});
  tri_status status = is_first(t) ? write_config(config) : TRI_OK;
  if (is_first(t) && status == TRI_OK) {
    status = tri_metrics_open(config->output, t->progress.step + 1, &t->metrics);
  }
  return tri_first_rank_status(&t->mesh.world, status);
}

static int64_t samples_of_run(const tri_run_config *config) {
  return config->optimizer.steps * config->optimizer.global_batch;
}

/* Each of several sources: its share, and how often the whole run goes through it. */
static void announce_sources(const trainer *t) {
  const tri_sampler *train = &t->data.train;
  const tri_mixture_shares *shares = &train->mixture.shares;
  for (int64_t k = 0; k < shares->num_sources && shares->num_sources > 1; k++) {
    char tokens[32];
    tri_log("  %6.2f %% of the sequences from %s: %s tokens, %.3g epochs in %ld steps",
            100.0 * (double)shares->counts[k] / (double)shares->period, t->config->data.train[k].path,
            tri_format_count((double)tri_corpus_num_tokens(t->data.train_corpora[k]), tokens, sizeof tokens),
            tri_sampler_epochs(train, k, samples_of_run(t->config)), (long)t->config->optimizer.steps);
  }
}

/* How the text becomes sequences, where that is not by windows of joined documents. */
static void announce_documents(const trainer *t) {
  const tri_sampler *train = &t->data.train;
  bool packed = t->config->data.packing == TRI_PACKING_DOCUMENTS;
  const char *masked = train->masked ? "documents do not see each other (data.documents: masked)" : "";
  double tokens = 0;
  if (!packed && train->masked) tri_log("%s", masked);
  if (!packed) return;
  for (int64_t k = 0; k < train->mixture.shares.num_sources; k++) {
    tokens += (double)tri_packing_tokens(train->sources[k].pieces.packing);
  }
  tri_log("documents packed into %ld sequences of %ld tokens, of which %.2f %% are filling%s%s", (long)train->per_epoch,
          (long)train->sequence, 100.0 * (1.0 - tokens / ((double)train->per_epoch * (double)train->sequence)),
          train->masked ? "; " : "", masked);
}

static double tokens_to_train_on(const trainer *t) {
  double tokens = 0;
  for (int64_t k = 0; k < t->config->data.num_train; k++) {
    tokens += (double)tri_corpus_num_tokens(t->data.train_corpora[k]);
  }
  return tokens;
}

static void announce(const trainer *t) {
  const tri_run_config *config = t->config;
  const tri_parameter_table *table = tri_engine_parameters(t->engine);
  char parameters[32], bytes[32], tokens[32], peak[32], device[128];
  tri_log("%s: %s parameters, %s on %s", config->model.name,
          tri_format_count((double)table->num_values, parameters, sizeof parameters), tri_dtype_name(config->precision),
          tri_device_describe(t->device, device, sizeof device));
  const tri_layout *layout = &config->layout;
  if (t->mesh.world.size > 1) {
    tri_log("%d ranks: tensor %ld x pipeline %ld x context %ld x data %ld, zero %ld, %ld micro-batches a step",
            t->mesh.world.size, (long)layout->tensor, (long)layout->pipeline, (long)layout->context, (long)layout->data,
            (long)layout->zero, (long)tri_layout_micro_batches(layout, config->optimizer.global_batch));
  }
  char rate[64] = "no memory left to measure the peak with";
  if (t->peak_flops > 0) {
    snprintf(rate, sizeof rate, "peak %sFLOP/s measured", tri_format_count(t->peak_flops, peak, sizeof peak));
  }
  tri_log("%s tokens to train on, %s of memory, %s", tri_format_count(tokens_to_train_on(t), tokens, sizeof tokens),
          tri_format_bytes((double)t->predicted_bytes, bytes, sizeof bytes), rate);
  announce_sources(t);
  announce_documents(t);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static tri_status trainer_evaluate(trainer *t) {
  int64_t windows = t->config->evaluation.batches * t->config->layout.micro_batch;
  tri_evaluation sums = {0};
  TRI_TRY(tri_engine_evaluate(t->engine, &t->data.validation, windows, &sums));
  t->validation_loss = sums.counted == 0 ? NAN : sums.loss_sum / (double)sums.counted;
  t->evaluated_step = isfinite(t->validation_loss) ? t->progress.step : -1;
  return TRI_OK;
}

/* Where to go back to, in words: the newest checkpoint that later steps have proven. */
static void describe_proven(const trainer *t, char *out, size_t out_bytes) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES] = "";
  bool known = tri_path_join(root, t->config->output, "checkpoints") == TRI_OK &&
               tri_checkpoint_newest_proven(root, path) == TRI_OK && path[0] != '\0';
  if (known) snprintf(out, out_bytes, "the newest checkpoint that is known to be good is %.1000s", path);
  if (!known) snprintf(out, out_bytes, "there is no checkpoint that is known to be good");
}

/* All ranks come to it together, and the first one says it. */
static tri_status give_up(trainer *t, const tri_step *step) {
  char proven[1100];
  tri_saver_disprove(t->saver);
  if (t->snapshots != NULL && t->snapshot_unproven) tri_snapshots_remove(t->snapshots);
  if (!is_first(t)) return tri_fail(TRI_DIVERGED, "%s", "");
  describe_proven(t, proven, sizeof proven);
  if (step->counted == 0) {
    return tri_fail(TRI_DIVERGED,
                    "%ld steps in a row, up to step %ld, had no label that counts: data.ignore_token is %ld, and the "
                    "corpus has little else; nothing was saved among them; %s",
                    (long)t->progress.bad_in_row, (long)t->progress.step, (long)t->config->data.ignore_token, proven);
  }
  return tri_fail(TRI_DIVERGED,
                  "%ld steps in a row, up to step %ld, had a loss or gradient that is not a number; nothing was saved "
                  "among them; %s; lower optimizer.lr, lengthen optimizer.warmup, or look at the data there",
                  (long)t->progress.bad_in_row, (long)t->progress.step, proven);
}

/* Routers whose weights were no finite numbers: often the first to go. */
static void warn_of_routers(const trainer *t) {
  const tri_router_loads loads = tri_engine_router_loads(t->engine);
  for (int64_t layer = 0; layer < loads.num_layers; layer++) {
    const int64_t bad = loads.counts[layer * (loads.experts + 1) + loads.experts];
    if (bad == 0) continue;
    tri_warn("step %ld: the router of layer %ld gave %ld tokens weights that are not finite; it is the first that did",
             (long)t->progress.step, (long)layer, (long)bad);
    return;
  }
}

static tri_status check_bad_steps(trainer *t, const tri_step *step) {
  if (!step->skipped) {
    t->progress.bad_in_row = 0;
    t->snapshot_unproven = false;
    tri_saver_prove(t->saver);
    return TRI_OK;
  }
  t->progress.bad_steps++;
  t->progress.bad_in_row++;
  if (is_first(t) && step->counted == 0) {
    tri_warn("step %ld is skipped: none of its labels counts", (long)t->progress.step);
  } else if (is_first(t)) {
    tri_warn("step %ld is skipped: its loss is %g and its gradient norm %g", (long)t->progress.step, step->loss,
             step->grad_norm);
    warn_of_routers(t);
  }
  return t->progress.bad_in_row < t->config->optimizer.max_bad_steps ? TRI_OK : give_up(t, step);
}

static bool is_due(int64_t step, int64_t every, int64_t steps) {
  return step == steps || (every > 0 && step % every == 0);
}

static tri_status prepare_save(trainer *t) {
  if (!is_first(t)) return TRI_OK;
  TRI_TRY(tri_folder_lock_check(t->lock));
  return tri_metrics_sync(t->metrics);
}

static tri_status save(trainer *t) {
  TRI_TRY(tri_first_rank_status(&t->mesh.world, prepare_save(t)));
  bool last = t->stopping || t->progress.step == t->config->optimizer.steps;
  t->save_waits = false;
  TRI_TRY(tri_saver_save(t->saver, &t->progress));
  if (t->evaluated_step == t->progress.step) tri_saver_prove(t->saver);
  return last ? tri_saver_finish(t->saver) : TRI_OK;
}

/* What there is to keep after a step. Among bad steps there is nothing: their state may be ruined, and what it would
 * push out is not. */
static tri_status keep_state(trainer *t) {
  const tri_run_config *config = t->config;
  bool ends = t->stopping || t->progress.step == config->optimizer.steps;
  bool due = t->save_waits || is_due(t->progress.step, config->checkpoint.every, -1);
  if (t->progress.bad_in_row > 0) {
    t->save_waits = due;
    return ends ? tri_saver_finish(t->saver) : TRI_OK;
  }
  if (due || (ends && config->checkpoint.at_end)) return save(t);
  if (ends) return tri_saver_finish(t->saver);
  if (t->snapshots == NULL || t->progress.step % config->checkpoint.snapshot_every != 0) return TRI_OK;
  t->snapshot_unproven = true;
  return tri_snapshots_take(t->snapshots, &t->progress);
}

/* What has been read of each source when so many steps are made; nothing of one that is alone. Returns their number. */
static int64_t measure_sources(const trainer *t, int64_t steps, tri_source_metrics out[TRI_MOST_SOURCES]) {
  const tri_sampler *train = &t->data.train;
  int64_t count = train->mixture.shares.num_sources, samples = steps * t->config->optimizer.global_batch;
  for (int64_t k = 0; k < count; k++) {
    int64_t own = tri_sampler_count(train, k, samples);
    out[k] = (tri_source_metrics){.path = t->config->data.train[k].path,
                                  .share = samples == 0 ? 0 : (double)own / (double)samples,
                                  .tokens = own * train->sequence,
                                  .epochs = tri_sampler_epochs(train, k, samples)};
  }
  return count > 1 ? count : 0;
}

/* What masks and windows left of attention's work in a step, in the mean of all layers: 1 where every token sees all
 * before it in its sequence. */
static double area_of(const trainer *t, const tri_step *step) {
  const tri_model *model = &t->config->model;
  double sequence = (double)t->config->data.sequence, seen = 0;
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    seen += (double)(tri_model_window(model, layer) > 0 ? step->seen_in_window : step->seen);
  }
  double all = (double)t->config->optimizer.global_batch * (sequence * (sequence + 1) / 2);
  return seen / ((double)model->num_layers * all);
}

/* Layers that have experts; `out` has room for all layers. */
static int64_t measure_experts(const trainer *t, tri_expert_metrics *out) {
  const tri_router_loads loads = tri_engine_router_loads(t->engine);
  int64_t count = 0;
  for (int64_t layer = 0; layer < loads.num_layers; layer++) {
    const int64_t *load = loads.counts + layer * (loads.experts + 1);
    if (loads.rounds[layer] == 0) continue;
    out[count++] = tri_expert_metrics_of(layer, load, loads.experts, (int64_t)loads.rounds[layer]);
  }
  return count;
}

static tri_status record(trainer *t, const tri_step *step, double lr, double step_s, bool evaluated) {
  if (!is_first(t)) return TRI_OK;
  if (tri_folder_lock_is_lost(t->lock)) TRI_TRY(tri_folder_lock_check(t->lock));
  tri_log_to_parent("step %ld", (long)t->progress.step);
  double tokens = (double)(t->config->optimizer.global_batch * t->config->data.sequence);
  double rate = tokens / step_s;
  double flops = tri_model_flops_per_token(&t->config->model, t->config->data.sequence, area_of(t, step));
  tri_source_metrics sources[TRI_MOST_SOURCES];
  tri_step_metrics line = {
      .step = t->progress.step,
      .loss = step->loss,
      .grad_norm = step->grad_norm,
      .lr = lr,
      .tokens = t->progress.tokens,
      .tokens_per_s = rate,
      .step_s = step_s,
      .mfu = t->peak_flops > 0 ? rate * flops / (t->peak_flops * t->mesh.world.size) : NAN,
      .peak_bytes = tri_engine_measured_bytes(t->engine),
      .bad_steps = t->progress.bad_steps,
      .evaluated = evaluated,
      .validation_loss = t->validation_loss,
      .sources = sources,
      .num_sources = measure_sources(t, t->progress.step, sources),
      .experts = t->experts,
      .num_expert_layers = measure_experts(t, t->experts),
      .router_loss = step->router_loss,
  };
  TRI_TRY(tri_metrics_step(t->metrics, &line));
  tri_metrics_progress(t->metrics, t->config->optimizer.steps);
  return TRI_OK;
}

/* A signal may have reached some ranks only, or one of them a step earlier: any one's wish is everybody's. */
static tri_status agree_to_stop(trainer *t) {
  int64_t asked = tri_stop_asked();
  TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &asked));
  t->stopping = asked > 0;
  return TRI_OK;
}

static tri_status one_step(trainer *t) {
  const tri_run_config *config = t->config;
  int64_t steps = config->optimizer.steps;
  double begin_s = tri_clock_s();
  double lr = tri_learning_rate(config->optimizer.decay, t->progress.step + 1, steps, config->optimizer.warmup,
                                config->optimizer.lr, config->optimizer.min_lr, config->optimizer.decay_fraction);
  tri_step step = {0};
  tri_recorder_step(t->progress.step);
  tri_timing_step_begins(&t->timing, t->progress.step);
  TRI_TRY(tri_engine_step(t->engine, &t->data.train, t->progress.step, t->progress.updates, lr, &step));
  double step_s = tri_clock_s() - begin_s;
  TRI_TRY(agree_to_stop(t));
  tri_recorder_step(-1);
  t->progress.step++;
  t->progress.updates += !step.skipped;
  t->progress.highest_lr = tri_engine_averaging(t->engine).highest_lr;
  t->progress.average_weights = tri_engine_averaging(t->engine).weights;
  t->progress.tokens += config->optimizer.global_batch * config->data.sequence;
  t->progress.seconds += step_s;
  TRI_TRY(tri_timing_step_ended(&t->timing, t->progress.step, t->stopping));
  tri_status status = check_bad_steps(t, &step);
  bool look =
      status == TRI_OK && t->data.validation.per_epoch > 0 && is_due(t->progress.step, config->evaluation.every, steps);
  if (look) TRI_TRY(trainer_evaluate(t));
  TRI_TRY(record(t, &step, lr, step_s, look));
  TRI_TRY(status);
  TRI_TRY(tri_saver_look(t->saver));
  return keep_state(t);
}

/* How a run ends that a signal stopped, or whose last steps were bad. */
static tri_status end_of_loop(trainer *t) {
  const tri_progress *progress = &t->progress;
  char proven[1100];
  if (progress->bad_in_row > 0) {
    tri_status status = t->stopping ? TRI_INTERRUPTED : TRI_DIVERGED;
    if (!is_first(t)) return tri_fail(status, "%s", "");
    describe_proven(t, proven, sizeof proven);
    return tri_fail(status,
                    "%s after step %ld, among %ld bad steps in a row, whose state is not saved; %s; the same command "
                    "continues from the newest one",
                    t->stopping ? "interrupted" : "the run ends", (long)progress->step, (long)progress->bad_in_row,
                    proven);
  }
  if (!t->stopping || progress->step == t->config->optimizer.steps) return TRI_OK;
  if (!is_first(t)) return tri_fail(TRI_INTERRUPTED, "%s", "");
  return tri_fail(
      TRI_INTERRUPTED,
      t->config->checkpoint.at_end
          ? "interrupted after step %ld; its checkpoint is written, and the same command continues from there"
          : "interrupted after step %ld; nothing is saved there, since `checkpoint.at_end` is false",
      (long)progress->step);
}

static tri_status loop(trainer *t) {
  while (t->progress.step < t->config->optimizer.steps && !t->stopping) TRI_TRY(one_step(t));
  return end_of_loop(t);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The summary is the last of all that a run writes: whoever is started where there is one has nothing left to do. */
static tri_status write_summary(trainer *t) {
  const tri_run_config *config = t->config;
  char path[TRI_PATH_BYTES];
  tri_metrics_history history = {0};
  tri_source_metrics sources[TRI_MOST_SOURCES];
  TRI_TRY(tri_path_join(path, config->output, "metrics.jsonl"));
  TRI_TRY(tri_metrics_history_read(path, t->progress.step + 1, &history));
  tri_run_summary summary = {
      .seconds = t->progress.seconds,
      .peak_bytes_predicted = t->predicted_bytes,
      .peak_bytes_measured = tri_engine_measured_bytes(t->engine),
      .model = config->model.name,
      .device = t->device->info.name,
      .precision = tri_dtype_name(config->precision),
      .ranks = tri_comm_size(),
      .threads = t->device->description.threads,
      .nodes = tri_comm_num_nodes(),
      .checkpoint_pause_s = tri_saver_newest(t->saver).pause_s,
      .checkpoint_s = tri_saver_newest(t->saver).whole_s,
      .load_s = t->load_s,
      .time = t->timing.shares,
      .sources = sources,
      .num_sources = measure_sources(t, t->progress.step, sources),
  };
  tri_engine_waits(t->engine, &summary.result_waits, &summary.staging_waits);
  tri_status status = tri_run_summary_fill(&history, &summary);
  if (status == TRI_OK) status = tri_path_join(path, config->output, "loss.svg");
  if (status == TRI_OK) status = tri_loss_curve_write(&history, config->model.name, path);
  if (status == TRI_OK) status = tri_path_join(path, config->output, "summary.json");
  if (status == TRI_OK) status = tri_run_summary_write(&summary, path);
  tri_metrics_history_release(&history);
  return status;
}

/* What a rank of many fails with, says which rank it was and where. The first rank's name is in the message too: ranks
 * that only waited for it have nothing to add. */
static tri_status name_rank(const trainer *t, tri_status status) {
  char where[128];
  if (status == TRI_OK || t->mesh.world.size == 1 || tri_status_message()[0] == '\0') return status;
  return tri_fail(status, "rank %d (%s), at step %ld: %s", t->mesh.world.rank,
                  tri_mesh_describe(&t->mesh.shape, t->mesh.world.rank, where, sizeof where),
                  (long)t->progress.step + 1, tri_status_message());
}

/* To whoever is told when this rank dies without a word. */
static void introduce(const trainer *t) {
  char place[128];
  tri_log_to_parent("rank %d %ld %s", t->mesh.world.rank, (long)getpid(),
                    tri_mesh_describe(&t->mesh.shape, t->mesh.world.rank, place, sizeof place));
  if (is_first(t)) tri_log_to_parent("step %ld", (long)t->progress.step);
}

static tri_status watch(trainer *t) {
  introduce(t);
  TRI_TRY(tri_timing_plan(&t->timing, &t->mesh, t->progress.step, t->config->optimizer.steps));
  TRI_TRY(tri_path_join(t->flight, t->config->output, "flight"));
  return tri_watchdog_start(&t->mesh, t->flight, t->config->hang_timeout, &t->watchdog);
}

/* The failure with its rank's name; what the rank did before is beside it in the flight record, if there is room. */
static tri_status name_failure(const trainer *t, tri_status status) {
  tri_kept failure = {TRI_OK, ""};
  tri_keep(&failure, name_rank(t, status));
  if (t->mesh.world.size == 1 || status == TRI_BUSY) return status; /* the output is another's */
  if (tri_flight_write(&t->mesh, t->flight) != TRI_OK) tri_warn("no flight record: %s", tri_status_message());
  return tri_kept_tell(&failure);
}

/* What is left to do for this rank, of an even share. */
static double work_flops(const trainer *t) {
  const tri_run_config *c = t->config;
  int64_t steps = c->optimizer.steps - t->progress.step;
  double tokens = (double)steps * (double)c->optimizer.global_batch * (double)c->data.sequence;
  return tokens * tri_model_flops_per_token(&c->model, c->data.sequence, 1) / t->mesh.world.size;
}

/* The summary is of a run that has ended: none is left of the steps before these. */
static tri_status remove_summary(const trainer *t) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, t->config->output, "summary.json"));
  if (unlink(path) == 0 || errno == ENOENT) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot remove %s: %s", path, strerror(errno));
}

/* A run that was through: what follows its last checkpoint is done now if it was killed between the two. */
static tri_status finish_ended(trainer *t) {
  char path[TRI_PATH_BYTES];
  tri_log(
      "the run in %s has made its %ld steps already; raise optimizer.steps to go on, or begin anew with --resume "
      "never",
      t->config->output, (long)t->progress.step);
  if (t->snapshots != NULL) tri_snapshots_remove(t->snapshots);
  TRI_TRY(tri_path_join(path, t->config->output, "summary.json"));
  return is_first(t) && !tri_path_exists(path) ? write_summary(t) : TRI_OK;
}

static tri_status trainer_run(trainer *t) {
  TRI_TRY(tri_peak_flops(t->device, t->config->precision, work_flops(t), &t->peak_flops));
  announce(t);
  TRI_TRY(watch(t));
  TRI_TRY(tri_first_rank_status(&t->mesh.world, is_first(t) ? remove_summary(t) : TRI_OK));
  tri_stop_defer();
  tri_status status = loop(t);
  tri_log_progress_end();
  bool together = status == TRI_OK || status == TRI_INTERRUPTED || status == TRI_DIVERGED;
  bool saved = t->progress.bad_in_row == 0 && status != TRI_DIVERGED; /* the checkpoint is as new as any snapshot */
  if (together && saved && t->snapshots != NULL) tri_snapshots_remove(t->snapshots);
  if (!together) return name_failure(t, status);
  if (!is_first(t) || status == TRI_DIVERGED) return status;
  tri_kept ending = {TRI_OK, ""};
  tri_keep(&ending, status);
  TRI_TRY(write_summary(t));
  return tri_kept_tell(&ending);
}

static tri_status trainer_train(trainer *t, const char *resume) {
  const tri_group *world = &t->mesh.world;
  TRI_TRY(tri_common_status(world, tri_run_data_open(t->config, &t->identity, &t->data)));
  TRI_TRY(tri_readiness_agree(&t->mesh, t->config, &t->data));
  TRI_TRY(check_memory(t));
  TRI_TRY(tri_output_hold(world, t->config, strcmp(resume, "never") == 0, &t->lock, &t->identity));
  TRI_TRY(agree_on_products(t, strcmp(resume, "never") == 0));
  TRI_TRY(tri_common_status(world, create_engine(t)));
  TRI_TRY(tri_engine_share_gradients(t->engine));
  TRI_TRY(tri_common_status(
      world, tri_saver_create(t->engine, t->config, t->data.tokenizer, &t->identity, t->lock, &t->saver)));
  TRI_TRY(open_output(t, resume));
  return t->progress.step < t->config->optimizer.steps ? trainer_run(t) : finish_ended(t);
}

static tri_status dry_run(trainer *t, int rank) {
  tri_engine_options options = engine_options(t->config, NULL);
  return tri_dry_run(&options, rank, t->device, stdout);
}

static void release(trainer *t) {
  tri_metrics_close(t->metrics);
  tri_watchdog_stop(t->watchdog);
  tri_saver_destroy(t->saver);
  tri_snapshots_destroy(t->snapshots);
  tri_engine_destroy(t->engine);
  tri_free(t->experts);
  tri_run_data_close(&t->data);
  tri_device_destroy(t->device);
  tri_folder_lock_release(t->lock);
  tri_mesh_destroy(&t->mesh);
}

static void tell_nearest(const tri_layout *wanted, const tri_layout *found, int64_t ranks, int64_t batch) {
  const bool other = found->context > 1 && found->context_exchange != wanted->context_exchange;
  const bool folded = wanted->expert * wanted->expert_tensor > 1;
  char experts[80] = "";
  if (folded) {
    snprintf(experts, sizeof experts, ", experts over expert_tensor %ld x expert %ld", (long)found->expert_tensor,
             (long)found->expert);
  }
  tri_log(
      "elastic: tensor %ld x pipeline %ld x context %ld x data %s does not fit %ld ranks; the nearest that does is "
      "tensor %ld x pipeline %ld x context %ld x data %ld with micro-batches of %ld%s%s (nearest tensor first, then "
      "pipeline, context,%s schedule and micro-batch; the global batch stays %ld)",
      (long)wanted->tensor, (long)wanted->pipeline, (long)wanted->context, wanted->data == 0 ? "auto" : "as given",
      (long)ranks, (long)found->tensor, (long)found->pipeline, (long)found->context, (long)found->data,
      (long)found->micro_batch, experts, other ? ", which gathers keys instead of exchanging heads" : "",
      folded ? " expert, expert_tensor," : "", (long)batch);
}

/* An elastic run makes do with the ranks that there are. */
static tri_status choose_layout(tri_run_config *config, int64_t ranks) {
  tri_layout *layout = &config->layout, found;
  int64_t batch = config->optimizer.global_batch;
  tri_layout wanted = *layout;
  tri_status status = tri_layout_resolve(layout, &config->model, config->data.sequence, batch, ranks);
  if (status != TRI_BAD_LAYOUT || !config->elastic) return status;
  TRI_TRY(tri_layout_nearest(&wanted, &config->model, config->data.sequence, batch, ranks, &found));
  if (tri_comm_rank() == 0) tell_nearest(&wanted, &found, ranks, batch);
  *layout = found;
  return TRI_OK;
}

/* A dry run is of any layout on one process; a run is of the job's ranks. */
static tri_status trainer_set_up(trainer *t, const tri_train_options *options) {
  tri_run_config *config = t->config;
  int64_t ranks = options->dry_run && options->ranks > 0 ? options->ranks : tri_comm_size();
  TRI_TRY(choose_layout(config, ranks));
  if (options->dry_run_rank >= ranks) {
    return tri_fail(TRI_BAD_USAGE, "--rank %ld: the ranks of this layout are 0 to %ld; say how many there are with -n",
                    (long)options->dry_run_rank, (long)ranks - 1);
  }
  return TRI_OK;
}

static tri_status trainer_start(trainer *t, const tri_train_options *options) {
  tri_group world = tri_group_world();
  TRI_TRY(tri_common_status(&world, trainer_set_up(t, options)));
  const int threads = t->config->threads > 0 ? (int)t->config->threads : options->threads;
  TRI_TRY(tri_rank_device_create(t->config->device, threads, &t->device));
  tri_device_limit_memory(t->device, (size_t)t->config->device_memory);
  if (t->config->allow_tf32) tri_device_allow_tf32(t->device);
  if (options->dry_run) return dry_run(t, (int)options->dry_run_rank);
  tri_mesh_shape shape = tri_layout_mesh_of(&t->config->layout, &t->config->model);
  TRI_TRY(tri_mesh_create(&shape, &t->mesh));
  if (!is_first(t)) tri_log_be_quiet();
  return trainer_train(t, options->resume);
}

tri_status tri_train(const tri_train_options *options) {
  trainer t = {
      .mesh = tri_mesh_alone(), .validation_loss = NAN, .evaluated_step = -1, .timing.path = options->timeline};
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *t.config, &t.config));
  *t.config = *options->config;
  tri_status status = trainer_start(&t, options);
  release(&t);
  tri_free(t.config);
  return status;
}
