/* Functions for the pipeline schedules: appending to a list of turns, and the check of the keys that only the
 * interleaved schedule uses. */
#include "base/memory.h"
#include "schedule/schedule.h"

tri_status tri_turns_append(tri_turns *turns, tri_turn turn) {
  TRI_TRY(tri_grow("a pipeline schedule", sizeof *turns->turns, turns->count, &turns->capacity, &turns->turns));
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
