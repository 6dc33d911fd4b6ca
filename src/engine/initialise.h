#ifndef TRI_ENGINE_INITIALISE_H
#define TRI_ENGINE_INITIALISE_H

#include "device/device.h"
#include "model/parameters.h"
#include "schedule/buckets.h"

/* Writes the initial value of every parameter that this rank holds into `values` (device memory, of `wide`; where:
 * tri_stretch_of_values). An element is a function of the seed, the parameter's number in the table and its global
 * index, so it does not depend on the layout. */
tri_status tri_initialise(tri_device *device, const tri_parameter_table *table, const tri_buckets *buckets,
                          uint64_t seed, tri_dtype wide, void *values);

#endif
