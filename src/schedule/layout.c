#include "schedule/layout.h"

#include "base/count.h"
#include "base/parts.h"
#include "model/family.h"
#include "schedule/schedule.h"

#include <math.h>

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static tri_status check_supported(const tri_layout *layout) {
  if (layout->context > 1) {
    return tri_fail(TRI_UNSUPPORTED,
                    "layout.context is %ld, and this version does not split sequences; set "
                    "layout.context=1",
                    (long)layout->context);
  }
  if (layout->expert > 1) {
    return tri_fail(TRI_UNSUPPORTED, "layout.expert is %ld, and no model here has experts; set layout.expert=1",
                    (long)layout->expert);
  }
  return TRI_OK;
}

/* What is divided by and multiplied below is at least 1, and its products are numbers still. The keys' own limits say
 * so of what was read from a file; a layout may come from elsewhere. */
static tri_status check_counts(const tri_layout *layout, int64_t global_batch, int64_t ranks) {
  const struct {
    const char *name;
    int64_t value, least;
  } counts[] = {{"layout.tensor", layout->tensor, 1},
                {"layout.pipeline", layout->pipeline, 1},
                {"layout.context", layout->context, 1},
                {"layout.data", layout->data, 0},
                {"layout.virtual_stages", layout->virtual_stages, 1},
                {"layout.micro_batch", layout->micro_batch, 1},
                {"layout.micro_batch_group", layout->micro_batch_group, 0},
                {"layout.embedding_as_layers", layout->embedding_as_layers, 0},
                {"layout.head_as_layers", layout->head_as_layers, 0},
                {"the global batch", global_batch, 1},
                {"the number of ranks", ranks, 1}};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    if (counts[i].value >= counts[i].least) continue;
    return tri_fail(TRI_BAD_LAYOUT, "%s is %lld; it must be at least %lld", counts[i].name, (long long)counts[i].value,
                    (long long)counts[i].least);
  }
  int64_t unused = 0, data = layout->data > 0 ? layout->data : ranks;
  if (!tri_count_product((int64_t[]){layout->tensor, layout->pipeline, layout->context, data}, 4, &unused)) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout: tensor %lld x pipeline %lld x context %lld x data %lld are more ranks than can be counted",
                    (long long)layout->tensor, (long long)layout->pipeline, (long long)layout->context,
                    (long long)data);
  }
  if (tri_count_times(layout->pipeline, layout->virtual_stages, &unused) &&
      tri_count_product((int64_t[]){layout->micro_batch, data, 2}, 3, &unused)) {
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout: pipeline %lld x virtual_stages %lld, or micro_batch %lld x data %lld, is more than can be "
                  "counted",
                  (long long)layout->pipeline, (long long)layout->virtual_stages, (long long)layout->micro_batch,
                  (long long)data);
}

static tri_status resolve_data(tri_layout *layout, int64_t ranks) {
  int64_t others = layout->tensor * layout->pipeline * layout->context;
  if (layout->data == 0) {
    if (ranks % others == 0) {
      layout->data = ranks / others;
      return TRI_OK;
    }
    int64_t below = ranks / others * others;
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout: tensor %ld x pipeline %ld x context %ld = %ld does not divide the %ld ranks of this job; "
                    "start %ld ranks%s, or turn one of them down",
                    (long)layout->tensor, (long)layout->pipeline, (long)layout->context, (long)others, (long)ranks,
                    (long)(below == 0 ? others : below), below == 0 ? "" : " (or the next multiple)");
  }
  int64_t product = others * layout->data;
  if (product == ranks) return TRI_OK;
  const char *start = "start the job with that many (-n)";
  if (ranks % others == 0) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout: tensor %ld x pipeline %ld x context %ld x data %ld = %ld ranks, and this job has %ld; %s, "
                    "or set layout.data=%ld (or auto)",
                    (long)layout->tensor, (long)layout->pipeline, (long)layout->context, (long)layout->data,
                    (long)product, (long)ranks, start, (long)(ranks / others));
  }
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout: tensor %ld x pipeline %ld x context %ld x data %ld = %ld ranks, and this job has %ld; %s",
                  (long)layout->tensor, (long)layout->pipeline, (long)layout->context, (long)layout->data,
                  (long)product, (long)ranks, start);
}

