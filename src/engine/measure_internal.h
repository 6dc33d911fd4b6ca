/* What the files that measure share. */
#ifndef TRI_ENGINE_MEASURE_INTERNAL_H
#define TRI_ENGINE_MEASURE_INTERNAL_H

#include "engine/exchange.h"
#include "engine/measure.h"

struct tri_measure {
  tri_device *device;
  tri_dtype type;
  const tri_group *world;
  double each_s;
  char *pool; /* device memory with random values */
  size_t pool_bytes;
  int64_t turn;

  /* Links (measure_links.c). */
  tri_exchange *exchange;
  void *staging;  /* host memory, where the host does not see the device's */
  char *messages; /* host memory, and of what passes, */
  tri_exchange_region transfer;
  char *gradients; /* device memory that is shared, once that was asked for; NULL: not yet */
  bool asked_to_share, sees;
  tri_group group; /* of `ranks` neighbours */
  int64_t ranks;
};

/* One call of what is measured, on the operands of its turn. */
typedef tri_status tri_measured_call(tri_measure *m, const void *what);

tri_status tri_measure_time(tri_measure *m, tri_measured_call *call, const void *what, double *out);

/* The next `bytes` bytes of what *next points at. */
char *tri_measure_take(char **next, size_t bytes);
static inline bool tri_measure_fits(const tri_measure *m, const char *end) { return end <= m->pool + m->pool_bytes; }
/* How many sets of that many bytes have room from there on and are taken in turn. */
int64_t tri_measure_sets(const tri_measure *m, const char *from, size_t bytes);

/* Random values all over the pool. */
tri_status tri_measure_fill(const tri_measure *m);

/* COLLECTIVE over the job. */
tri_status tri_measure_open_links(tri_measure *m);
void tri_measure_close_links(tri_measure *m);

#endif
