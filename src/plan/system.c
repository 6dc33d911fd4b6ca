#include "plan/system.h"

#include "plan/preset_file.h"
#include "schedule/layout_values.h"

#include <inttypes.h>
#include <math.h>

#define KEY(NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(tri_system, NAME)
#define FLAG(NAME) KEY(NAME, TRI_CONFIG_BOOL)
#define BYTES(NAME) KEY(NAME, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e15}, .fallback = "0.0"

static const tri_config_key system_keys[] = {
    {KEY(name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_system *)0)->name), .fallback = "inline",
     .help = "name in reports"},
    {FLAG(flash_attention), .fallback = "true", .help = "attention keeps its scores on the chip"},
    {KEY(softmax_batches, TRI_CONFIG_INT), .range = {.low = 0, .high = 1024}, .fallback = "0",
     .help = "the fused softmax needs a multiple of this number of heads x sequences, if attention writes its scores; "
             "0: no restriction"},
    {KEY(kernels, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 100}, .fallback = "1.0",
     .help = "kernels that the host launches for each pass of an operation; 0: none, because the step is recorded as a "
             "graph"},
    {KEY(element_traffic, TRI_CONFIG_DOUBLE), .range = {.low = 0.5, .high = 10}, .fallback = "1.0",
     .help = "bytes that element-wise kernels move, as a multiple of this program's"},
    {BYTES(logit_bytes), .help = "bytes that a loss moves for each logit, in addition to its products"},
    {KEY(whole_head_share, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1, .open_low = true}, .fallback = "1.0",
     .help = "fraction of a product's rate that an output layer reaches if tensor ranks do not split it"},
    {FLAG(fp8_products), .fallback = "false",
     .help = "matrix products of layers are in FP8: not attention, routers, embedding and output layer"},
    {KEY(fp8_conversion, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 100}, .fallback = "6.0",
     .help = "bytes moved to convert an element of their operands: 2 read for its largest, 2 read again, 2 written"},
    {KEY(offload_activations, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1}, .fallback = "0.0",
     .help = "share of a layer's kept activations that wait in the host's memory for the backward"},
    {FLAG(overlap_reductions), .fallback = "true", .help = "the reduction of gradients overlaps the backward"},
    {FLAG(overlap_gathers), .fallback = "true",
     .help = "the gathering of parameters overlaps the forward and the backward"},
    {FLAG(overlap_messages), .fallback = "true", .help = "stages compute while their messages are in transfer"},
    {FLAG(scatter_messages), .fallback = "false",
     .help = "each tensor rank sends a part of a message, and the receivers gather the parts"},
    {FLAG(overlap_experts), .fallback = "true",
     .help = "rows are sent to their experts while ranks compute the shared experts"},
    {FLAG(overlap_batches), .fallback = "false",
     .help = "rows are sent to their experts and back while ranks compute another micro-batch (DualPipe)"},
    {KEY(expert_row_share, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1, .open_low = true}, .fallback = "1.0",
     .help = "bytes of rows sent to experts and back, as a fraction of sending each row in bf16 to each of its "
             "experts: less in FP8, or if a row is sent only once to a node"},
    {FLAG(gathers_experts), .fallback = "false",
     .help = "rows are sent once to the ranks that split an expert, and these gather them; false: rows are sent to "
             "each of these ranks"},
    {FLAG(overlap_layers), .fallback = "false",
     .help =
         "the all-reduce of a product's input gradient over tensor ranks overlaps the product of its weight gradient"},
    {FLAG(selective_attention), .fallback = "false",
     .help = "recompute: selective recomputes attention only, not norms or activation functions"},
    {FLAG(whole_recompute), .fallback = "false",
     .help = "recompute runs the whole layer, not only up to the last value that the backward reads"},
    {FLAG(single_ring), .fallback = "false", .help = "a ring goes through one port, whatever `stripe` of a link says"},
    {KEY(link_share, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1, .open_low = true}, .fallback = "1.0",
     .help = "fraction of the cluster's link efficiency that collectives reach; lower for many small ones"},
    {FLAG(levels), .fallback = "true", .help = "collectives work node by node first; false: rings and trees only"},
    {BYTES(sum_bytes),
     .help = "bytes moved to add a micro-batch's gradient of a parameter; 0: products add the gradients"},
    {BYTES(reduce_bytes), .help = "bytes of a gradient in a reduction; 0: layout.reduce_precision decides"},
    {BYTES(gather_bytes), .help = "bytes of a parameter in a gather; 0: the same as the engine"},
    {FLAG(planned), .fallback = "true",
     .help = "the engine's own plan gives the memory; false: the keys below give it"},
    {BYTES(weight_bytes), .help = "bytes of a parameter's value"},
    {BYTES(gradient_bytes), .help = "bytes of a parameter's gradient"},
    {BYTES(state_bytes), .help = "bytes of a parameter's master copy and moments"},
    {FLAG(whole_gradients), .fallback = "true",
     .help = "gradients of several micro-batches are whole until the last one; false: ZeRO 2 and 3 reduce each"},
    {FLAG(whole_tied_gradients), .fallback = "false", .help = "a tied embedding's gradients are never sharded"},
    {FLAG(copies_positions), .fallback = "false",
     .help = "the last of several stages has a copy of the position embedding, tied or not"},
    {FLAG(keeps_messages), .fallback = "false",
     .help = "messages of micro-batches in flight stay in memory, 1/tensor of each"},
    {FLAG(keeps_logits), .fallback = "false", .help = "the last stage keeps a micro-batch's logits"},
    {FLAG(gathers_again), .fallback = "false",
     .help = "the backward gathers the inputs of products again under sequence parallelism, instead of keeping them"},
    {BYTES(context_bytes), .help = "bytes of the driver and of libraries on each device"},
    {BYTES(communicator_bytes), .help = "bytes of buffers for each communicator of a rank"},
    {KEY(fragments, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1}, .fallback = "0.0",
     .help = "memory that the allocator holds beyond its tensors, as a fraction of the tensors' peak"},
    {BYTES(bucket_bytes), .help = "bytes of reductions and gathers in progress in a step"},
    {KEY(zero, TRI_CONFIG_COUNTS), .range = {.low = 0, .high = 3}, .fallback = "[]",
     .help = "the stages of ZeRO that the system has, such as [0, 1]; []: all"},
};
const tri_config_table tri_system_table = TRI_CONFIG_TABLE("system file", system_keys);

