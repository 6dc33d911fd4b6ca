/* Internals shared by the files that measure. */
#ifndef TRI_ENGINE_MEASURE_INTERNAL_H
#define TRI_ENGINE_MEASURE_INTERNAL_H

#include "engine/exchange.h"
#include "engine/measure.h"

enum { TRI_MEASURE_ALIGNMENT = 4096 }; /* alignment of operands in the pool, in bytes */

struct tri_measure {
  tri_device *device;
  tri_dtype type;
  const tri_group *world;
  double each_s;
  char *pool; /* device memory with random values */
  size_t pool_bytes;
  int64_t turn; /* number of calls so far; chooses the operands */

  /* Links (measure_links.c). */
  tri_exchange *exchange;
  void *sums;     /* device memory; NULL if MPI cannot access it */
  void *staging;  /* host memory; NULL if the host can access device memory */
  char *messages; /* host memory for messages */
  tri_exchange_region transfer;
  char *gradients;           /* shared device memory; NULL until the first measurement of it */
  bool asked_to_share, sees; /* sharing was tried; the ranks of every node can access each other's `gradients` */
  tri_group group;           /* this rank's group of `ranks` neighbours */
  int64_t ranks;
};

/* Makes one call of the measured function, on the operands of this turn. */
typedef tri_status tri_measured_call(tri_measure *m, const void *what);

tri_status tri_measure_time(tri_measure *m, tri_measured_call *call, const void *what, double *out);

/* Reserves the next `bytes` bytes at *next, and returns their address. */
char *tri_measure_reserve(char **next, size_t bytes);
static inline bool tri_measure_fits(const tri_measure *m, const char *end) { return end <= m->pool + m->pool_bytes; }
/* Returns how many sets of `bytes` bytes fit after `from`; they are used in turn. */
int64_t tri_measure_sets(const tri_measure *m, const char *from, size_t bytes);

/* Fills the pool with random values. */
tri_status tri_measure_fill(const tri_measure *m);

/* COLLECTIVE over the job. */
tri_status tri_measure_open_links(tri_measure *m);
void tri_measure_close_links(tri_measure *m);

#endif
