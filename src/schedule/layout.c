#include "schedule/layout.h"

#include "base/count.h"
#include "base/format.h"
#include "mesh/parts.h"
#include "mesh/sequence_cut.h"
#include "model/family.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Checks that no count is below its minimum and that products of counts do not overflow. The limits of the keys ensure
 * this for layouts from files, but a program may construct any layout. */
static tri_status check_counts(const tri_layout *layout, int64_t global_batch, int64_t ranks) {
  const struct {
    const char *name;
    int64_t value, least;
  } counts[] = {{"layout.tensor", layout->tensor, 1},
                {"layout.pipeline", layout->pipeline, 1},
                {"layout.context", layout->context, 1},
                {"layout.context_inner", layout->context_inner, 0},
                {"layout.data", layout->data, 0},
                {"layout.expert_tensor", layout->expert_tensor, 0},
                {"layout.expert", layout->expert, 0},
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
  if (!tri_count_times(layout->expert_tensor, layout->expert, &unused)) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout: expert_tensor %lld x expert %lld are more ranks than can be counted; reduce them",
                    (long long)layout->expert_tensor, (long long)layout->expert);
  }
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
                    "start %ld ranks%s, or reduce one of them",
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

/* Finds the nearest divisors of n. *below: the largest divisor up to `near`, at least 1; *above: the smallest
 * divisor from `near` on, 0 if n is smaller than `near`. */
static void nearest_divisors(int64_t n, int64_t near, int64_t *below, int64_t *above) {
  *below = 1;
  *above = 0;
  for (int64_t d = 1; d <= n; d++) {
    if (n % d != 0) continue;
    if (d <= near) *below = d;
    if (d >= near && *above == 0) *above = d;
  }
}

/* Writes " or 6" for the number 6, and "" for 0. */
static const char *or_above(int64_t above, char text[32]) {
  text[0] = '\0';
  if (above > 0) snprintf(text, 32, " or %ld", (long)above);
  return text;
}

/* Returns the smallest width of the feed-forward layers that tensor ranks split. Routed experts do not count, since
 * they may be whole. For a model with only routed experts, returns the vocabulary size, to which the same limit
 * applies. */
static int64_t narrowest_mlp(const tri_model *model) {
  const int64_t shared = model->shared_experts * model->expert_ffn_size;
  const bool some_dense = model->num_experts == 0 || model->dense_layers > 0;
  int64_t narrowest = some_dense ? model->ffn_size : model->vocab_size;
  if (shared > 0 && shared < narrowest) narrowest = shared;
  return narrowest;
}

tri_status tri_layout_check_tensor(const char *name, int64_t t, const tri_model *model) {
  int64_t below = 0, above = 0;
  char text[32];
  if (model->num_heads % t != 0) {
    nearest_divisors(model->num_heads, t, &below, &above);
    return tri_fail(TRI_BAD_LAYOUT, "%s %ld does not divide the model's %ld heads; %ld%s would", name, (long)t,
                    (long)model->num_heads, (long)below, or_above(above, text));
  }
  if (model->num_kv_heads % t != 0 && t % model->num_kv_heads != 0) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "%s %ld and the model's %ld key/value heads: one must divide the other; set %s to %ld", name,
                    (long)t, (long)model->num_kv_heads, name, (long)model->num_kv_heads);
  }
  if (model->vocab_size < t || narrowest_mlp(model) < t) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "%s %ld leaves ranks without a row of the vocabulary (%ld) or the MLP (%ld); reduce it", name,
                    (long)t, (long)model->vocab_size, (long)narrowest_mlp(model));
  }
  return TRI_OK;
}