/* The nearest divisors of n on both sides of `near`: below is at least 1; above is 0 where there is none. */
static void nearest_divisors(int64_t n, int64_t near, int64_t *below, int64_t *above) {
  *below = 1;
  *above = 0;
  for (int64_t d = 1; d <= n; d++) {
    if (n % d != 0) continue;
    if (d <= near) *below = d;
    if (d >= near && *above == 0) *above = d;
  }
}

static tri_status check_tensor(const tri_layout *layout, const tri_model *model) {
  int64_t t = layout->tensor, below = 0, above = 0;
  if (model->num_heads % t != 0) {
    nearest_divisors(model->num_heads, t, &below, &above);
    if (above == 0) above = below;
    return tri_fail(TRI_BAD_LAYOUT, "layout.tensor %ld does not divide the model's %ld heads; %ld or %ld would",
                    (long)t, (long)model->num_heads, (long)below, (long)above);
  }
  if (model->num_kv_heads % t != 0 && t % model->num_kv_heads != 0) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.tensor %ld and the model's %ld key/value heads: one must divide the other; set "
                    "layout.tensor to %ld",
                    (long)t, (long)model->num_kv_heads, (long)model->num_kv_heads);
  }
  if (model->vocab_size < t || model->ffn_size < t) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.tensor %ld leaves ranks without a row of the vocabulary (%ld) or the MLP "
                    "(%ld); turn it down",
                    (long)t, (long)model->vocab_size, (long)model->ffn_size);
  }
  return TRI_OK;
}

/* The first virtual stage has the embedding and the last the head; one between them without a layer would do nothing
 * but pass rows on. */
static tri_status check_stages(const tri_layout *layout, const tri_model *model) {
  int64_t stages = layout->pipeline * layout->virtual_stages, most = model->num_layers + 2;
  if (stages <= most) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout: pipeline %ld x virtual_stages %ld = %ld stages, and the model has %ld layers: one a stage "
                  "at least, but for the first and the last, which may have the embedding and the head alone; set "
                  "layout.pipeline to %ld or less",
                  (long)layout->pipeline, (long)layout->virtual_stages, (long)stages, (long)model->num_layers,
                  (long)(most / layout->virtual_stages > 0 ? most / layout->virtual_stages : 1));
}

static tri_status check_balance(const tri_layout *layout) {
  switch (layout->balance) {
    case TRI_BALANCE_LAYERS: return TRI_OK;
    case TRI_BALANCE_WORK: break;
  }
  if (layout->embedding_as_layers == 0 && layout->head_as_layers == 0) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.embedding_as_layers is %ld and layout.head_as_layers %ld, and layout.balance=work knows what "
                  "both take; leave them out or set layout.balance=layers",
                  (long)layout->embedding_as_layers, (long)layout->head_as_layers);
}

static tri_status check_batch(const tri_layout *layout, int64_t global_batch) {
  int64_t unit = layout->micro_batch * layout->data;
  if (global_batch % unit == 0) return TRI_OK;
  int64_t below = global_batch / unit * unit;
  return tri_fail(TRI_BAD_LAYOUT,
                  "optimizer.global_batch %ld is not a multiple of layout.micro_batch %ld x layout.data %ld = %ld; try "
                  "%ld or %ld",
                  (long)global_batch, (long)layout->micro_batch, (long)layout->data, (long)unit,
                  (long)(below == 0 ? unit : below), (long)(below == 0 ? 2 * unit : below + unit));
}

tri_status tri_layout_resolve(tri_layout *layout, const tri_model *model, int64_t global_batch, int64_t ranks) {
  TRI_TRY(check_counts(layout, global_batch, ranks));
  TRI_TRY(check_supported(layout));
  TRI_TRY(resolve_data(layout, ranks));
  TRI_TRY(check_tensor(layout, model));
  TRI_TRY(check_stages(layout, model));
  TRI_TRY(check_balance(layout));
  TRI_TRY(check_batch(layout, global_batch));
  tri_schedule_shape shape = tri_schedule_shape_of(layout, tri_layout_micro_batches(layout, global_batch));
  return tri_schedule_of(layout->schedule)->check(&shape);
}

/* ---- what follows from it ---------------------------------------------------------------------------------------- */

