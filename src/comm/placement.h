/* Which cores of its node a rank uses. */
#ifndef TRI_COMM_PLACEMENT_H
#define TRI_COMM_PLACEMENT_H

#include "base/status.h"

typedef struct tri_placement {
  int first, cores; /* first and number of its cores, among those that the process may use; 0 cores: fewer cores than
                       ranks, and no rank is bound */
  int threads;      /* that this rank should use */
} tri_placement;

/* LOCAL. The adjacent cores of rank local_rank of `ranks` on a node with `cores` cores, shared out as evenly as
 * possible.
 */
tri_placement tri_placement_of(int local_rank, int ranks, int cores);

/* LOCAL. After tri_comm_open and before any thread is started. Binds this rank to its cores if `train -n` started the
 * job; other launchers bind ranks themselves. *threads: how many threads this rank should use; 0: the device's default.
 */
tri_status tri_placement_apply(int *threads);

#endif
