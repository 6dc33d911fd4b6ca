/* Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters", section
 * 2.2.2): a stage holds `virtual_stages` runs of layers, so the pipeline is filled after the forwards of one run of
 * each stage. The bubble is divided by `virtual_stages`, and the number of messages is multiplied by it.
 *
 * Micro-batches run in groups: a stage computes a group with its first run of layers, then with the second, and so
 * on. It does only forwards until the first micro-batch of the group can begin its backward, and then alternates
 * forwards and backwards. The first micro-batch of a group returns from the ring after `stages` forwards. With a
 * smaller group a stage would have to wait for it. Because backwards have fixed positions between forwards, stages
 * could even deadlock (4 stages of 3 runs, 5 micro-batches in groups of 4 and 1). So no group is smaller than
 * `stages`, unless it is the only one: each group has `group` micro-batches and the last one the remainder, which is
 * 0 or at least `stages`, as in Megatron-LM (microbatch_group_size_per_vp_stage) and Llama 3 (Grattafiori et al.
 * 2024, section 3.3.2). If the layout has no `group`, it is the smallest possible number: `stages`, if this divides
 * the number of micro-batches.
 *
 * Why it does not deadlock: assign to the n-th forward of stage s the time n + s, and to its n-th backward the time
 * n + ahead + s + 1/2, where ahead is 2 (stages - 1 - s) + (virtual_stages - 1) x group. Then every turn is later than
 * the turns on which it depends, because n grows by a group, which is at least `stages`, from one run of layers to the
 * next. A single smaller group does not deadlock either (tests/unit/test_schedule.c).
 *
 * Larger groups cost memory: the number of micro-batches in flight on stage s, summed over its runs of layers, is at
 * most (virtual_stages - 1) x group + 2 (stages - s) - 1. */
#include "schedule/schedule.h"

#include <stdio.h>

/* Returns whether a division into groups of `group` micro-batches has no group that is smaller than the number of
 * stages. A single group may have any size. */
static bool is_group(const tri_schedule_shape *shape, int64_t group) {
  if (group >= shape->micro_batches) return true; /* a single group */
  if (group < shape->stages) return false;
  int64_t left = shape->micro_batches % group;
  return left == 0 || left >= shape->stages;
}

int64_t tri_schedule_group(const tri_schedule_shape *shape) {
  int64_t group = shape->stages, all = shape->micro_batches > group ? shape->micro_batches : group;
  if (shape->group > 0) return shape->group < all ? shape->group : all;
  while (!is_group(shape, group)) group++;
  return group;
}

static tri_status check_group(const tri_schedule_shape *shape) {
  int64_t group = shape->group, below = group, above = group;
  if (group <= 0 || is_group(shape, group)) return TRI_OK;
  while (below >= shape->stages && !is_group(shape, below)) below--;
  while (!is_group(shape, above)) above++; /* a single group is always possible */
  char would[64];
  snprintf(would, sizeof would, "%ld", (long)above);
  if (below >= shape->stages) snprintf(would, sizeof would, "%ld or %ld", (long)below, (long)above);
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.micro_batch_group %ld divides the %ld micro-batches of a rank (optimizer.global_batch / "
                  "(layout.micro_batch x layout.data)) into groups, but one group has fewer than layout.pipeline %ld; "
                  "use %s, or auto",
                  (long)group, (long)shape->micro_batches, (long)shape->stages, would);
}

static tri_status schedule_interleaved_check(const tri_schedule_shape *shape) {
  if (shape->stages < 2 || shape->virtual_stages < 2) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "the interleaved schedule needs layout.pipeline and layout.virtual_stages of at least 2, and they "
                    "are %ld and %ld; set layout.schedule=1f1b%s",
                    (long)shape->stages, (long)shape->virtual_stages,
                    shape->virtual_stages > 1 ? " and layout.virtual_stages=1" : "");
  }
  return check_group(shape);
}

/* Returns the turn with this number among all turns of its kind (forward or backward). It is the same on all stages. */
static tri_turn turn_of(const tri_schedule_shape *shape, tri_turn_kind kind, int64_t number) {
  int64_t group = tri_schedule_group(shape), first = number / (group * shape->virtual_stages) * group;
  int64_t size = shape->micro_batches - first < group ? shape->micro_batches - first : group;
  int64_t within = number - first * shape->virtual_stages, chunk = within / size;
  if (kind == TRI_TURN_BACKWARD) chunk = shape->virtual_stages - 1 - chunk;
  return (tri_turn){kind, (int32_t)(first + within % size), (int32_t)chunk};
}

static tri_status schedule_interleaved_turns(const tri_schedule_shape *given, int64_t stage, tri_turns *out) {
  tri_schedule_shape shape = *given;
  shape.group = tri_schedule_group(given);
  if (shape.group > shape.micro_batches) shape.group = shape.micro_batches;
  int64_t count = shape.micro_batches * shape.virtual_stages;
  int64_t ahead = (shape.stages - 1 - stage) * 2 + (shape.virtual_stages - 1) * shape.group;
  if (ahead > count) ahead = count;
  for (int64_t i = 0; i < ahead; i++) TRI_TRY(tri_turns_append(out, turn_of(&shape, TRI_TURN_FORWARD, i)));
  for (int64_t i = 0; i < count; i++) {
    if (i + ahead < count) TRI_TRY(tri_turns_append(out, turn_of(&shape, TRI_TURN_FORWARD, i + ahead)));
    TRI_TRY(tri_turns_append(out, turn_of(&shape, TRI_TURN_BACKWARD, i)));
  }
  return TRI_OK;
}

const tri_schedule tri_schedule_interleaved = {
    .name = "interleaved", .check = schedule_interleaved_check, .turns = schedule_interleaved_turns};