static tri_status check_no_experts(const tri_layout *layout) {
  const char *key = layout->expert > 1 ? "expert" : "expert_tensor";
  if (layout->recompute == TRI_RECOMPUTE_EXPERTS) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.recompute is experts, and the model has none; set it to none, selective or "
                    "full");
  }
  if (layout->expert > 1 || layout->expert_tensor > 1) {
    return tri_fail(TRI_BAD_LAYOUT, "layout.%s is %ld, and the model has no experts; set layout.%s to 1", key,
                    (long)(layout->expert > 1 ? layout->expert : layout->expert_tensor), key);
  }
  if (layout->expert_capacity != 0 && layout->expert_capacity != TRI_LAYOUT_EXPERT_CAPACITY) {
    return tri_fail(TRI_BAD_LAYOUT, "layout.expert_capacity is %g, and the model has no experts; leave it out",
                    layout->expert_capacity);
  }
  if (!layout->capacity_drop) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT, "layout.capacity_drop is true, and the model has no experts; leave it out");
}

/* Returns whether the experts can be split over `expert` groups of `expert_tensor` ranks each. */
static bool can_hold(const tri_model *model, int64_t ranks, int64_t expert_tensor, int64_t expert) {
  return expert <= model->num_experts && ranks % (expert_tensor * expert) == 0;
}

/* Fails with a message that has the nearest possible numbers of expert ranks. */
static tri_status refuse_expert(const tri_layout *layout, const tri_model *model, int64_t ranks) {
  int64_t wanted = layout->expert, of_each = layout->expert_tensor, below = 0, above = 0;
  for (int64_t e = 1; e <= ranks / of_each && e <= model->num_experts; e++) {
    if (!can_hold(model, ranks, of_each, e)) continue;
    if (e <= wanted) below = e;
    if (e >= wanted && above == 0) above = e;
  }
  char text[32];
  if (wanted > model->num_experts) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.expert %ld leaves ranks without one of the model's %ld experts; set it to %ld",
                    (long)wanted, (long)model->num_experts, (long)below);
  }
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout: expert_tensor %ld x expert %ld = %ld does not divide the %ld ranks of a stage (tensor %ld x "
                  "context %ld x data %ld); layout.expert %ld%s would",
                  (long)of_each, (long)wanted, (long)(of_each * wanted), (long)ranks, (long)layout->tensor,
                  (long)layout->context, (long)layout->data, (long)below, or_above(above, text));
}

/* Resolves the expert mesh of a stage: expert_tensor x expert x the remaining replicas. Each rank holds at least one
 * expert, and an equal shard of each of its experts. */
static tri_status resolve_experts(tri_layout *layout, const tri_model *model) {
  int64_t ranks = layout->tensor * layout->context * layout->data, below = 0, above = 0;
  char text[32];
  if (layout->expert_tensor == 0) layout->expert_tensor = 1;
  if (layout->expert == 0) layout->expert = 1;
  if (model->num_experts == 0) return check_no_experts(layout);
  if (model->expert_ffn_size % layout->expert_tensor != 0) {
    nearest_divisors(model->expert_ffn_size, layout->expert_tensor, &below, &above);
    return tri_fail(TRI_BAD_LAYOUT, "layout.expert_tensor %ld does not divide model.expert_ffn_size %ld; %ld%s would",
                    (long)layout->expert_tensor, (long)model->expert_ffn_size, (long)below, or_above(above, text));
  }
  if (ranks % layout->expert_tensor != 0) {
    nearest_divisors(ranks, layout->expert_tensor, &below, &above);
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.expert_tensor %ld does not divide the %ld ranks of a stage (tensor %ld x context %ld x "
                    "data %ld); %ld%s would",
                    (long)layout->expert_tensor, (long)ranks, (long)layout->tensor, (long)layout->context,
                    (long)layout->data, (long)below, or_above(above, text));
  }
  if (can_hold(model, ranks, layout->expert_tensor, layout->expert)) return TRI_OK;
  return refuse_expert(layout, model, ranks);
}

static tri_status check_regather(const tri_layout *layout) {
  if (layout->sequence_parallel || !layout->sequence_regather) return TRI_OK;
  return tri_fail(
      TRI_BAD_LAYOUT,
      "`layout.sequence_regather` gathers again what layout.sequence_parallel gathers, and that is false; set "
      "layout.sequence_parallel to true, or leave sequence_regather out");
}

