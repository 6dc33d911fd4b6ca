/* Pipeline schedules: in which order a stage takes its forwards and backwards.
 *
 * A schedule is a pure function from (stages, virtual stages, micro-batches) to each stage's turns; one file each. What
 * passes between stages, and everything else of a step, is put around the turns by program.c.
 *
 * Virtual stage number v = chunk * stages + stage: with more than one chunk a stage holds several runs of layers.
 *
 * A promise of every schedule: on a stage and chunk, backwards (of the weights, where they are apart) come in the order
 * of the micro-batches, so that gradients are added up in the same order and have the same bits under all of them. */
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

typedef struct tri_turn {
  tri_turn_kind kind;
  int32_t micro_batch, chunk;
} tri_turn;

/* A growing list; starts as {0}, release turns with tri_free. */
typedef struct tri_turns {
  tri_turn *turns;
  int64_t count, capacity;
} tri_turns;

tri_status tri_turns_append(tri_turns *turns, tri_turn turn);

typedef struct tri_schedule_shape {
  int64_t stages, virtual_stages, micro_batches;
  int64_t group; /* micro-batches in a row through one chunk, of the interleaved schedule; 0: what will do */
} tri_schedule_shape;

typedef struct tri_schedule {
  const char *name;
  bool split_backward; /* backwards of inputs and of weights are turns of their own */
  /* TRI_BAD_LAYOUT if the schedule does not go with the shape: the sum that does not fit and what would. */
  tri_status (*check)(const tri_schedule_shape *shape);
  /* Appends the turns of `stage` in order. */
  tri_status (*turns)(const tri_schedule_shape *shape, int64_t stage, tri_turns *out);
} tri_schedule;

const tri_schedule *tri_schedule_of(tri_schedule_kind kind);

/* What a layout's schedule is made for, with that many micro-batches a rank. */
tri_schedule_shape tri_schedule_shape_of(const tri_layout *layout, int64_t micro_batches);

/* Micro-batches in a row that a stage of the interleaved schedule takes through one chunk: the shape's own, or where it
 * has none the fewest that will do (schedule_interleaved.c). The last ones may be fewer. */
int64_t tri_schedule_group(const tri_schedule_shape *shape);

/* After how many micro-batches a stage does the same again: a group where there is more than one chunk, else as many as
 * there are stages. */
int64_t tri_schedule_period(const tri_layout *layout, int64_t micro_batches);

/* The layout with that group written into it: so the schedule of fewer micro-batches is the same but for its length, if
 * as many are left behind whole groups. */
tri_layout tri_schedule_settle(const tri_layout *layout, int64_t micro_batches);

extern const tri_schedule tri_schedule_gpipe;
extern const tri_schedule tri_schedule_1f1b;
extern const tri_schedule tri_schedule_interleaved;
extern const tri_schedule tri_schedule_zero_bubble;

/* The check of schedules that know no virtual stages. */
tri_status tri_schedule_check_plain(const tri_schedule_shape *shape);

#endif