tri_dtype tri_layout_reduce_type(const tri_layout *layout, tri_dtype activations) {
  switch (layout->reduce_precision) {
    case TRI_BF16: return TRI_BF16;
    case TRI_FP32: return tri_dtype_wide(activations);
    case TRI_FP64:
    case TRI_INT32: break; /* no word of the key */
  }
  return tri_dtype_wide(activations);
}

tri_mesh_shape tri_layout_mesh(const tri_layout *layout) {
  tri_mesh_shape shape;
  shape.size[TRI_AXIS_TENSOR] = (int)layout->tensor;
  shape.size[TRI_AXIS_CONTEXT] = (int)layout->context;
  shape.size[TRI_AXIS_DATA] = (int)layout->data;
  shape.size[TRI_AXIS_PIPELINE] = (int)layout->pipeline;
  return shape;
}

int64_t tri_layout_micro_batches(const tri_layout *layout, int64_t global_batch) {
  return global_batch / (layout->micro_batch * layout->data);
}

/* Layers that the embedding and the head count as, as far as the balance goes. */
static void layout_weigh_ends(const tri_layout *layout, const tri_model *model, double *embedding, double *head) {
  switch (layout->balance) {
    case TRI_BALANCE_LAYERS:
      *embedding = (double)layout->embedding_as_layers;
      *head = (double)layout->head_as_layers;
      return;
    case TRI_BALANCE_WORK: break;
  }
  *embedding = 0;
  *head = tri_model_head_in_layers(model);
}

/* Layers of the first virtual stage and of the last, of two at least. Layers are alike, so giving each to the stage
 * that has the least so far makes the most that any has as little as can be; the ends begin with the embedding and the
 * head. Where several have as little it is the first of them, so the stages between the ends differ by one layer at
 * most, and the first of them have more. They begin with nothing, so that none of them goes without where there are
 * layers for all of them: where there are no more, the embedding counts as something. */
static void layout_fill_ends(const tri_layout *layout, const tri_model *model, int64_t *first, int64_t *last) {
  int64_t between = layout->pipeline * layout->virtual_stages - 2, whole = model->num_layers / (between + 2);
  double embedding = 0, head = 0;
  layout_weigh_ends(layout, model, &embedding, &head);
  if (model->num_layers <= between && embedding < 1) embedding = 1;
  /* Whatever has less than a whole share gets layers before anything gets more than that. */
  *first = (double)whole > embedding ? (int64_t)ceil((double)whole - embedding) : 0;
  *last = (double)whole > head ? (int64_t)ceil((double)whole - head) : 0;
  int64_t given = between * whole;
  for (int64_t layer = *first + given + *last; layer < model->num_layers; layer++) {
    double at_first = embedding + (double)*first, at_last = head + (double)*last;
    int64_t each = between == 0 ? INT64_MAX : given / between;
    double least = (double)each;
    if (at_first <= least && at_first <= at_last) {
      (*first)++;
    } else if (least <= at_last) {
      given++;
    } else {
      (*last)++;
    }
  }
}

tri_layer_range tri_layout_layers(const tri_layout *layout, const tri_model *model, int64_t v) {
  int64_t stages = layout->pipeline * layout->virtual_stages, behind = model->num_layers + 1;
  if (stages == 1) return (tri_layer_range){-1, behind};
  int64_t first, last, begin, count;
  layout_fill_ends(layout, model, &first, &last);
  if (v == 0) return (tri_layer_range){-1, first};
  if (v == stages - 1) return (tri_layer_range){model->num_layers - last, behind};
  int64_t between = stages > 2 ? stages - 2 : 1;
  tri_part_of(model->num_layers - first - last, between, v - 1, &begin, &count);
  return (tri_layer_range){first + begin, first + begin + count};
}

tri_model_share tri_layout_share(const tri_layout *layout, const tri_model *model, const tri_mesh_place *place,
                                 tri_layer_range *chunks) {
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    chunks[c] = tri_layout_layers(layout, model, c * layout->pipeline + place->at[TRI_AXIS_PIPELINE]);
  }
  return (tri_model_share){
      .seat = {tri_layout_mesh(layout), *place},
      .sequence_parallel = layout->sequence_parallel,
      .chunks = chunks,
      .num_chunks = layout->virtual_stages,
  };
}
