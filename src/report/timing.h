/* Timeline of the steps as the ranks executed them: each rank's flight recorder keeps some steps, and the first rank
 * merges them on one clock. */
#ifndef TRI_REPORT_TIMING_H
#define TRI_REPORT_TIMING_H

#include "comm/mesh.h"
#include "timeline/timeline.h"

/* The timed steps of a run: at most eight, after the first two, which touch memory for the first time; a run that has
 * no more than two steps times these. */
typedef struct tri_timing {
  const char *path; /* output: this name with .json and with .svg; NULL: no output. Set by the caller */
  const tri_mesh *mesh;
  int64_t first, end;         /* steps [first, end) are timed; both -1: none */
  tri_timeline_shares shares; /* set on the first rank after the timed steps */
} tri_timing;

/* COLLECTIVE. Chooses among the steps [from, to). If no timeline was requested, a job of more than 64 ranks is not
 * timed. TRI_IO_FAILED if a timeline was requested and its folder cannot be written to. */
tri_status tri_timing_plan(tri_timing *timing, const tri_mesh *mesh, int64_t from, int64_t to);

/* LOCAL. Called before a step, counted from 0. */
void tri_timing_step_begins(const tri_timing *timing, int64_t step);

/* COLLECTIVE. Called after each step with the number of steps so far; `last`: no other follows. After the last timed
 * step, merges all ranks' records, adds them up and draws them. */
tri_status tri_timing_step_ended(tri_timing *timing, int64_t steps, bool last);

#endif