/* Checks the length and the sum of stage_layers. Every stage must have a layer, except the first, which has the
 * embedding, and the last, which has the head. Fails if `balance` is `layers`, which is the other way to set the layers
 * of each stage. */
static tri_status check_stage_layers(const tri_layout *layout, const tri_model *model) {
  const tri_count_list *list = layout->stage_layers;
  const int64_t stages = layout->pipeline * layout->virtual_stages, sum = tri_count_list_sum(list);
  if (list->count != stages) {
    return tri_fail(
        TRI_BAD_LAYOUT,
        "`layout.stage_layers` has %ld number%s, and pipeline %ld x virtual_stages %ld = %ld stages: give one "
        "for each",
        (long)list->count, TRI_PLURAL(list->count), (long)layout->pipeline, (long)layout->virtual_stages, (long)stages);
  }
  if (sum != model->num_layers) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "`layout.stage_layers` sums to %ld layers, and the model has %ld; change its numbers by %ld in all",
                    (long)sum, (long)model->num_layers, (long)(model->num_layers - sum));
  }
  for (int64_t v = 1; v + 1 < stages; v++) {
    if (list->numbers[v] > 0) continue;
    return tri_fail(
        TRI_BAD_LAYOUT,
        "`layout.stage_layers` gives no layer to stage %ld of %ld; only the first, which has the embedding, "
        "and the last, which has the output projection, may have 0",
        (long)v + 1, (long)stages);
  }
  if (layout->balance == TRI_BALANCE_WORK) return TRI_OK;
  return tri_fail(
      TRI_BAD_LAYOUT,
      "`layout.stage_layers` and layout.balance=layers both set the layers of each stage; leave one of them out");
}

static tri_status check_stages(const tri_layout *layout, const tri_model *model) {
  int64_t stages = layout->pipeline * layout->virtual_stages, most = model->num_layers + 2;
  if (layout->stage_layers != NULL) return TRI_OK; /* check_stage_layers checks the number of stages */
  if (stages <= most) return TRI_OK;
  return tri_fail(
      TRI_BAD_LAYOUT,
      "layout: pipeline %ld x virtual_stages %ld = %ld stages, and the model has %ld layers: every stage needs one, "
      "except the first and the last, which may have only the embedding and the output projection; set "
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
                  "layout.embedding_as_layers is %ld and layout.head_as_layers %ld, which layout.balance=work does not "
                  "use; leave them out or set layout.balance=layers",
                  (long)layout->embedding_as_layers, (long)layout->head_as_layers);
}

const char *tri_layout_other_micro_batch(const tri_layout *layout, int64_t global_batch, char *out, size_t bytes) {
  const int64_t data = layout->data > 1 ? layout->data : 1;
  int64_t most = layout->micro_batch;
  out[0] = '\0';
  while (global_batch % data == 0 && most > 1 && global_batch / data % most != 0) most--;
  if (global_batch % data == 0) snprintf(out, bytes, ", or layout.micro_batch %" PRId64, most);
  return out;
}

static tri_status check_batch(const tri_layout *layout, int64_t global_batch) {
  int64_t unit = layout->micro_batch * layout->data;
  if (global_batch % unit == 0) return TRI_OK;
  int64_t below = global_batch / unit * unit;
  char other[64];
  return tri_fail(TRI_BAD_LAYOUT,
                  "optimizer.global_batch %ld is not a multiple of layout.micro_batch %ld x layout.data %ld = %ld; try "
                  "%ld or %ld%s",
                  (long)global_batch, (long)layout->micro_batch, (long)layout->data, (long)unit,
                  (long)(below == 0 ? unit : below), (long)(below == 0 ? 2 * unit : below + unit),
                  tri_layout_other_micro_batch(layout, global_batch, other, sizeof other));
}

/* Sets context_inner if it is auto, and checks that it divides the number of context ranks, or, with context_exchange
 * heads, that it is equal to this number. */
