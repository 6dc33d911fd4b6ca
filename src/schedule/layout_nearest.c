/* Finds the valid layout nearest to a requested one, for a job that restarts with another number of ranks. */
#include "schedule/layout.h"

#include <math.h>

/* Distances of a layout from the requested one. The most important distance is first: the sizes of tensor groups,
 * stages and context ranks determine memory and messages. The number of replicas does not count, since the global
 * batch is kept. */
enum { TENSOR, PIPELINE, CONTEXT, EXPERT, EXPERT_TENSOR, SCHEDULE, MICRO_BATCH, MEASURES };

/* Returns the distance of a number of ranks from the requested one. */
static double distance_of(int64_t wanted, int64_t is) { return fabs(log2((double)is / (double)wanted)); }

static void layout_nearest_measure(const tri_layout *wanted, const tri_layout *layout, double out[MEASURES]) {
  out[TENSOR] = distance_of(wanted->tensor, layout->tensor);
  out[PIPELINE] = distance_of(wanted->pipeline, layout->pipeline);
  out[CONTEXT] = distance_of(wanted->context, layout->context);
  out[EXPERT] = distance_of(wanted->expert, layout->expert);
  out[EXPERT_TENSOR] = distance_of(wanted->expert_tensor, layout->expert_tensor);
  out[SCHEDULE] = layout->schedule == wanted->schedule && layout->virtual_stages == wanted->virtual_stages ? 0 : 1;
  out[MICRO_BATCH] = distance_of(wanted->micro_batch, layout->micro_batch);
}

static bool is_nearer(const double a[MEASURES], const double b[MEASURES]) {
  for (int i = 0; i < MEASURES; i++) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

static bool is_legal(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                     int64_t ranks) {
  return tri_layout_resolve(layout, model, sequence, global_batch, ranks) == TRI_OK;
}

/* Returns the largest micro-batch up to the requested one that divides the batch of a replica. */
static int64_t micro_batch_of(const tri_layout *wanted, int64_t global_batch, int64_t data) {
  int64_t share = global_batch / data, size = wanted->micro_batch < share ? wanted->micro_batch : share;
  while (size > 1 && share % size != 0) size--;
  return size;
}

/* Chooses `expert` and then `expert_tensor`, each as near to the requested value as a stage of `ranks` ranks allows. */
static void choose_experts(const tri_layout *wanted, const tri_model *model, int64_t ranks, tri_layout *layout) {
  layout->expert = layout->expert_tensor = 1;
  for (int64_t e = 1; e <= ranks && e <= model->num_experts; e++) {
    if (ranks % e == 0 && distance_of(wanted->expert, e) < distance_of(wanted->expert, layout->expert)) {
      layout->expert = e;
    }
  }
  int64_t left = ranks / layout->expert;
  for (int64_t t = 1; t <= left && model->num_experts > 0; t++) {
    if (left % t != 0 || model->expert_ffn_size % t != 0) continue;
    if (distance_of(wanted->expert_tensor, t) < distance_of(wanted->expert_tensor, layout->expert_tensor)) {
      layout->expert_tensor = t;
    }
  }
}

/* Returns whether the layout is valid. If `stage_layers` is for another number of stages, removes it from the layout
 * first. */
static bool is_legal_or_divided(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                                int64_t ranks) {
  const tri_count_list *given = layout->stage_layers;
  if (given != NULL && given->count != layout->pipeline * layout->virtual_stages) layout->stage_layers = NULL;
  return is_legal(layout, model, sequence, global_batch, ranks);
}

/* Makes a layout valid by resetting keys that depend on the numbers of ranks: the group of micro-batches, the inner
 * context ranks, the exchange of heads, and the interleaved schedule. Returns false if it is still not valid. */
static bool make_legal(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                       int64_t ranks) {
  if (is_legal_or_divided(layout, model, sequence, global_batch, ranks)) return true;
  layout->micro_batch_group = layout->context_inner = 0;
  if (is_legal_or_divided(layout, model, sequence, global_batch, ranks)) return true;
  if (layout->context_exchange == TRI_CONTEXT_HEADS) layout->context_exchange = TRI_CONTEXT_GATHER;
  layout->context_inner = 0;
  if (is_legal_or_divided(layout, model, sequence, global_batch, ranks)) return true;
  layout->schedule = TRI_SCHEDULE_1F1B;
  layout->virtual_stages = 1;
  return is_legal_or_divided(layout, model, sequence, global_batch, ranks);
}

static void consider(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                     int64_t ranks, tri_layout layout, tri_layout *best, double least[MEASURES]) {
  double distance[MEASURES];
  if (!make_legal(&layout, model, sequence, global_batch, ranks)) return;
  layout_nearest_measure(wanted, &layout, distance);
  if (!is_nearer(distance, least)) return;
  *best = layout;
  for (int i = 0; i < MEASURES; i++) least[i] = distance[i];
}

/* Considers layouts with these tensor ranks and stages, and all divisions of the remaining ranks. */
static void consider_replicas(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks, int64_t tensor, int64_t pipeline, tri_layout *best,
                              double least[MEASURES]) {
  int64_t left = ranks / tensor / pipeline;
  if (ranks / tensor % pipeline != 0) return;
  for (int64_t context = 1; context <= left; context++) {
    int64_t data = left / context;
    if (left % context != 0 || global_batch % data != 0) continue;
    tri_layout layout = *wanted;
    layout.tensor = tensor;
    layout.pipeline = pipeline;
    layout.context = context;
    layout.data = data;
    layout.micro_batch = micro_batch_of(wanted, global_batch, data);
    choose_experts(wanted, model, ranks / pipeline, &layout);
    consider(wanted, model, sequence, global_batch, ranks, layout, best, least);
  }
}

tri_status tri_layout_nearest(const tri_layout *wanted, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks, tri_layout *out) {
  tri_layout best = *wanted;
  double least[MEASURES];
  for (int i = 0; i < MEASURES; i++) least[i] = INFINITY;
  for (int64_t tensor = 1; tensor <= ranks; tensor++) {
    for (int64_t pipeline = 1; ranks % tensor == 0 && pipeline <= ranks / tensor; pipeline++) {
      consider_replicas(wanted, model, sequence, global_batch, ranks, tensor, pipeline, &best, least);
    }
  }
  if (!isfinite(least[TENSOR])) {
    return tri_fail(
        TRI_BAD_LAYOUT,
        "no layout of %ld ranks fits this model and a global batch of %ld: tensor must divide the %ld heads, "
        "pipeline be at most %ld, the layers and 2, and data divide the batch; start fewer ranks",
        (long)ranks, (long)global_batch, (long)model->num_heads, (long)model->num_layers + 2);
  }
  *out = best;
  return TRI_OK;
}
