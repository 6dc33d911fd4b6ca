#include "train/dry_run.h"

#include "base/format.h"

#include <string.h>

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
    const char *kept = slot->kept ? "  kept" : slot->memory_of != call->outputs[0] ? "  in place" : "";
    fprintf(to, "%*s[%ld, %ld] %s%s", column < 40 ? 40 - column : 1, "", (long)slot->shape.rows,
            (long)slot->shape.width, tri_dtype_name(slot->shape.type), kept);
  }
  fprintf(to, "\n");
}

/* Layers between the first and the last are alike: the first stands for all. */
static void print_operations(const tri_op_list *list, FILE *to) {
  int32_t last = list->calls[list->num_calls - 1].layer;
  fprintf(to, "operations, forward (p is a parameter's number in `trireme inspect`):\n");
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->layer > 0 && call->layer < last) {
      if (call->layer == 1 && list->calls[c - 1].layer == 0) {
        fprintf(to, "  ... and the same for layers 1 to %d\n", last - 1);
      }
      continue;
    }
    print_call(list, call, to);
  }
}

static void print_program(const tri_program *program, FILE *to) {
  fprintf(to, "step program (%ld micro-batches, %ld in flight):\n", (long)program->num_micro_batches,
          (long)program->num_frames);
  for (int64_t i = 0; i < program->num_instructions; i++) {
    const tri_instruction *at = &program->instructions[i];
    fprintf(to, "  %4ld  %-16s", (long)i, tri_instruction_name(at->kind));
    if (at->micro_batch >= 0) fprintf(to, " micro_batch %d", at->micro_batch);
    if (at->frame >= 0) fprintf(to, " frame %d", at->frame);
    fprintf(to, "\n");
  }
}

static void print_memory(const tri_memory_plan *plan, FILE *to) {
  const struct {
    const char *name;
    size_t bytes;
  } rows[] = {
      {"parameters", plan->parameter_bytes},  {"gradients", plan->gradient_bytes},
      {"optimizer", plan->optimizer_bytes},   {"constants", plan->constant_bytes},
      {"packed weights", plan->buffer_bytes}, {"activations kept", plan->frame_bytes * (size_t)plan->num_frames},
      {"transient", plan->transient_bytes},   {"arena", plan->total_bytes},
  };
  fprintf(to, "memory plan:\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[32];
    fprintf(to, "  %-18s %16zu bytes  %s\n", rows[i].name, rows[i].bytes,
            tri_format_bytes((double)rows[i].bytes, text, sizeof text));
  }
}

tri_status tri_dry_run(const tri_engine_options *options, tri_device *device, FILE *to) {
  tri_engine_parts parts = {0};
  tri_memory_plan *plan = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_engine_parts_create(options, device, &parts), done);
  tri_memory_request request = tri_engine_memory_request(options, &parts, device);
  TRI_TRY_GOTO(tri_memory_plan_create(&request, &plan), done);
  print_operations(parts.list, to);
  print_program(parts.program, to);
  print_memory(plan, to);
done:
  tri_memory_plan_destroy(plan);
  tri_engine_parts_destroy(&parts);
  return status;
}
