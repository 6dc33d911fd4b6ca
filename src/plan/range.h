/* Ranges of the numbers of a cluster, with reasons (range.c). A cluster with an *impossible* number is not read, and
 * a fit stays within *plausible* numbers. A test checks that the clusters of this program have plausible numbers, so
 * that no number makes up for an effect that the model ignores. */
#ifndef TRI_PLAN_RANGE_H
#define TRI_PLAN_RANGE_H

#include "plan/cluster.h"

/* The range of one key of a cluster file. */
typedef struct tri_range {
  const char *name;   /* the key, such as "launch" or "links.latency" */
  double least, most; /* possible range; it includes ideal machines, with nearly infinite bandwidths */
  double low, high;   /* plausible range of an accelerator */
  const char *why;    /* reason for the plausible range */
} tri_range;

extern const tri_range tri_ranges[];
extern const size_t tri_num_ranges;

/* Returns the range with a name; NULL if no range has the name. */
const tri_range *tri_range_of(const char *name);

/* Calls `visit` for each number of a cluster that has a range. Stops at the first call that fails, and returns its
 * status. Skips peaks and host_bandwidth that are 0, and without tiles the numbers that describe tiles. */
typedef tri_status (*tri_range_visitor)(void *context, const tri_range *range, double value);
tri_status tri_ranges_visit(const tri_cluster *cluster, tri_range_visitor visit, void *context);

/* Fails with TRI_BAD_CONFIG if a number is impossible. The message has its range. */
tri_status tri_ranges_check(const tri_cluster *cluster);

/* Logs a warning for each number of an accelerator outside of its plausible range, with the number that was probably
 * meant. Fails with TRI_BAD_CONFIG if a number is outside of its range by a factor of 1000 or more. Ignores zeros, CPUs
 * and `hypothetical` clusters. */
tri_status tri_ranges_remark(const tri_cluster *cluster);

/* Returns whether a fit may set a constant of tri_efficiency to this value: for accelerators a plausible one, for
 * CPUs a possible one. If the constant has no range, the value must be positive. */
bool tri_range_allows(const tri_cluster *cluster, const char *constant, double value);

#endif
