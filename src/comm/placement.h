/* Which cores a rank gets of its node's. */
#ifndef TRI_COMM_PLACEMENT_H
#define TRI_COMM_PLACEMENT_H

#include "base/status.h"

typedef struct tri_placement {
  int first, cores; /* of the cores that the process may use, in order; 0 cores: too few for all, no rank is bound */
  int threads;      /* of this rank */
} tri_placement;

/* LOCAL. The share of local_rank of `ranks` on a node with `cores` cores: neighbouring ones, as many for each as can
 * be. */
tri_placement tri_placement_of(int local_rank, int ranks, int cores);

/* LOCAL. After tri_comm_open and before any thread is started: binds this rank to its share where this program itself
 * started the job (tri_launch); a launcher of the user's has its own ways. *threads: how many a rank should use. */
tri_status tri_placement_apply(int *threads);

#endif
