/* GPipe (Huang et al. 2019): all forwards, then all backwards. All micro-batches are in flight at the same time. The
 * bubble is (stages - 1) / (micro-batches + stages - 1) of the step. Backwards are in the order of the
 * micro-batches, not in reverse order, so gradients are summed in the same order as with the other schedules. */
#include "schedule/schedule.h"

static tri_status schedule_gpipe_turns(const tri_schedule_shape *shape, int64_t stage, tri_turns *out) {
  (void)stage;
  for (int64_t m = 0; m < shape->micro_batches; m++) {
    TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_FORWARD, (int32_t)m, 0}));
  }
  for (int64_t m = 0; m < shape->micro_batches; m++) {
    TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_BACKWARD, (int32_t)m, 0}));
  }
  return TRI_OK;
}

const tri_schedule tri_schedule_gpipe = {
    .name = "gpipe", .check = tri_schedule_check_plain, .turns = schedule_gpipe_turns};
