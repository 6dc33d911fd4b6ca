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
  int64_t turn; /* number of calls so far; selects the set of operands */

  /* Members for links (measure_links.c). */
  tri_exchange *exchange;
  void *sums;     /* scratch device memory for sums; NULL if MPI cannot access device memory */
  void *staging;  /* host memory for staged collectives; NULL if the host can access device memory */
  char *messages; /* host memory for messages */
  tri_exchange_region transfer;
  /* Device memory that the ranks of a node share; NULL until the first measurement of shared memory. */
  char *gradients;
  bool asked_to_share,
      sees;        /* whether sharing was tried; whether the ranks of every node can access each other's `gradients` */
  tri_group group; /* this rank's group of `ranks` neighbours; ranks is 0 until the first collective */
  int64_t ranks;
};

/* Calls the measured function once, on the operands of turn m->turn. */
typedef tri_status tri_measured_call(tri_measure *m, const void *what);

/* COLLECTIVE over the job. Repeats a call, and sets *out to the lower quartile of its seconds on the slowest rank. */
tri_status tri_measure_time(tri_measure *m, tri_measured_call *call, const void *what, double *out);

/* Advances *next by `bytes` bytes, rounded up to TRI_MEASURE_ALIGNMENT, and returns its earlier value. */
char *tri_measure_reserve(char **next, size_t bytes);
static inline bool tri_measure_fits(const tri_measure *m, const char *end) { return end <= m->pool + m->pool_bytes; }
/* Returns how many sets of operands, of `bytes` bytes each, fit after `from`, at most 16. */
int64_t tri_measure_sets(const tri_measure *m, const char *from, size_t bytes);

/* Fills the pool with random values. */
tri_status tri_measure_fill(const tri_measure *m);

/* COLLECTIVE over the job. Create and release the exchange, its memory, and the memory for messages. */
tri_status tri_measure_open_links(tri_measure *m);
void tri_measure_close_links(tri_measure *m);

#endif
