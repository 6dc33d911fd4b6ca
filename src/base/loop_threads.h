/* Threads of loops outside the devices, whose own number is in their descriptions. */
#ifndef TRI_BASE_LOOP_THREADS_H
#define TRI_BASE_LOOP_THREADS_H

#include <omp.h>

/* As many as OMP_NUM_THREADS says, but no more than there are cores to run them: 100,000 would end the process. */
static inline int tri_loop_threads(void) {
  const int most = omp_get_max_threads(), cores = omp_get_num_procs();
  return most < cores ? most : cores;
}

#endif
