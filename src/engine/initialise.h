/* Initial values of the parameters, drawn from the seed of a run. */
#ifndef TRI_ENGINE_INITIALISE_H
#define TRI_ENGINE_INITIALISE_H

#include "device/device.h"
#include "model/parameters.h"
#include "schedule/buckets.h"

/* Arrays of values in device memory: of the trained parameters, in the wide type, and of the frozen ones, by their
 * stored type. */
typedef struct tri_value_arrays {
  void *trained;
  void *frozen[TRI_NUM_STORED];
} tri_value_arrays;

/* Writes the initial value of every parameter of this rank into its array (at tri_element_range_of_values), except
 * parameters in 4 bits, whose values come from the base. `type`: type of activations. An element is a function of the
 * seed, the parameter's number in the table and the element's global index, so it does not depend on the layout. */
tri_status tri_initialise(tri_device *device, const tri_parameter_table *table, const tri_buckets *buckets,
                          uint64_t seed, tri_dtype type, const tri_value_arrays *arrays);

#endif
