#include "train/dry_run.h"

#include "base/format.h"

static void print_call(const tri_op_list *list, const tri_op_call *call, FILE *to) {
  fprintf(to, "  ");
  int column = 2;
  if (call->outputs[0] >= 0) column += fprintf(to, "x%d = ", call->outputs[0]);
  column += fprintf(to, "%s(", call->op->name);
  const char *between = "";
  for (int i = 0; i < TRI_OP_INPUTS; i++) {
    if (call->inputs[i] < 0) continue;
    column += fprintf(to, "%sx%d", between, call->inputs[i]);
    between = ", ";
  }
  for (int i = 0; i < TRI_OP_PARAMETERS; i++) {
    if (call->parameters[i] < 0) continue;
    column += fprintf(to, "%sp%d", between, call->parameters[i]);
    between = ", ";
  }
  column += fprintf(to, ")");
  if (call->outputs[0] >= 0) {
    const tri_slot *slot = &list->slots[call->outputs[0]];
    bool again = list->slots[slot->memory_of].recomputed;
    const char *kept = again                                 ? "  recomputed"
                       : slot->kept                          ? "  kept"
                       : slot->memory_of != call->outputs[0] ? "  in place"
                                                             : "";
    fprintf(to, "%*s[%ld, %ld] %s%s", column < 40 ? 40 - column : 1, "", (long)slot->shape.rows,
            (long)slot->shape.width, tri_dtype_name(slot->shape.type), kept);
  }
  fprintf(to, "\n");
}

/* Calls [first, end) of one layer. */
typedef struct layer_calls {
  int64_t first, end;
} layer_calls;

static layer_calls calls_of_layer(const tri_op_list *list, int64_t first) {
  layer_calls out = {first, first};
  while (out.end < list->num_calls && list->calls[out.end].layer == list->calls[first].layer) out.end++;
  return out;
}

/* Returns whether the operations of layer `now` are the last operations of layer `before`. Layer `before` may begin
 * with other operations, for the input of the stage. */
static bool same_operations(const tri_op_list *list, const layer_calls *before, const layer_calls *now) {
  if (before->end - before->first < now->end - now->first) return false;
  for (int64_t i = 1; i <= now->end - now->first; i++) {
    if (list->calls[before->end - i].op != list->calls[now->end - i].op) return false;
  }
  return true;
}

static void print_skipped(int64_t first, int64_t end, FILE *to) {
  if (end - first == 1) fprintf(to, "  ... and the same for layer %ld\n", (long)first);
  if (end - first > 1) fprintf(to, "  ... and the same for layers %ld to %ld\n", (long)first, (long)end - 1);
}

/* Prints the operations of a chunk. A layer with the operations of the layer before it is only counted, unless it is
 * the first or the last layer of the chunk. */
static void print_operations(const tri_op_list *list, int64_t chunk, int64_t chunks, FILE *to) {
  const int64_t first = list->calls[0].layer < 0 ? 0 : list->calls[0].layer;
  const int64_t last = list->calls[list->num_calls - 1].layer;
  int64_t skipped = 0; /* number of layers directly before the current one that were not printed */
  layer_calls before = {0, 0};
  if (chunks > 1) fprintf(to, "chunk %ld: ", (long)chunk);
  fprintf(to, "operations, forward (p is a parameter's number in `trireme inspect`):\n");
  for (int64_t c = 0; c < list->num_calls; c = before.end) {
    const layer_calls now = calls_of_layer(list, c);
    const int64_t layer = list->calls[c].layer;
    const bool skips = layer > first && layer < last && same_operations(list, &before, &now);
    if (!skips) print_skipped(layer - skipped, layer, to);
    for (int64_t i = now.first; i < now.end && !skips; i++) print_call(list, &list->calls[i], to);
    skipped = skips ? skipped + 1 : 0;
    before = now;
  }
}

static void print_chunk(const tri_instruction *at, const tri_parts *parts, FILE *to) {
  if (parts->num_chunks > 1) fprintf(to, " chunk %d", at->chunk);
}

/* Prints the micro-batch, chunk and frame of a pass and, unless it is the whole chunk, its calls in the order in which
 * they run. */
