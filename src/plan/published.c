#include "plan/published.h"

#include "base/memory.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---------------------------------------------------------------------------------------------------- */

#define RECOMPUTES(X)                                                                                                  \
  X("none", TRI_RECOMPUTE_NONE) X("selective", TRI_RECOMPUTE_SELECTIVE) X("full", TRI_RECOMPUTE_FULL)
TRI_CONFIG_WORDS(recomputes, tri_recompute, RECOMPUTES)

#define KEY(STRUCT, NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(STRUCT, NAME)
#define COUNT(NAME) KEY(tri_published_row, NAME, TRI_CONFIG_INT), .range = {.low = 1, .high = 1 << 24}
#define NUMBER(NAME) KEY(tri_published_row, NAME, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e12}
static const tri_config_key row_keys[] = {
    {KEY(tri_published_row, name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_published_row *)0)->name),
     .example = "175B", .help = "what reports call it"},
    {KEY(tri_published_row, fit, TRI_CONFIG_BOOL), .fallback = "false", .help = "the constants are fitted to it"},
    {COUNT(layers), .example = "96", .help = "of the model"},
    {COUNT(hidden), .example = "12288", .help = "width of the residual stream"},
    {COUNT(heads), .example = "96", .help = "attention heads"},
    {COUNT(vocab), .example = "51200", .help = "size of the vocabulary, padding included"},
    {COUNT(sequence), .fallback = "2048", .help = "tokens of a sequence"},
    {COUNT(devices), .example = "1024", .help = "of the run"},
    {COUNT(tensor), .fallback = "1", .help = "as in a layout"},
    {COUNT(pipeline), .fallback = "1", .help = "as in a layout"},
    {COUNT(virtual_stages), .fallback = "1", .help = "as in a layout; above 1 the schedule is interleaved"},
    {COUNT(micro_batch), .fallback = "1", .help = "as in a layout"},
    {KEY(tri_published_row, zero, TRI_CONFIG_INT), .range = {.low = 0, .high = 3}, .fallback = "0",
     .help = "as in a layout"},
    {COUNT(global_batch), .example = "1536", .help = "sequences of a step"},
    {KEY(tri_published_row, recompute, TRI_CONFIG_CHOICE), .words = recomputes, .fallback = "full",
     .help = "as in a layout"},
    {NUMBER(tflops), .fallback = "0.0", .help = "published: TFLOP/s a device, recomputed products counted"},
    {NUMBER(step_s), .fallback = "0.0", .help = "published: seconds of a step"},
};
static const tri_config_table row_table = {
    .noun = "row", .keys = row_keys, .num_keys = sizeof row_keys / sizeof *row_keys};

#define SET(NAME, TYPE) KEY(tri_published_set, NAME, TYPE)
#define SET_TEXT(NAME, MEMBER)                                                                                         \
  .name = NAME, .type = TRI_CONFIG_STRING, .offset = offsetof(tri_published_set, MEMBER),                              \
  .bytes = sizeof(((tri_published_set *)0)->MEMBER)
static const tri_config_key set_keys[] = {
    {SET_TEXT("name", name), .example = "megatron", .help = "what reports call the set"},
    {SET_TEXT("cluster", cluster_name), .example = "frontier", .help = "as --cluster"},
    {SET_TEXT("system", system_name), .example = "megatron-deepspeed", .help = "as --system"},
    {.name = "rows",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(tri_published_set, rows),
     .table = &row_table,
     .bytes = sizeof(tri_published_row),
     .count = offsetof(tri_published_set, num_rows),
     .range = {.low = 1, .high = TRI_PUBLISHED_ROWS},
     .example = "[...]",
     .help = "runs"},
};
static const tri_config_table set_table = {
    .noun = "set", .keys = set_keys, .num_keys = sizeof set_keys / sizeof *set_keys};

