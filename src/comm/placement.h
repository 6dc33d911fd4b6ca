/* The cores of its node that a rank uses. */
#ifndef TRI_COMM_PLACEMENT_H
#define TRI_COMM_PLACEMENT_H

#include "base/status.h"

typedef struct tri_placement {
  int first,   /* index of the first core, among the cores that the process may use */
      cores;   /* number of cores; 0: the node has fewer cores than ranks, and no rank is bound */
  int threads; /* number of threads that this rank should use */
} tri_placement;

/* LOCAL. Returns the adjacent cores of rank local_rank on a node with `cores` cores, which are divided among `ranks`
 * ranks as evenly as possible. */
tri_placement tri_placement_of(int local_rank, int ranks, int cores);

/* LOCAL. Call it after tri_comm_open and before any thread is started. Binds this rank to its cores if `train -n`
 * started the job; other launchers bind ranks themselves. *threads is the number of threads that this rank should
 * use; 0, the device's default, if the rank is alone on its machine or shares no core with another rank. */
tri_status tri_placement_apply(int *threads);

#endif