static tri_status resolve_inner(tri_layout *layout) {
  int64_t context = layout->context, below = 0, above = 0;
  bool all = false;
  switch (layout->context_exchange) {
    case TRI_CONTEXT_GATHER:
    case TRI_CONTEXT_RING: break;
    case TRI_CONTEXT_HEADS: all = true; break;
  }
  if (layout->context_inner == 0) layout->context_inner = all ? context : 1;
  if (all && layout->context_inner != context) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.context_inner is %ld and layout.context %ld, but with layout.context_exchange=heads all "
                    "context ranks exchange heads; leave context_inner out, or set context_exchange to gather or ring "
                    "for the other context ranks",
                    (long)layout->context_inner, (long)context);
  }
  if (context % layout->context_inner == 0) return TRI_OK;
  nearest_divisors(context, layout->context_inner, &below, &above);
  char text[32];
  return tri_fail(TRI_BAD_LAYOUT, "layout.context_inner %ld does not divide layout.context %ld; %ld%s would",
                  (long)layout->context_inner, (long)context, (long)below, or_above(above, text));
}

/* Returns the largest number of ranks, at most `wanted`, that divides `context` and with which ranks can exchange
 * `heads` heads and `kv_heads` key/value heads. */
static int64_t most_inner(int64_t context, int64_t wanted, int64_t heads, int64_t kv_heads) {
  int64_t most = 1;
  for (int64_t n = 1; n <= wanted; n++) {
    if (context % n == 0 && heads % n == 0 && (kv_heads % n == 0 || n % kv_heads == 0)) most = n;
  }
  return most;
}

static tri_status check_context(const tri_layout *layout, const tri_model *model, int64_t sequence) {
  int64_t inner = layout->context_inner, t = layout->tensor;
  int64_t heads = model->num_heads / t, kv_heads = model->num_kv_heads < t ? 1 : model->num_kv_heads / t;
  if (sequence < layout->context) {
    return tri_fail(
        TRI_BAD_LAYOUT,
        "layout.context %ld leaves ranks without a token of a sequence of %ld; reduce it, or use longer sequences",
        (long)layout->context, (long)sequence);
  }
  int64_t most = most_inner(layout->context, inner, heads, kv_heads);
  if (most == inner) return TRI_OK;
  if (layout->context_exchange == TRI_CONTEXT_HEADS) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.context %ld cannot exchange heads: a rank of layout.tensor %ld has %ld heads and %ld "
                    "key/value heads, and %ld must divide the first, and divide or be a multiple of the second; set "
                    "layout.context_exchange to gather or ring, with layout.context_inner=%ld or less",
                    (long)inner, (long)t, (long)heads, (long)kv_heads, (long)inner, (long)most);
  }
  return tri_fail(
      TRI_BAD_LAYOUT,
      "layout.context_inner %ld cannot exchange heads: a rank of layout.tensor %ld has %ld heads and %ld "
      "key/value heads, and %ld must divide the first, and divide or be a multiple of the second; %ld would",
      (long)inner, (long)t, (long)heads, (long)kv_heads, (long)inner, (long)most);
}

/* Checks that the number of rows of a micro-batch, summed over all ranks that share its sequences, fits into 32
 * bits. */
static tri_status check_rows(const tri_layout *layout, int64_t sequence) {
  int64_t most = INT32_MAX / sequence;
  if (layout->micro_batch <= most) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.micro_batch %ld x data.sequence %ld are more than the %d tokens that a micro-batch may have; "
                  "set layout.micro_batch to %ld or less",
                  (long)layout->micro_batch, (long)sequence, INT32_MAX, (long)most);
}

tri_status tri_layout_check_keys(const tri_layout *layout, const tri_model *model) {
  TRI_TRY(check_regather(layout));
  return layout->stage_layers == NULL ? TRI_OK : check_stage_layers(layout, model);
}

static int64_t first_trained(const tri_layout *layout, const tri_model *model, int64_t lowest_trained) {
  const int64_t stages = layout->pipeline * layout->virtual_stages;
  int64_t v = 0;
  if (lowest_trained < 0) return 0; /* the embedding is trained; this saves tri_layout_layers in searches */
  while (v + 1 < stages && tri_layout_layers(layout, model, v).end <= lowest_trained) v++;
  return v;
}

