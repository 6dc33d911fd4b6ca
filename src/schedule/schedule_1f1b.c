/* 1F1B (PipeDream-Flush, Narayanan et al. 2021): a stage begins with as many forwards as there are stages after it,
 * and then alternates forwards and backwards. So at most `stages - stage` micro-batches are in flight. The bubble is
 * the same as that of GPipe. */
#include "schedule/schedule.h"

static tri_status schedule_1f1b_turns(const tri_schedule_shape *shape, int64_t stage, tri_turns *out) {
  int64_t count = shape->micro_batches, distance = shape->stages - 1 - stage;
  int64_t ahead = distance < count ? distance : count;
  for (int64_t m = 0; m < ahead; m++) TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_FORWARD, (int32_t)m, 0}));
  for (int64_t m = 0; m < count; m++) {
    if (m + ahead < count) {
      TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_FORWARD, (int32_t)(m + ahead), 0}));
    }
    TRI_TRY(tri_turns_append(out, (tri_turn){TRI_TURN_BACKWARD, (int32_t)m, 0}));
  }
  return TRI_OK;
}

const tri_schedule tri_schedule_1f1b = {
    .name = "1f1b", .check = tri_schedule_check_plain, .turns = schedule_1f1b_turns};
