/* Profile of the timed steps of a run: the time of each kernel by operation, on each rank, and the share of the speed
 * that this machine reaches in a loop.
 *
 * The kernels are measured in the steps (device/kernel_times.h). Afterwards the ranks run the GEMMs of these steps in a
 * loop, all ranks at the same time (engine/measure.h), and a large copy. A GEMM is compared with the same GEMM in the
 * loop, attention and GEMMs of experts with the fastest GEMM, other kernels with the copy. */
#ifndef TRI_REPORT_PROFILE_H
#define TRI_REPORT_PROFILE_H

#include "comm/mesh.h"
#include "device/kernel_times.h"
#include "timeline/timeline.h"

enum { TRI_PROFILE_NAME_BYTES = 32, TRI_PROFILE_SUMMARY_BYTES = 640 };

/* A kernel's calls on a rank that belong to the same operation and pass and have the same shape. Starts with the
 * members of a tri_kernel_time, with its texts copied. */
typedef struct tri_profile_row {
  char operation[TRI_PROFILE_NAME_BYTES], pass[TRI_PROFILE_NAME_BYTES], kernel[TRI_PROFILE_NAME_BYTES]; /* "": none */
  bool of_call;
  tri_matmul product;
  int64_t groups, calls;
  double seconds, flops, bytes;
  double rate; /* measured in a loop: FLOP/s if flops is not 0, else bytes/s; 0: not measured */
} tri_profile_row;

typedef struct tri_profile {
  const char *path;        /* output: this name with .json and with .svg, set by the caller; NULL: no profile */
  tri_kernel_times *times; /* NULL: no profile, or it is closed */
  tri_dtype precision;
  double begin_s;                          /* begin of the current step, on tri_clock_s */
  double seconds;                          /* duration of the profiled steps together */
  int64_t first, steps;                    /* number of the first profiled step, from 0; number of profiled steps */
  char summary[TRI_PROFILE_SUMMARY_BYTES]; /* on the first rank, after tri_profile_write: the shares of time, in a line
                                            */
} tri_profile;

/* LOCAL. Prepares a profile of steps from `first` on, if profile->path is set. Fails with TRI_UNSUPPORTED if the
 * device's kernels cannot be measured. Release with tri_profile_close before the device. */
tri_status tri_profile_open(tri_profile *profile, tri_device *device, tri_dtype precision, int64_t first);
void tri_profile_close(tri_profile *profile);

/* LOCAL. Begin and end a profiled step. They do nothing without a profile. */
void tri_profile_step_begins(tri_profile *profile);
void tri_profile_step_ended(tri_profile *profile);

/* COLLECTIVE. Merges the rows of all ranks, measures the GEMMs in a loop if `compares`, writes the files on the first
 * rank, and sets profile->summary there. `shares`: those of the same steps, on the first rank. Logs the names of the
 * files; warns, on the first rank, if GEMMs are not measured, because `compares` is false or too little memory is free.
 * Closes the profile, also after a failure; does nothing without a profile. */
tri_status tri_profile_write(tri_profile *profile, tri_device *device, const tri_mesh *mesh,
                             const tri_timeline_shares *shares, bool compares);

/* ---- profile_table.c --------------------------------------------------------------------------------------------- */

/* The rows of all ranks. */
typedef struct tri_profile_table {
  tri_profile_row *rows; /* [count], rank after rank */
  int64_t *begins;       /* [ranks + 1], first row of each rank */
  int ranks;
  double *seconds; /* [ranks], duration of the profiled steps on each rank */
  int64_t first, steps;
  double communication, waiting; /* shares of the time of the steps, of all ranks */
} tri_profile_table;

/* Returns the seconds that the calls of a row would take at the measured rate; 0: not measured. */
double tri_profile_loop_s(const tri_profile_row *row);

/* Writes the shares of time in a line: "products 66 % at 88 % of ..., attention 8 %, ...". Returns text. */
const char *tri_profile_describe(const tri_profile_table *table, char *text, size_t text_bytes);

/* Replace the file at `path` by the rows of all ranks as JSON, and by a drawing of the sums over the ranks. */
tri_status tri_profile_write_json(const tri_profile_table *table, const char *path);
tri_status tri_profile_write_svg(const tri_profile_table *table, const char *summary, const char *path);

#endif