static const tri_config_key published_keys[] = {
    {.name = "sets",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(tri_published, sets),
     .table = &set_table,
     .bytes = sizeof(tri_published_set),
     .count = offsetof(tri_published, num_sets),
     .range = {.low = 1, .high = TRI_PUBLISHED_SETS},
     .example = "[...]",
     .help = "sets of runs"},
};
static const tri_config_table published_table = {
    .noun = "file of published results", .keys = published_keys, .num_keys = 1};

static tri_status complete_row(tri_published_row *row) {
  row->model = (tri_model){.family = TRI_FAMILY_GPT2,
                           .num_layers = row->layers,
                           .hidden_size = row->hidden,
                           .num_heads = row->heads,
                           .vocab_size = row->vocab,
                           .max_sequence = row->sequence,
                           .tied = true,
                           .attention_bias = true,
                           .norm_eps = 1e-5,
                           .init_std = 0.02,
                           .rope_theta = 1e4,
                           .rope_scaling = {1, 1, 4, 8192}};
  snprintf(row->model.name, sizeof row->model.name, "%s", row->name);
  row->layout = (tri_layout){.tensor = row->tensor,
                             .pipeline = row->pipeline,
                             .context = 1,
                             .expert = 1,
                             .virtual_stages = row->virtual_stages,
                             .schedule = row->virtual_stages > 1 ? TRI_SCHEDULE_INTERLEAVED : TRI_SCHEDULE_1F1B,
                             .balance = TRI_BALANCE_LAYERS,
                             .zero = row->zero,
                             .recompute = row->recompute,
                             .recompute_every = 1,
                             .micro_batch = row->micro_batch,
                             .reduce_precision = TRI_FP32,
                             .bucket_bytes = 26214400};
  if ((row->tflops > 0) == (row->step_s > 0)) {
    return tri_fail(TRI_BAD_CONFIG, "the row `%s` must have one of `tflops` and `step_s`", row->name);
  }
  TRI_TRY(tri_model_complete(&row->model));
  tri_status status = tri_layout_resolve(&row->layout, &row->model, row->global_batch, row->devices);
  if (status == TRI_OK) return TRI_OK;
  char message[1024];
  snprintf(message, sizeof message, "%s", tri_status_message());
  return tri_fail(status, "the row `%s`: %s", row->name, message);
}

static tri_simulation_request request_of(const tri_published_set *set, const tri_published_row *row) {
  return (tri_simulation_request){.model = &row->model,
                                  .layout = &row->layout,
                                  .cluster = &set->cluster,
                                  .system = &set->system,
                                  .global_batch = row->global_batch,
                                  .sequence = row->sequence,
                                  .precision = TRI_BF16};
}

static tri_status complete(tri_published *published) {
  for (int64_t s = 0; s < published->num_sets; s++) {
    tri_published_set *set = &published->sets[s];
    TRI_TRY(tri_cluster_load(set->cluster_name, &set->cluster));
    TRI_TRY(tri_system_load(set->system_name, &set->system));
    for (int64_t r = 0; r < set->num_rows; r++) {
      tri_published_row *row = &set->rows[r];
      TRI_TRY(complete_row(row));
      tri_simulation_request request = request_of(set, row);
      row->published_s = row->step_s > 0
                             ? row->step_s
                             : tri_step_hardware_flops(&request) / (row->tflops * 1e12 * (double)row->devices);
    }
  }
  return TRI_OK;
}

