#include "schedule/program.h"

#include "base/memory.h"

#include <string.h>

const char *tri_instruction_name(tri_instruction_kind kind) {
  switch (kind) {
    case TRI_LOAD: return "load";
    case TRI_COUNT_LABELS: return "count_labels";
    case TRI_PREPARE: return "prepare";
    case TRI_FORWARD: return "forward";
    case TRI_BACKWARD: return "backward";
    case TRI_BACKWARD_INPUT: return "backward_input";
    case TRI_BACKWARD_WEIGHT: return "backward_weight";
    case TRI_CLIP: return "clip";
    case TRI_UPDATE: return "update";
  }
  return "?";
}

/* Gives each forward the lowest frame that no micro-batch in flight holds; its last backward returns it. */
static tri_status assign_frames(tri_program *program) {
  int64_t n = program->num_micro_batches;
  int32_t *frame_of = NULL;
  bool *taken = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("frames", (size_t)n, sizeof *frame_of, &frame_of), done);
  TRI_TRY_GOTO(tri_alloc("frames", (size_t)n, sizeof *taken, &taken), done);
  for (int64_t i = 0; i < program->num_instructions; i++) {
    tri_instruction *at = &program->instructions[i];
    bool last = at->kind == TRI_BACKWARD || at->kind == TRI_BACKWARD_WEIGHT;
    if (at->kind == TRI_FORWARD) {
      int32_t frame = 0;
      while (taken[frame]) frame++;
      taken[frame] = true;
      frame_of[at->micro_batch] = frame;
      if (frame + 1 > program->num_frames) program->num_frames = frame + 1;
    } else if (!last && at->kind != TRI_BACKWARD_INPUT) {
      continue;
    }
    at->frame = frame_of[at->micro_batch];
    if (last) taken[at->frame] = false;
  }
done:
  tri_free(taken);
  tri_free(frame_of);
  return status;
}

static tri_status append_step(const tri_schedule *schedule, int64_t micro_batches, tri_stream *out) {
  for (int64_t m = 0; m < micro_batches; m++) TRI_TRY(tri_stream_append(out, TRI_LOAD, m));
  TRI_TRY(tri_stream_append(out, TRI_COUNT_LABELS, -1));
  TRI_TRY(tri_stream_append(out, TRI_PREPARE, -1));
  TRI_TRY(schedule->stream(1, 0, micro_batches, out));
  TRI_TRY(tri_stream_append(out, TRI_CLIP, -1));
  return tri_stream_append(out, TRI_UPDATE, -1);
}

/* What this version's engine can lay out: one rank. */
static tri_status check_layout(const tri_layout *layout) {
  const struct {
    const char *key;
    int64_t value;
  } dimensions[] = {
      {"tensor", layout->tensor}, {"pipeline", layout->pipeline}, {"context", layout->context},
      {"data", layout->data},     {"expert", layout->expert},     {"virtual_stages", layout->virtual_stages},
  };
  for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) {
    if (dimensions[i].value <= 1) continue;
    return tri_fail(TRI_UNSUPPORTED, "layout.%s is %ld, and this version runs on one rank; set layout.%s=1",
                    dimensions[i].key, (long)dimensions[i].value, dimensions[i].key);
  }
  if (layout->zero > 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "layout.zero is %ld, and this version runs on one rank, where there is nothing to shard; set "
                    "layout.zero=0",
                    (long)layout->zero);
  }
  if (layout->sequence_parallel) {
    return tri_fail(TRI_UNSUPPORTED,
                    "layout.sequence_parallel needs layout.tensor > 1, and this version runs on one rank; set it to "
                    "false");
  }
  if (layout->recompute != TRI_RECOMPUTE_NONE) {
    return tri_fail(TRI_UNSUPPORTED, "layout.recompute is not in this version; set layout.recompute=none");
  }
  return TRI_OK;
}

tri_status tri_program_create(const tri_layout *layout, int64_t num_micro_batches, tri_program **out) {
  TRI_TRY(check_layout(layout));
  const tri_schedule *schedule = tri_schedule_of(layout->schedule);
  if (schedule == NULL) {
    return tri_fail(
        TRI_BAD_LAYOUT,
        "the interleaved schedule needs layout.virtual_stages > 1 and layout.pipeline > 1, and this version "
        "runs on one rank; set layout.schedule=1f1b");
  }
  tri_program *program = NULL;
  tri_stream stream = {0};
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc("a step program", 1, sizeof *program, &program));
  TRI_TRY_GOTO(append_step(schedule, num_micro_batches, &stream), destroy_program);
  program->instructions = stream.instructions;
  program->num_instructions = stream.count;
  stream.instructions = NULL;
  program->num_micro_batches = num_micro_batches;
  program->split_backward = schedule->split_backward;
  TRI_TRY_GOTO(assign_frames(program), destroy_program);
  *out = program;
  return TRI_OK;
destroy_program:
  tri_free(stream.instructions);
  tri_program_destroy(program);
  return status;
}

void tri_program_destroy(tri_program *program) {
  if (program == NULL) return;
  tri_free(program->instructions);
  tri_free(program);
}