static void print_calls(const tri_instruction *at, const tri_parts *parts, int32_t from, int32_t until, FILE *to) {
  fprintf(to, " micro_batch %d", at->micro_batch);
  print_chunk(at, parts, to);
  fprintf(to, " frame %d", at->frame);
  bool part = at->first_call > 0 || at->end_call < parts->lists[at->chunk]->num_calls;
  if (part) fprintf(to, " calls %d..%d", from, until);
}

static void print_bucket(const tri_instruction *at, const tri_parts *parts, FILE *to) {
  const tri_bucket *bucket = &parts->buckets->entries[at->bucket];
  print_chunk(at, parts, to);
  fprintf(to, " bucket %d (layers %ld to %ld, %ld values)", at->bucket, (long)bucket->layers.first,
          (long)bucket->layers.end - 1, (long)(bucket->end - bucket->first));
}

static void print_operands(const tri_instruction *at, const tri_parts *parts, FILE *to) {
  const char *stage_buffer = tri_stage_buffer_name(at->stage_buffer_kind);
  switch (tri_instruction_operands(at->kind)) {
    case TRI_OPERANDS_nothing: break;
    case TRI_OPERANDS_micro_batch: fprintf(to, " micro_batch %d", at->micro_batch); break;
    case TRI_OPERANDS_calls: print_calls(at, parts, at->first_call, at->end_call - 1, to); break;
    case TRI_OPERANDS_calls_back: print_calls(at, parts, at->end_call - 1, at->first_call, to); break;
    case TRI_OPERANDS_stage_buffer_to:
      fprintf(to, " %s %d to stage %d", stage_buffer, at->stage_buffer, at->peer);
      break;
    case TRI_OPERANDS_stage_buffer_from:
      fprintf(to, " %s %d from stage %d", stage_buffer, at->stage_buffer, at->peer);
      break;
    case TRI_OPERANDS_stage_buffer: fprintf(to, " %s %d", stage_buffer, at->stage_buffer); break;
    case TRI_OPERANDS_bucket: print_bucket(at, parts, to); break;
  }
}

static void print_instruction(int64_t number, const tri_instruction *at, const tri_parts *parts, FILE *to) {
  fprintf(to, "  %4ld  %-16s", (long)number, tri_instruction_name(at->kind));
  print_operands(at, parts, to);
  fprintf(to, "\n");
}

static void print_program(const tri_parts *parts, FILE *to) {
  const tri_program *program = parts->program;
  int64_t in_flight = 0;
  for (int64_t c = 0; c < program->num_chunks; c++) in_flight += program->num_frames[c];
  fprintf(to, "step program (%ld micro-batch%s, %ld in flight; reduce: %s):\n", (long)program->num_micro_batches,
          program->num_micro_batches == 1 ? "" : "es", (long)in_flight,
          parts->layout->zero == 0 ? "all-reduce" : "reduce-scatter");
  for (int64_t i = 0; i < program->num_instructions; i++) {
    print_instruction(i, &program->instructions[i], parts, to);
  }
}

/* Prints the device and its memory, if the device is a GPU (only GPUs have a tri_device_info.place). */
static void print_device(const tri_device *device, FILE *to) {
  char name[128], has[32], taken[160];
  if (device->info.place[0] == '\0') return;
  fprintf(to, "device: %s, %s to give%s\n", tri_device_describe(device, name, sizeof name),
          tri_format_bytes((double)device->info.memory_bytes, has, sizeof has),
          tri_device_describe_reserved(&device->info, taken, sizeof taken));
}

static void print_bytes(const char *name, size_t bytes, const char *note, FILE *to) {
  char text[32];
  fprintf(to, "  %-18s %16zu bytes  %s%s\n", name, bytes, tri_format_bytes((double)bytes, text, sizeof text), note);
}

/* Prints the memory for one kind of generation. A copy of the weights for samples is temporary. */
static void print_need(const char *name, const tri_runner_need *need, FILE *to) {
  const size_t bytes = need->device_bytes + need->host_bytes;
  if (bytes == 0) return;
  print_bytes(name, bytes, need->shares ? "; the weights are read in place" : "; with a copy of the weights", to);
}

/* Prints the memory that the activations of a step and rollouts use in turn, and the bytes of it that only rollouts
 * need. Prints nothing if rollouts share no memory with activations. */
