#ifndef TRI_ENGINE_INITIALISE_H
#define TRI_ENGINE_INITIALISE_H

#include "device/device.h"
#include "model/parameters.h"
#include "schedule/buckets.h"

/* Arrays of values in device memory: trained parameters, wide, and frozen ones by stored type. */
typedef struct tri_value_arrays {
  void *trained;
  void *frozen[TRI_NUM_STORED];
} tri_value_arrays;

/* Writes the initial value of every parameter of this rank into its array (at tri_element_range_of_values), except
 * those in 4 bits, which come from the base. `type`: that of activations. An element is a function of the seed, the
 * parameter's number in the table and its global index, so it does not depend on the layout. */
tri_status tri_initialise(tri_device *device, const tri_parameter_table *table, const tri_buckets *buckets,
                          uint64_t seed, tri_dtype type, const tri_value_arrays *arrays);

#endif
