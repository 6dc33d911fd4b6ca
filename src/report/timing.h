/* A timeline of what the ranks really did: each rank's flight recorder keeps some steps, and the first rank puts them
 * together on one clock. */
#ifndef TRI_REPORT_TIMING_H
#define TRI_REPORT_TIMING_H

#include "comm/mesh.h"
#include "timeline/timeline.h"

/* Some steps of a run that are timed: the first ones but for the very first two, in which memory is touched for the
 * first time, if there are others. */
typedef struct tri_timing {
  const char *path; /* where the timeline goes: this name with .json and with .svg; NULL: nowhere. Set by the caller */
  const tri_mesh *mesh;
  int64_t first, end;         /* steps [first, end) are timed; both -1: none */
  tri_timeline_shares shares; /* once they have been, on the first rank */
} tri_timing;

/* COLLECTIVE. Chooses among the steps [from, to). If no timeline was requested, a job of many ranks is not timed.
 * TRI_IO_FAILED if a timeline was asked for and its folder cannot be written to. */
tri_status tri_timing_plan(tri_timing *timing, const tri_mesh *mesh, int64_t from, int64_t to);

/* LOCAL. A step, counted from 0, is about to begin. */
void tri_timing_step_begins(const tri_timing *timing, int64_t step);

/* COLLECTIVE. That many steps have been made; `last`: no other follows. After the last of those that are timed, puts
 * all ranks' records together, adds them up and draws them. */
tri_status tri_timing_step_ended(tri_timing *timing, int64_t steps, bool last);

#endif
