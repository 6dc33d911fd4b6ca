/* What ends a step, once all backwards are through: a list, from which the end of a program is made.
 *
 * Each entry is an instruction of the table, on nothing or on a bucket. One on buckets is made for each bucket for
 * which its condition holds, in their order; entries that go on with the buckets of the one before are made bucket by
 * bucket together with it. An optimizer or an outer loop that has more to do, before or after the update, has a list of
 * its own, made of these parts:
 *
 *   static const tri_end_entry entries[] = {TRI_END_REDUCE, {TRI_CLIP, TRI_END_ONCE, NULL},
 *                                           {TRI_UPDATE, TRI_END_ONCE, NULL}, {TRI_MINE, TRI_END_BUCKETS, when},
 *                                           TRI_END_GATHER};
 *
 * and names it in the request for the program; engine, simulator and memory plan read what comes of it. */
#ifndef TRI_SCHEDULE_STEP_END_H
#define TRI_SCHEDULE_STEP_END_H

#include "schedule/buckets.h"
#include "schedule/instruction.h"
#include "schedule/layout.h"

/* What a condition is asked about. */
typedef struct tri_end_place {
  const tri_layout *layout;
  bool tied_pair;           /* this rank holds one of a tied pair, or both */
  const tri_bucket *bucket; /* NULL: the entry is on nothing */
  bool reduced, waited;     /* the program starts to reduce the bucket already, and waits for that */
} tri_end_place;

typedef bool tri_end_condition(const tri_end_place *place);

typedef enum tri_end_scope {
  TRI_END_ONCE,    /* on nothing */
  TRI_END_BUCKETS, /* for each bucket */
  TRI_END_WITH,    /* for each bucket, right behind what the entry before has for it */
} tri_end_scope;

typedef struct tri_end_entry {
  tri_instruction_kind kind;
  tri_end_scope scope;
  tri_end_condition *when; /* NULL: always */
} tri_end_entry;

typedef struct tri_step_end {
  const tri_end_entry *entries; /* [count] */
  int64_t count;
} tri_step_end;

/* clang-format off */
/* Gradients that are this rank's own, partial or of its micro-batches, become those of the global batch. */
#define TRI_END_REDUCE \
  {TRI_SUM_TIED, TRI_END_ONCE, tri_end_is_tied}, \
  {TRI_SUM_PARTIAL, TRI_END_BUCKETS, tri_end_is_partial}, \
  {TRI_REDUCE, TRI_END_WITH, tri_end_is_reduced}, \
  {TRI_WAIT_REDUCED, TRI_END_BUCKETS, tri_end_is_awaited}

/* Parameters that this rank has updated a part of become whole. */
#define TRI_END_GATHER \
  {TRI_GATHER, TRI_END_BUCKETS, tri_end_is_gathered}, \
  {TRI_WAIT_GATHERED, TRI_END_BUCKETS, tri_end_is_gathered}
/* clang-format on */

tri_end_condition tri_end_is_tied, tri_end_is_partial, tri_end_is_reduced, tri_end_is_awaited, tri_end_is_gathered;

/* Reduce, clip, update, gather. */
const tri_step_end *tri_step_end_default(void);

#endif