static void print_shared(const tri_memory_plan *plan, const tri_runner_need *rollouts, FILE *to) {
  char shared[32], pages[32];
  if (rollouts->scratch_bytes == 0) return;
  tri_format_bytes((double)rollouts->scratch_bytes, shared, sizeof shared);
  tri_format_bytes((double)rollouts->cache_bytes, pages, sizeof pages);
  if (plan->lent_bytes > 0)
    print_bytes("more for rollouts", plan->lent_bytes, "; lower rollout.slots or rollout.cache", to);
  fprintf(to, "  (between steps rollouts use %s in place of activations, %s of it for keys and values)\n", shared,
          pages);
}

static void print_memory(const tri_memory_plan *plan, const tri_dry_run_needs *needs, FILE *to) {
  const size_t on_device = needs->samples.device_bytes + needs->rollouts.device_bytes;
  const size_t on_host = needs->samples.host_bytes + needs->rollouts.host_bytes;
  const struct {
    const char *name;
    size_t bytes;
  } rows[] = {
      {"parameters", plan->parameter_bytes},      {"gradients", plan->gradient_bytes},
      {"optimizer", plan->optimizer_bytes},       {"tokens", plan->token_bytes},
      {"messages", plan->message_bytes},          {"exchange", plan->exchange_bytes + plan->sums_bytes},
      {"checkpoint buffer", plan->staging_bytes}, {"constants", plan->constant_bytes},
      {"packed weights", plan->buffer_bytes},     {"activations kept", plan->activation_bytes},
      {"transient", plan->transient_bytes},       {"queue's scratch", plan->queue_bytes},
  };
  fprintf(to, "memory plan:\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) print_bytes(rows[i].name, rows[i].bytes, "", to);
  print_need("samples", &needs->samples, to);
  print_need("rollouts", &needs->rollouts, to);
  print_shared(plan, &needs->rollouts, to);
  print_bytes("device memory", plan->device_bytes + on_device, "", to);
  print_bytes("host memory", plan->host_bytes + on_host, "", to);
  print_bytes("all", plan->total_bytes + on_device + on_host, "", to);
}

tri_status tri_dry_run(const tri_engine_options *options, int rank, tri_device *device, const tri_dry_run_needs *needs,
                       FILE *to) {
  tri_parts parts = {0};
  tri_memory_plan *plan = NULL;
  tri_status status = TRI_OK;
  char where[128];
  tri_mesh_shape shape = tri_layout_mesh(options->layout);
  tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
  TRI_TRY_GOTO(tri_engine_parts_create(options, &place, device, &parts), done);
  tri_memory_request request = tri_engine_memory_request(options, &parts, &place, device);
  TRI_TRY_GOTO(tri_memory_plan_create(&request, &plan), done);
  if (tri_mesh_num_ranks(&shape) > 1) {
    fprintf(to, "rank %d of %d: %s\n", rank, tri_mesh_num_ranks(&shape),
            tri_mesh_describe(&shape, rank, where, sizeof where));
  }
  for (int64_t c = 0; c < parts.num_chunks; c++) print_operations(parts.lists[c], c, parts.num_chunks, to);
  print_program(&parts, to);
  print_device(device, to);
  print_memory(plan, needs, to);
done:
  tri_memory_plan_destroy(plan);
  tri_parts_destroy(&parts);
  return status;
}

tri_status tri_dry_run_plan(const tri_engine_options *options, int rank, tri_device *device,
                            const tri_dry_run_needs *needs, tri_dry_run_memory *out) {
  tri_parts parts = {0};
  tri_memory_plan *plan = NULL;
  const tri_mesh_shape shape = tri_layout_mesh(options->layout);
  const tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
  tri_status status = tri_engine_parts_create(options, &place, device, &parts);
  if (status == TRI_OK) {
    const tri_memory_request request = tri_engine_memory_request(options, &parts, &place, device);
    status = tri_memory_plan_create(&request, &plan);
  }
  if (status == TRI_OK) {
    out->device = plan->device_bytes + needs->samples.device_bytes + needs->rollouts.device_bytes;
    out->host = plan->host_bytes + needs->samples.host_bytes + needs->rollouts.host_bytes;
    out->all = out->device + out->host;
  }
  tri_memory_plan_destroy(plan);
  tri_parts_destroy(&parts);
  return status;
}