tri_status tri_layout_resolve(tri_layout *layout, const tri_model *model, int64_t sequence, int64_t global_batch,
                              int64_t ranks) {
  int64_t lowest = -1;
  TRI_TRY(tri_trainable_lowest_layer(model, &lowest));
  return tri_layout_resolve_trained(layout, model, lowest, sequence, global_batch, ranks);
}

tri_status tri_layout_resolve_trained(tri_layout *layout, const tri_model *model, int64_t lowest_trained,
                                      int64_t sequence, int64_t global_batch, int64_t ranks) {
  TRI_TRY(check_counts(layout, global_batch, ranks));
  TRI_TRY(resolve_data(layout, ranks));
  TRI_TRY(tri_layout_check_tensor("layout.tensor", layout->tensor, model));
  TRI_TRY(resolve_experts(layout, model));
  TRI_TRY(resolve_inner(layout));
  TRI_TRY(check_context(layout, model, sequence));
  TRI_TRY(tri_layout_check_keys(layout, model));
  TRI_TRY(check_stages(layout, model));
  TRI_TRY(check_balance(layout));
  TRI_TRY(check_batch(layout, global_batch));
  TRI_TRY(check_rows(layout, sequence));
  layout->first_trained = first_trained(layout, model, lowest_trained);
  tri_schedule_shape shape = tri_schedule_shape_of(layout, tri_layout_micro_batches(layout, global_batch));
  return tri_schedule_of(layout->schedule)->check(&shape);
}

/* ---- derived values ---------------------------------------------------------------------------------------------- */

tri_dtype tri_layout_reduce_type(const tri_layout *layout, tri_dtype activations) {
  switch (layout->reduce_precision) {
    case TRI_BF16: return TRI_BF16;
    case TRI_FP32: return tri_dtype_wide(activations);
    case TRI_FP64:
    case TRI_INT32: break; /* not a value of the key */
  }
  return tri_dtype_wide(activations);
}

tri_mesh_shape tri_layout_mesh(const tri_layout *layout) {
  tri_mesh_shape shape = {.expert_tensor = (int)layout->expert_tensor, .expert = (int)layout->expert};
  shape.size[TRI_AXIS_TENSOR] = (int)layout->tensor;
  int64_t inner = layout->context_inner > 0 ? layout->context_inner : 1;
  shape.size[TRI_AXIS_CONTEXT_INNER] = (int)inner;
  shape.size[TRI_AXIS_CONTEXT] = (int)(layout->context / inner);
  shape.size[TRI_AXIS_DATA] = (int)layout->data;
  shape.size[TRI_AXIS_PIPELINE] = (int)layout->pipeline;
  return shape;
}

tri_mesh_shape tri_layout_mesh_of(const tri_layout *layout, const tri_model *model) {
  tri_mesh_shape shape = tri_layout_mesh(layout);
  if (model->num_experts == 0) shape.expert = 0;
  return shape;
}

int64_t tri_layout_ranks(const tri_layout *layout) {
  return layout->tensor * layout->context * layout->data * layout->pipeline;
}

int64_t tri_layout_least_ranks(const tri_layout *layout) {
  const int64_t expert = layout->expert > 0 ? layout->expert : 1;
  const int64_t expert_tensor = layout->expert_tensor > 0 ? layout->expert_tensor : 1;
  int64_t of_experts = 1, of_replica = 1, replicas = layout->data, ranks = 1;
  if (!tri_count_times(expert, expert_tensor, &of_experts)) return 1;
  if (!tri_count_times(layout->tensor, layout->context, &of_replica)) return 1;
  if (replicas == 0) {
    int64_t a = of_experts, b = of_replica; /* Euclid: a becomes the greatest common divisor of both */
    while (b > 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    replicas = of_experts / a;
  }
  return tri_count_product((int64_t[]){of_replica, replicas, layout->pipeline}, 3, &ranks) && ranks > 0 ? ranks : 1;
}

static int64_t most_tokens(const tri_layout *layout, int64_t sequence, int64_t *rank) {
  int64_t most = -1;
  for (int64_t r = 0; r < layout->context; r++) {
    int64_t tokens = tri_zigzag_rows(sequence, layout->context, r);
    if (tokens <= most) continue;
    most = tokens;
    *rank = r;
  }
  return most;
}

tri_mesh_coordinates tri_layout_fullest(const tri_layout *layout, int64_t sequence, int64_t stage) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  tri_mesh_coordinates place = {{0}};
  int64_t rank = 0;
  place.at[TRI_AXIS_PIPELINE] = (int)stage;
  (void)most_tokens(layout, sequence, &rank);
  return tri_domain_coordinates(&shape, &place, TRI_DOMAIN_CONTEXT, (int)rank);
}

