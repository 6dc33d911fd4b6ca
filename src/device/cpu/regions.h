/* Parallel loops that end when their chunks are done, not when all threads have arrived: for loops of some
 * microseconds, one or two hundred of them in a step of generation. */
#ifndef TRI_DEVICE_CPU_REGIONS_H
#define TRI_DEVICE_CPU_REGIONS_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_regions tri_regions;

/* Runs one chunk of a loop. worker: 0 to threads - 1, unique among concurrent chunks, an index for scratch memory of
 * the loop's own. */
typedef void tri_region_body(const void *context, int64_t chunk, int worker);

/* Creates a pool of threads. `threads` includes the caller; the others are started by the first loop that can use them.
 * Destroy when no loop runs; NULL is ignored. */
tri_status tri_regions_create(int threads, tri_regions **out);
void tri_regions_destroy(tri_regions *regions);
int tri_regions_threads(const tri_regions *regions);

/* Runs body for each chunk in [0, chunks), in any order and on any threads; returns when all are done. The caller runs
 * all chunks itself, as worker 0, if regions is NULL or already in use, by another thread or because this is a call
 * within a body. */
void tri_regions_run(tri_regions *regions, int64_t chunks, tri_region_body *body, const void *context);

#endif
