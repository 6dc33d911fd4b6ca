/* A job that comes back with other ranks than it had takes the legal layout that is nearest to the one it was given. */
#include "schedule/layout.h"

#include <math.h>

/* How far a layout is from the wanted one, what matters most first: tensor groups and stages decide where memory and
 * messages lie; the number of replicas is free, since the global batch stays. */
enum { TENSOR, PIPELINE, SCHEDULE, MICRO_BATCH, MEASURES };

static void layout_nearest_measure(const tri_layout *wanted, const tri_layout *layout, double out[MEASURES]) {
  out[TENSOR] = fabs(log2((double)layout->tensor / (double)wanted->tensor));
  out[PIPELINE] = fabs(log2((double)layout->pipeline / (double)wanted->pipeline));
  out[SCHEDULE] = layout->schedule == wanted->schedule && layout->virtual_stages == wanted->virtual_stages ? 0 : 1;
  out[MICRO_BATCH] = fabs(log2((double)layout->micro_batch / (double)wanted->micro_batch));
}

static bool is_nearer(const double a[MEASURES], const double b[MEASURES]) {
  for (int i = 0; i < MEASURES; i++) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

static bool is_legal(tri_layout *layout, const tri_model *model, int64_t global_batch, int64_t ranks) {
  return tri_layout_resolve(layout, model, global_batch, ranks) == TRI_OK;
}

/* The largest micro-batch up to the wanted one that the batch of a replica can be made of. */
static int64_t micro_batch_of(const tri_layout *wanted, int64_t global_batch, int64_t data) {
  int64_t share = global_batch / data, size = wanted->micro_batch < share ? wanted->micro_batch : share;
  while (size > 1 && share % size != 0) size--;
  return size;
}

/* A group was chosen for another number of stages and micro-batches; stages that cannot interleave take turns plainly.
 */
static bool make_legal(tri_layout *layout, const tri_model *model, int64_t global_batch, int64_t ranks) {
  if (is_legal(layout, model, global_batch, ranks)) return true;
  layout->micro_batch_group = 0;
  if (is_legal(layout, model, global_batch, ranks)) return true;
  layout->schedule = TRI_SCHEDULE_1F1B;
  layout->virtual_stages = 1;
  return is_legal(layout, model, global_batch, ranks);
}

static void consider(const tri_layout *wanted, const tri_model *model, int64_t global_batch, int64_t ranks,
                     tri_layout layout, tri_layout *best, double least[MEASURES]) {
  double distance[MEASURES];
  if (!make_legal(&layout, model, global_batch, ranks)) return;
  layout_nearest_measure(wanted, &layout, distance);
  if (!is_nearer(distance, least)) return;
  *best = layout;
  for (int i = 0; i < MEASURES; i++) least[i] = distance[i];
}

tri_status tri_layout_nearest(const tri_layout *wanted, const tri_model *model, int64_t global_batch, int64_t ranks,
                              tri_layout *out) {
  tri_layout best = *wanted;
  double least[MEASURES] = {INFINITY, INFINITY, INFINITY, INFINITY};
  for (int64_t tensor = 1; tensor <= ranks; tensor++) {
    if (ranks % tensor != 0) continue;
    for (int64_t pipeline = 1; pipeline <= ranks / tensor; pipeline++) {
      int64_t data = ranks / tensor / pipeline;
      if (ranks / tensor % pipeline != 0 || global_batch % data != 0) continue;
      tri_layout layout = *wanted;
      layout.tensor = tensor;
      layout.pipeline = pipeline;
      layout.data = data;
      layout.micro_batch = micro_batch_of(wanted, global_batch, data);
      consider(wanted, model, global_batch, ranks, layout, &best, least);
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
