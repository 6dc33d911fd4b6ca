#include "schedule/schedule.h"

#include "base/memory.h"

tri_status tri_turns_append(tri_turns *turns, tri_turn turn) {
  if (turns->count == turns->capacity) {
    int64_t capacity = turns->capacity == 0 ? 64 : turns->capacity * 2;
    TRI_TRY(tri_realloc("a pipeline schedule", (size_t)capacity, sizeof *turns->turns, &turns->turns));
    turns->capacity = capacity;
  }
  turns->turns[turns->count++] = turn;
  return TRI_OK;
}

tri_status tri_schedule_check_plain(const tri_schedule_shape *shape) {
  if (shape->group > 0) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "layout.micro_batch_group is %ld, which only the interleaved schedule uses; leave it out "
                    "or set layout.schedule=interleaved",
                    (long)shape->group);
  }
  if (shape->virtual_stages == 1) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.virtual_stages is %ld, which only the interleaved schedule uses; set "
                  "layout.schedule=interleaved or layout.virtual_stages=1",
                  (long)shape->virtual_stages);
}

tri_schedule_shape tri_schedule_shape_of(const tri_layout *layout, int64_t micro_batches) {
  return (tri_schedule_shape){.stages = layout->pipeline,
                              .virtual_stages = layout->virtual_stages,
                              .micro_batches = micro_batches,
                              .group = layout->micro_batch_group};
}

int64_t tri_schedule_period(const tri_layout *layout, int64_t micro_batches) {
  tri_schedule_shape shape = tri_schedule_shape_of(layout, micro_batches);
  return layout->virtual_stages > 1 ? tri_schedule_group(&shape) : layout->pipeline;
}

tri_layout tri_schedule_settle(const tri_layout *layout, int64_t micro_batches) {
  tri_layout settled = *layout;
  if (layout->virtual_stages > 1) settled.micro_batch_group = tri_schedule_period(layout, micro_batches);
  return settled;
}

const tri_schedule *tri_schedule_of(tri_schedule_kind kind) {
  switch (kind) {
    case TRI_SCHEDULE_GPIPE: return &tri_schedule_gpipe;
    case TRI_SCHEDULE_1F1B: return &tri_schedule_1f1b;
    case TRI_SCHEDULE_INTERLEAVED: return &tri_schedule_interleaved;
    case TRI_SCHEDULE_ZERO_BUBBLE: return &tri_schedule_zero_bubble;
  }
  return &tri_schedule_1f1b;
}
