/* Ranges of the numbers of a cluster, with reasons (range.c). Reading a cluster refuses impossible numbers; a fit stays
 * within plausible ones; a test checks that the clusters which come with the program are plausible, so that no number
 * compensates for something that the model leaves out. */
#ifndef TRI_PLAN_RANGE_H
#define TRI_PLAN_RANGE_H

#include "plan/cluster.h"

typedef struct tri_range {
  const char *name;   /* the key: "launch", "links.latency" */
  double least, most; /* the possible range, which includes ideal machines: bandwidths may be nearly infinite */
  double low, high;   /* the plausible range of an accelerator */
  const char *why;    /* the reason for the plausible range */
} tri_range;

extern const tri_range tri_ranges[];
extern const size_t tri_num_ranges;

/* Returns the range with that name; NULL if there is no such range. */
const tri_range *tri_range_of(const char *name);

/* Calls `visit` for each number of a cluster that has a range. Stops if a call fails, and returns its status. Peaks of
 * unsupported precisions are left out. */
typedef tri_status (*tri_range_visitor)(void *context, const tri_range *range, double value);
tri_status tri_ranges_visit(const tri_cluster *cluster, tri_range_visitor visit, void *context);

/* Fails with TRI_BAD_CONFIG for an impossible number; the message has its range. */
tri_status tri_ranges_check(const tri_cluster *cluster);

/* Warns of each number of an accelerator that is outside of its plausible range, and suggests the number that was
 * probably meant. Fails with TRI_BAD_CONFIG for a number a thousand times outside of it. Ignores zeros that a key
 * allows, and `hypothetical` clusters. */
tri_status tri_ranges_remark(const tri_cluster *cluster);

/* Returns whether a fit may give a constant of tri_efficiency this value: a plausible one for accelerators, a possible
 * one for CPUs, and a positive one if the constant has no range. */
bool tri_range_allows(const tri_cluster *cluster, const char *constant, double value);

#endif
