/* Parallel loops that end when their chunks are done, not when all threads have come: for loops of some microseconds,
 * of which a step of generated text has one or two hundred. */
#ifndef TRI_DEVICE_CPU_REGIONS_H
#define TRI_DEVICE_CPU_REGIONS_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_regions tri_regions;

/* One chunk of a loop. worker: 0 to threads - 1, one chunk at a time each, for scratch memory of the loop's own. */
typedef void tri_region_body(const void *context, int64_t chunk, int worker);

/* threads: the calling one included. The others are started by the first loop that can use them. Destroy once no loop
 * runs; NULL is ignored. */
tri_status tri_regions_create(int threads, tri_regions **out);
void tri_regions_destroy(tri_regions *regions);
int tri_regions_threads(const tri_regions *regions);

/* Runs body for each chunk in [0, chunks), in any order and on any threads; returns when all are done. The caller does
 * all of it itself, as worker 0, if regions is NULL or at work already: in a body, or for another thread. */
void tri_regions_run(tri_regions *regions, int64_t chunks, tri_region_body *body, const void *context);

#endif
