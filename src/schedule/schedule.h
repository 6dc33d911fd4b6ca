/* Pipeline schedules: the order of a stage's forwards and backwards.
 *
 * A schedule is a pure function from (stages, virtual stages, micro-batches, group) to each stage's turns, and each
 * schedule is in a file of its own. program.c adds the messages between stages and everything else of a step.
 *
 * Virtual stage number v = chunk * stages + stage: a stage with several chunks has several runs of consecutive
 * layers.
 *
 * In every schedule, the backwards of a stage and chunk (if they are split, those of the weights) are in the order
 * of the micro-batches, so that gradients are summed in the same order and have the same bits under all schedules. */
#ifndef TRI_SCHEDULE_SCHEDULE_H
#define TRI_SCHEDULE_SCHEDULE_H

#include "base/status.h"
#include "schedule/layout.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_turn_kind {
  TRI_TURN_FORWARD,
  TRI_TURN_BACKWARD,
  TRI_TURN_BACKWARD_INPUT,
  TRI_TURN_BACKWARD_WEIGHT,
} tri_turn_kind;

/* A turn of a stage: the forward or a backward of one micro-batch in one chunk. */
typedef struct tri_turn {
  tri_turn_kind kind;
  int32_t micro_batch, chunk;
} tri_turn;

/* A growing list of turns. It begins as {0}. Release `turns` with tri_free. */
typedef struct tri_turns {
  tri_turn *turns;
  int64_t count, capacity;
} tri_turns;

tri_status tri_turns_append(tri_turns *turns, tri_turn turn);

typedef struct tri_schedule_shape {
  int64_t stages, virtual_stages, micro_batches;
  int64_t group; /* interleaved: consecutive micro-batches of one chunk (tri_schedule_group); 0: auto */
} tri_schedule_shape;

typedef struct tri_schedule {
  const char *name;
  bool split_backward; /* whether backwards of inputs and of weights are separate turns */
  /* Fails with TRI_BAD_LAYOUT if the schedule does not support the shape; the message has the reason and the supported
   * shapes. */
  tri_status (*check)(const tri_schedule_shape *shape);
  /* Appends the turns of `stage` in order. */
  tri_status (*turns)(const tri_schedule_shape *shape, int64_t stage, tri_turns *out);
} tri_schedule;

const tri_schedule *tri_schedule_of(tri_schedule_kind kind);

/* Returns the shape of the schedule of a layout, for a step with `micro_batches` micro-batches on a rank. */
tri_schedule_shape tri_schedule_shape_of(const tri_layout *layout, int64_t micro_batches);

/* Returns the number of consecutive micro-batches of one chunk in the interleaved schedule: shape->group, or if this
 * is 0 the smallest possible number (schedule_interleaved.c). The last group of a step may be smaller. */
int64_t tri_schedule_group(const tri_schedule_shape *shape);

/* Returns the number of micro-batches after which the order of a stage's turns repeats: with several chunks a group,
 * else the number of stages. */
int64_t tri_schedule_period(const tri_layout *layout, int64_t micro_batches);

/* Returns `layout` with micro_batch_group set to the group that a step with `micro_batches` micro-batches has. A
 * shorter step with the returned layout has the same schedule, only shorter, if its number of micro-batches leaves the
 * same remainder when it is divided by the group. */
tri_layout tri_schedule_settle(const tri_layout *layout, int64_t micro_batches);

/* Returns the smallest number of micro-batches, from `least` to `most`, of a step that can run in place of a step with
 * `most` micro-batches. With several chunks, the number is rounded up to whole groups of the longer step
 * (tri_schedule_settle). The shorter program needs no more memory than the longer one. */
int64_t tri_schedule_shorter(const tri_layout *layout, int64_t least, int64_t most);

extern const tri_schedule tri_schedule_gpipe;
extern const tri_schedule tri_schedule_1f1b;
extern const tri_schedule tri_schedule_interleaved;
extern const tri_schedule tri_schedule_zero_bubble;

/* Implements `check` for schedules that do not support virtual stages or groups. */
tri_status tri_schedule_check_plain(const tri_schedule_shape *shape);

#endif
