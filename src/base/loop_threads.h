/* The number of threads of loops outside of devices. The description of a device has the device's own number. */
#ifndef TRI_BASE_LOOP_THREADS_H
#define TRI_BASE_LOOP_THREADS_H

#include <omp.h>

/* Returns OpenMP's number of threads (OMP_NUM_THREADS), but at most the number of cores, since 100,000 threads would
 * end the process. */
static inline int tri_loop_threads(void) {
  const int most = omp_get_max_threads(), cores = omp_get_num_procs();
  return most < cores ? most : cores;
}

#endif
