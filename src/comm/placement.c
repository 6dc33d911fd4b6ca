#include "comm/placement.h"

#include "base/parent.h"
#include "comm/comm.h"
#include "mesh/parts.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

tri_placement tri_placement_of(int local_rank, int ranks, int cores) {
  if (cores < ranks) return (tri_placement){0, 0, 1};
  int first = (int)tri_part_begin(cores, ranks, local_rank), end = (int)tri_part_begin(cores, ranks, local_rank + 1);
  return (tri_placement){first, end - first, cores / ranks};
}

/* Returns the cores numbered [first, first + count) of a set. */
static cpu_set_t pick(const cpu_set_t *all, int first, int count) {
  cpu_set_t own;
  int number = 0;
  CPU_ZERO(&own);
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, all)) continue;
    if (number >= first && number < first + count) CPU_SET(core, &own);
    number++;
  }
  return own;
}

/* If the launcher bound each rank to its own cores, the rank uses all of them. If the ranks' sets must overlap, because
 * they are too large, the cores are divided among the ranks. */
tri_status tri_placement_apply(int *threads) {
  cpu_set_t all;
  int ranks = tri_comm_local_size();
  *threads = 0;
  if (ranks == 1 || sched_getaffinity(0, sizeof all, &all) != 0) return TRI_OK;
  int cores = CPU_COUNT(&all);
  bool shared = (long)cores * ranks > sysconf(_SC_NPROCESSORS_ONLN);
  if (!shared) return TRI_OK;
  tri_placement placement = tri_placement_of(tri_comm_local_rank(), ranks, cores);
  *threads = placement.threads;
  if (getenv(TRI_LAUNCHED) == NULL || placement.cores == 0) return TRI_OK;
  cpu_set_t own = pick(&all, placement.first, placement.cores);
  sched_setaffinity(0, sizeof own, &own); /* a failure costs only speed: the system then moves the rank between cores */
  return TRI_OK;
}
