/* Timeline of the steps as the ranks executed them: each rank's flight recorder keeps some steps, and the first rank
 * merges them on one clock. */
#ifndef TRI_REPORT_TIMING_H
#define TRI_REPORT_TIMING_H

#include "comm/mesh.h"
#include "report/profile.h"
#include "timeline/timeline.h"

/* The timed steps of a run: at most eight, without the first two, which touch memory for the first time. A run of at
 * most two steps times these. */
typedef struct tri_timing {
  const char *path;    /* output: this name with .json and with .svg, set by the caller; NULL: no output */
  tri_profile profile; /* profile.path: set by the caller; close it with tri_profile_close */
  const tri_mesh *mesh;
  tri_device *device;
  int64_t first, end;         /* steps [first, end) are timed; both -1: none */
  bool inside;                /* whether a timed step has begun and has not ended */
  bool merged;                /* whether the records of the timed steps were merged; no further step is timed then */
  tri_timeline_shares shares; /* set on the first rank after the timed steps */
} tri_timing;

/* COLLECTIVE. Chooses the timed steps among the steps [from, to). If the user requested no timeline and no profile, a
 * job of more than 64 ranks is not timed. Fails with TRI_BAD_USAGE if the name of a requested file is empty or both
 * names are the same, with TRI_IO_FAILED if a requested file's folder cannot be written to, and with TRI_UNSUPPORTED if
 * the device's kernels cannot be profiled. */
tri_status tri_timing_plan(tri_timing *timing, const tri_mesh *mesh, tri_device *device, tri_dtype precision,
                           int64_t from, int64_t to);

/* LOCAL. Must be called before each step, with its number, from 0. */
void tri_timing_step_begins(tri_timing *timing, int64_t step);

/* COLLECTIVE. Must be called after each step, with the number of steps so far. After the last timed step, merges the
 * records of all ranks, sets timing->shares on the first rank and, if timing->path is set, writes and logs the files of
 * the timeline there. */
tri_status tri_timing_step_ended(tri_timing *timing, int64_t steps);

/* COLLECTIVE. Must be called after the last step, with the number of steps. If the run has ended before the end of the
 * timed steps, merges the records of the steps that were made, as tri_timing_step_ended does. If a step was given up
 * before its end, merges nothing. */
tri_status tri_timing_end(tri_timing *timing, int64_t steps);

/* COLLECTIVE. Writes the profile, once, after the records were merged. It measures GEMMs for some seconds, unless the
 * run is `stopping`: call it after the state is saved. */
tri_status tri_timing_write_profile(tri_timing *timing, bool stopping);

/* LOCAL. Warns, on the first rank, if the user requested files of the timed steps and they cannot be written because
 * the run has ended, after `steps` steps. */
void tri_timing_warn_unwritten(const tri_timing *timing, int64_t steps);

#endif