tri_layout tri_system_listed(const tri_system *system, const tri_layout *layout) {
  tri_layout listed = *layout;
  listed.sequence_regather = listed.sequence_regather && system->planned;
  switch (listed.recompute) {
    case TRI_RECOMPUTE_NONE:
    case TRI_RECOMPUTE_EXPERTS:
    case TRI_RECOMPUTE_FULL: break;
    case TRI_RECOMPUTE_SELECTIVE:
      if (system->selective_attention) listed.recompute = TRI_RECOMPUTE_NONE;
      break;
  }
  return listed;
}

bool tri_system_has_zero(const tri_system *system, int64_t zero) {
  if (system->zero == NULL) return true;
  for (int64_t i = 0; i < system->zero->count; i++) {
    if (system->zero->numbers[i] == zero) return true;
  }
  return false;
}

bool tri_system_reduces_each(const tri_system *system, int64_t zero) {
  return !system->planned && !system->whole_gradients && zero >= 2;
}

static tri_status settle_zero(const tri_system *system, const char *given, tri_layout *layout) {
  char stages[64] = "";
  if (tri_system_has_zero(system, layout->zero)) return TRI_OK;
  if (tri_layout_is_fixed(given, "zero")) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.zero is %" PRId64
                    ", but the system %s has only the stages %s of ZeRO; set one of these, or "
                    "choose another --system",
                    layout->zero, system->name, tri_count_list_text(system->zero, stages, sizeof stages));
  }
  layout->zero = system->zero->numbers[0];
  return TRI_OK;
}

tri_status tri_system_settle(const tri_system *system, const char *given, tri_layout *layout) {
  TRI_TRY(settle_zero(system, given, layout));
  if (system->gathers_again) {
    if (!layout->sequence_regather && tri_layout_is_fixed(given, "sequence_regather")) {
      return tri_fail(TRI_BAD_LAYOUT,
                      "layout.sequence_regather is false, but the system %s always gathers again in the backward; "
                      "remove the key, or choose another --system",
                      system->name);
    }
    layout->sequence_regather = layout->sequence_parallel;
    return TRI_OK;
  }
  if (!layout->sequence_regather || system->planned) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.sequence_regather is true, but the system %s keeps the gathered inputs; remove the key, or "
                  "choose another --system",
                  system->name);
}

/* Fails if `planned` is set together with a key that the engine does not support. */
static tri_status check_engine(const void *values) {
  const tri_system *system = values;
  if (!system->planned) return TRI_OK;
  if (system->fp8_products) {
    return tri_fail(TRI_UNSUPPORTED,
                    "`fp8_products` is not possible with `planned: true`, which plans Trireme's own engine: it "
                    "computes no products in FP8; plan with --system megatron-core-fp8-2025, or set `planned: false` "
                    "and the bytes of its state");
  }
  if (system->offload_activations > 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "`offload_activations` is not possible with `planned: true`, which plans Trireme's own engine: it "
                    "keeps activations on the device or recomputes them (layout.recompute); plan with --system "
                    "megatron-core-offload-2025, or set `planned: false` and the bytes of its state");
  }
  return TRI_OK;
}

tri_status tri_system_check(const tri_system *system, const tri_cluster *cluster) {
  if (system->fp8_products && cluster->peak_fp8 <= 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the system %s computes products in FP8, but the cluster %s has no `peak_fp8`: its devices have no "
                    "FP8 units, or their speed is missing in its file; choose another --system or --cluster",
                    system->name, cluster->name);
  }
  if (system->offload_activations > 0 && cluster->host_bandwidth <= 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the system %s keeps activations in the host's memory, but the bandwidth to the host is missing in "
                    "the cluster %s; set `host_bandwidth` in its file, or choose another --system",
                    system->name, cluster->name);
  }
  return TRI_OK;
}

tri_status tri_system_load(const char *name_or_file, tri_system *out) {
  tri_system system = {0};
  const tri_preset_file kind = {
      .folder = "systems", .noun = "system", .table = &tri_system_table, .check = check_engine};
  TRI_TRY(tri_preset_file_load(&kind, name_or_file, &system, system.name, sizeof system.name));
  *out = system;
  return TRI_OK;
}

double tri_system_room(const tri_system *system, const tri_cluster *cluster) {
  const double counted = system->planned ? 0 : system->context_bytes;
  return cluster->memory_bytes - cluster->margin_bytes - fmax(cluster->reserved_bytes - counted, 0);
}
