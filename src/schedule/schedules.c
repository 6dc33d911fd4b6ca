/* GPipe (Huang et al. 2019): all forwards, then all backwards: every micro-batch in flight at once.
 * 1F1B (Narayanan et al. 2021, PipeDream-Flush): a stage runs ahead by its distance from the last and then alternates,
 * so at most `stages` micro-batches are in flight. Zero bubble (Qi et al. 2023): as 1F1B, with the backward of the
 * weights apart from that of the inputs. On one stage there is no bubble to fill and each follows the other. */
#include "base/memory.h"
#include "schedule/program.h"

#include <stddef.h>

tri_status tri_stream_append(tri_stream *stream, tri_instruction_kind kind, int64_t micro_batch) {
  if (stream->count == stream->capacity) {
    int64_t capacity = stream->capacity == 0 ? 64 : stream->capacity * 2;
    TRI_TRY(tri_realloc("a step program", (size_t)capacity, sizeof *stream->instructions, &stream->instructions));
    stream->capacity = capacity;
  }
  stream->instructions[stream->count++] = (tri_instruction){kind, (int32_t)micro_batch, -1};
  return TRI_OK;
}

static tri_status gpipe(int64_t stages, int64_t stage, int64_t micro_batches, tri_stream *out) {
  (void)stages;
  (void)stage;
  for (int64_t m = 0; m < micro_batches; m++) TRI_TRY(tri_stream_append(out, TRI_FORWARD, m));
  for (int64_t m = 0; m < micro_batches; m++) TRI_TRY(tri_stream_append(out, TRI_BACKWARD, m));
  return TRI_OK;
}

static tri_status one_forward_one_backward(int64_t stages, int64_t stage, int64_t micro_batches, tri_stream *out) {
  int64_t ahead = stages - 1 - stage < micro_batches ? stages - 1 - stage : micro_batches;
  for (int64_t m = 0; m < ahead; m++) TRI_TRY(tri_stream_append(out, TRI_FORWARD, m));
  for (int64_t m = 0; m < micro_batches; m++) {
    if (m + ahead < micro_batches) TRI_TRY(tri_stream_append(out, TRI_FORWARD, m + ahead));
    TRI_TRY(tri_stream_append(out, TRI_BACKWARD, m));
  }
  return TRI_OK;
}

static tri_status zero_bubble(int64_t stages, int64_t stage, int64_t micro_batches, tri_stream *out) {
  (void)stages;
  (void)stage;
  for (int64_t m = 0; m < micro_batches; m++) {
    TRI_TRY(tri_stream_append(out, TRI_FORWARD, m));
    TRI_TRY(tri_stream_append(out, TRI_BACKWARD_INPUT, m));
    TRI_TRY(tri_stream_append(out, TRI_BACKWARD_WEIGHT, m));
  }
  return TRI_OK;
}

const tri_schedule *tri_schedule_of(tri_schedule_kind kind) {
  static const tri_schedule schedules[] = {
      [TRI_SCHEDULE_GPIPE] = {"gpipe", false, gpipe},
      [TRI_SCHEDULE_1F1B] = {"1f1b", false, one_forward_one_backward},
      [TRI_SCHEDULE_INTERLEAVED] = {"interleaved", false, NULL},
      [TRI_SCHEDULE_ZERO_BUBBLE] = {"zero-bubble", true, zero_bubble},
  };
  return schedules[kind].stream == NULL ? NULL : &schedules[kind];
}
