/* Slices of a checkpoint whose values are converted or reordered while they are read or written.
 *
 * Two kinds are *staged*: optimizer states that are not stored in the wide type, and the weights that an averaging
 * optimizer evaluates, which are saved instead of the trained ones. They are converted one at a time in the memory of
 * this rank's gradients, which is unused between steps (tri_engine.staged). Values that a load writes there are
 * converted back into the state before another slice is staged, and by tri_checkpoint_map_written. */
#ifndef TRI_ENGINE_CHECKPOINT_CONVERSIONS_H
#define TRI_ENGINE_CHECKPOINT_CONVERSIONS_H

#include "checkpoint/checkpoint.h"
#include "engine/engine_internal.h"

typedef struct tri_staged_slice {
  tri_checkpoint_memory memory; /* its context is this struct */
  tri_engine *engine;
  const tri_update_call *call;
  int64_t state; /* number of the optimizer state in the call; -1: the weights that an averaging optimizer evaluates */
} tri_staged_slice;

/* Matrices of several members of a stack whose elements alternate in the file (TRI_STACKING_COLUMNS), presented in the
 * file's order, so that they are written together. */
typedef struct tri_alternating_slice {
  tri_checkpoint_memory memory; /* its context is this struct */
  tri_engine *engine;
  tri_parameter part;
  char *first;             /* first element of the first member */
  int64_t count, distance; /* elements of each member; distance between members, in elements */
  size_t element;
} tri_alternating_slice;

/* Set up *out. The first function sets all members; the second sets only `memory` and `engine`, and its caller sets the
 * others. *out must not move afterwards, because its memory's context is its address. */
void tri_staged_slice_set_up(tri_engine *engine, const tri_update_call *call, int64_t state, tri_staged_slice *out);
void tri_alternating_slice_set_up(tri_engine *engine, tri_alternating_slice *out);

/* Returns whether a slice is converted or reordered when it is saved. */
bool tri_checkpoint_converts(const tri_checkpoint_slice *slice);

#endif