tri_status tri_published_load(const char *path, tri_published *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_read(tree, path, &root);
  if (status == TRI_OK) status = tri_config_read(&published_table, tree, root, out);
  tri_yaml_destroy(tree);
  if (status == TRI_OK) status = complete(out);
  return status;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static tri_status predict_row(const tri_published_set *set, tri_published_row *row) {
  tri_simulation_request request = request_of(set, row);
  TRI_TRY(tri_simulate(&request, &row->prediction));
  row->predicted_s = row->prediction.step_s;
  return TRI_OK;
}

tri_status tri_published_predict(tri_published_set *set) {
  for (int64_t r = 0; r < set->num_rows; r++) TRI_TRY(predict_row(set, &set->rows[r]));
  return TRI_OK;
}

double tri_published_error(const tri_published_row *row) { return row->predicted_s / row->published_s - 1; }

/* ---- summaries --------------------------------------------------------------------------------------------------- */

static bool same_group(const tri_published_row *a, const tri_published_row *b) {
  return a->layers == b->layers && a->hidden == b->hidden && a->devices == b->devices &&
         a->global_batch == b->global_batch;
}

/* Ranks from 0; rows with equal seconds share the middle of theirs. */
static double rank_in_group(const tri_published_set *set, int64_t row, bool predicted) {
  const tri_published_row *mine = &set->rows[row];
  double below = 0, equal = 0, value = predicted ? mine->predicted_s : mine->published_s;
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (!same_group(mine, &set->rows[r])) continue;
    double other = predicted ? set->rows[r].predicted_s : set->rows[r].published_s;
    below += other < value;
    equal += other == value;
  }
  return below + (equal - 1) / 2;
}

static double spearman(const tri_published_set *set, int64_t first) {
  double n = 0, sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (!same_group(&set->rows[first], &set->rows[r])) continue;
    double a = rank_in_group(set, r, false), b = rank_in_group(set, r, true);
    n++, sum_a += a, sum_b += b, aa += a * a, bb += b * b, ab += a * b;
  }
  double spread = (aa - sum_a * sum_a / n) * (bb - sum_b * sum_b / n);
  return n < 4 || spread <= 0 ? 1 : (ab - sum_a * sum_b / n) / sqrt(spread);
}

tri_published_summary tri_published_summarize(const tri_published_set *set) {
  tri_published_summary summary = {.rank_correlation = 1};
  for (int64_t r = 0; r < set->num_rows; r++) {
    double rank = spearman(set, r), error = fabs(tri_published_error(&set->rows[r]));
    if (rank < summary.rank_correlation) summary.rank_correlation = rank;
    if (set->rows[r].fit) continue;
    summary.judged++;
    summary.mean += error;
    if (error > summary.worst) summary.worst = error;
  }
  if (summary.judged > 0) summary.mean /= (double)summary.judged;
  return summary;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

static tri_status badness(tri_published_set *set, const double *begun, double *out) {
  double sum = 0;
  const double *now = tri_cluster_constants(&set->cluster);
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (!set->rows[r].fit) continue;
    TRI_TRY(predict_row(set, &set->rows[r]));
    double error = log(set->rows[r].predicted_s / set->rows[r].published_s);
    sum += error * error;
  }
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
    double moved = now[i] > 0 && begun[i] > 0 ? log(now[i] / begun[i]) : 0;
    sum += 1e-4 * moved * moved;
  }
  *out = sum;
  return TRI_OK;
}

static bool is_legal(int constant, double value) {
  bool share = constant == 0 || (constant >= 2 && constant <= 4);
  return value > 0 && (!share || value <= 1);
}

/* One constant up or down by a factor, if that is better. */
static tri_status try_move(tri_published_set *set, const double *begun, int i, double factor, double *best,
                           bool *moved) {
  double *constants = tri_cluster_constants(&set->cluster), before = constants[i], now = 0;
  constants[i] = before * factor;
  if (is_legal(i, constants[i])) {
    TRI_TRY(badness(set, begun, &now));
    if (now < *best) {
      *best = now;
      *moved = true;
      return TRI_OK;
    }
  }
  constants[i] = before;
  return TRI_OK;
}

tri_status tri_published_fit(tri_published_set *set, unsigned which) {
  double begun[TRI_CLUSTER_CONSTANTS], best = 0;
  memcpy(begun, tri_cluster_constants(&set->cluster), sizeof begun);
  TRI_TRY(badness(set, begun, &best));
  for (double step = 1.5; step > 1.0005;) {
    bool moved = false;
    for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
      if ((which >> i & 1u) == 0) continue;
      TRI_TRY(try_move(set, begun, i, step, &best, &moved));
      TRI_TRY(try_move(set, begun, i, 1 / step, &best, &moved));
    }
    if (!moved) step = sqrt(step);
  }
  return TRI_OK;
}
