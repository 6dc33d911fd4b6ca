#include "schedule/schedule.h"

#include "base/count.h"

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

int64_t tri_schedule_shorter(const tri_layout *layout, int64_t least, int64_t most) {
  if (layout->virtual_stages == 1) return least;
  return tri_smaller(most, tri_round_up(least, tri_schedule_period(layout, most)));
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