int64_t tri_layout_tokens(const tri_layout *layout, int64_t sequence) {
  int64_t rank = 0;
  return most_tokens(layout, sequence, &rank);
}

int64_t tri_layout_micro_batches(const tri_layout *layout, int64_t global_batch) {
  return global_batch / (layout->micro_batch * layout->data);
}

/* Computes the numbers of layers as which the embedding and the head count when layers are divided into stages. */
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

/* Computes the layers of the first and of the last of at least two virtual stages. All layers cost the same. So the
 * largest load is as small as possible if each layer is assigned to the stage with the least load; the embedding and
 * the head are initial loads. If several stages have the least load, the first of them gets the layer. The stages
 * between the ends differ by at most one layer, and the earlier ones have more. If there are not more layers than
 * stages between the ends, the embedding counts as at least one layer, so that these stages get the layers. */
static void layout_fill_ends(const tri_layout *layout, const tri_model *model, int64_t *first, int64_t *last) {
  int64_t between = layout->pipeline * layout->virtual_stages - 2, whole = model->num_layers / (between + 2);
  double embedding = 0, head = 0;
  layout_weigh_ends(layout, model, &embedding, &head);
  if (model->num_layers <= between && embedding < 1) embedding = 1;
  /* First, each stage gets layers up to an equal share, which includes the embedding and the head. */
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

static tri_layer_range listed_layers(const tri_layout *layout, const tri_model *model, int64_t v) {
  int64_t first = 0;
  for (int64_t before = 0; before < v; before++) first += layout->stage_layers->numbers[before];
  const int64_t end = first + layout->stage_layers->numbers[v];
  const bool last = v == layout->pipeline * layout->virtual_stages - 1;
  return (tri_layer_range){v == 0 ? -1 : first, last ? model->num_layers + 1 : end};
}

tri_layer_range tri_layout_layers(const tri_layout *layout, const tri_model *model, int64_t v) {
  int64_t stages = layout->pipeline * layout->virtual_stages, behind = model->num_layers + 1;
  if (stages == 1) return (tri_layer_range){-1, behind};
  if (layout->stage_layers != NULL) return listed_layers(layout, model, v);
  int64_t first, last, begin, count;
  layout_fill_ends(layout, model, &first, &last);
  if (v == 0) return (tri_layer_range){-1, first};
  if (v == stages - 1) return (tri_layer_range){model->num_layers - last, behind};
  int64_t between = stages > 2 ? stages - 2 : 1;
  tri_part_of(model->num_layers - first - last, between, v - 1, &begin, &count);
  return (tri_layer_range){first + begin, first + begin + count};
}

tri_model_share tri_layout_share(const tri_layout *layout, const tri_model *model, const tri_mesh_coordinates *place,
                                 tri_layer_range *chunks) {
  for (int64_t c = 0; c < layout->virtual_stages; c++) {
    chunks[c] = tri_layout_layers(layout, model, c * layout->pipeline + place->at[TRI_AXIS_PIPELINE]);
  }
  return (tri_model_share){
      .position = {tri_layout_mesh(layout), *place},
      .sequence_parallel = layout->sequence_parallel,
      .chunks = chunks,
      .num_chunks = layout->virtual_stages,
  };
}
