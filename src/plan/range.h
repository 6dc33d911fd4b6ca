/* What the figures of a described machine can be: one table of ranges with reasons (range.c). Reading a cluster refuses
 * what nothing could be; a fit stays within what such machines are known to reach; a test holds the clusters that come
 * with the program to that, too, so that no figure there makes up for something that the model leaves out. */
#ifndef TRI_PLAN_RANGE_H
#define TRI_PLAN_RANGE_H

#include "plan/cluster.h"

typedef struct tri_range {
  const char *name;   /* the key: "launch", "links.latency" */
  double least, most; /* possible, for a machine without limits too: bandwidths may be as good as endless */
  double low, high;   /* plausible, of an accelerator */
  const char *why;    /* where the plausible ends come from */
} tri_range;

extern const tri_range tri_ranges[];
extern const size_t tri_num_ranges;

/* NULL: no range has that name. */
const tri_range *tri_range_of(const char *name);

/* Calls `visit` for each figure of a cluster that has a range, until one fails; returns what that one did. Peaks of
 * precisions that the device does not have are left out. */
typedef tri_status (*tri_range_visitor)(void *context, const tri_range *range, double value);
tri_status tri_ranges_visit(const tri_cluster *cluster, tri_range_visitor visit, void *context);

/* TRI_BAD_CONFIG names a figure that is not possible, and what is. */
tri_status tri_ranges_check(const tri_cluster *cluster);

/* Whether a fit may give a constant of tri_efficiency this value: plausible for accelerators, possible for CPUs. */
bool tri_range_allows(const tri_cluster *cluster, const char *constant, double value);

#endif
