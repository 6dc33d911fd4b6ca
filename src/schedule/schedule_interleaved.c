/* Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters", section
 * 2.2.2): a stage holds `virtual_stages` runs of layers, so the pipeline fills in steps of a run and the bubble shrinks
 * by their number, for as many times the messages.
 *
 * Micro-batches go in groups of `stages`: a stage takes a group through its first run of layers, then through the
 * second, and so on. It runs ahead until the group's first micro-batch has come back to where its backward begins, and
 * then alternates. The groups must be whole, or stages would wait in the middle of one. */
#include "schedule/schedule.h"

static tri_status schedule_interleaved_check(const tri_schedule_shape *shape) {
  if (shape->stages < 2 || shape->virtual_stages < 2) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "the interleaved schedule needs layout.pipeline and layout.virtual_stages of 2 at least, and they "
                    "are %ld and %ld; set layout.schedule=1f1b%s",
                    (long)shape->stages, (long)shape->virtual_stages,
                    shape->virtual_stages > 1 ? " and layout.virtual_stages=1" : "");
  }
  if (shape->micro_batches % shape->stages == 0) return TRI_OK;
  int64_t below = shape->micro_batches / shape->stages * shape->stages;
  return tri_fail(TRI_BAD_LAYOUT,
                  "the interleaved schedule takes micro-batches in groups of layout.pipeline %ld, and optimizer."
                  "global_batch / (layout.micro_batch x layout.data) is %ld; %ld or %ld would do",
                  (long)shape->stages, (long)shape->micro_batches, (long)(below == 0 ? shape->stages : below),
                  (long)(below == 0 ? 2 * shape->stages : below + shape->stages));
}

/* The number-th forward, or backward, of any stage. */
static tri_turn turn_of(const tri_schedule_shape *shape, tri_turn_kind kind, int64_t number) {
  int64_t group = number / (shape->stages * shape->virtual_stages);
  int64_t within = number % (shape->stages * shape->virtual_stages);
  int64_t chunk = within / shape->stages;
  if (kind == TRI_TURN_BACKWARD) chunk = shape->virtual_stages - 1 - chunk;
  return (tri_turn){kind, (int32_t)(group * shape->stages + within % shape->stages), (int32_t)chunk};
}

static tri_status schedule_interleaved_turns(const tri_schedule_shape *shape, int64_t stage, tri_turns *out) {
  int64_t count = shape->micro_batches * shape->virtual_stages;
  int64_t ahead = (shape->stages - 1 - stage) * 2 + (shape->virtual_stages - 1) * shape->stages;
  if (ahead > count) ahead = count;
  for (int64_t i = 0; i < ahead; i++) TRI_TRY(tri_turns_append(out, turn_of(shape, TRI_TURN_FORWARD, i)));
  for (int64_t i = 0; i < count; i++) {
    if (i + ahead < count) TRI_TRY(tri_turns_append(out, turn_of(shape, TRI_TURN_FORWARD, i + ahead)));
    TRI_TRY(tri_turns_append(out, turn_of(shape, TRI_TURN_BACKWARD, i)));
  }
  return TRI_OK;
}

const tri_schedule tri_schedule_interleaved = {
    .name = "interleaved", .check = schedule_interleaved_check, .turns = schedule_interleaved_turns};
