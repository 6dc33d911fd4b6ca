/* Cuts buckets into parts that have no tensor in two of them, for optimizers that need whole tensors. */
#ifndef TRI_SCHEDULE_BUCKET_CUTS_H
#define TRI_SCHEDULE_BUCKET_CUTS_H

#include "schedule/buckets.h"

/* For every bucket that holds a tensor which its optimizer needs whole, sets `begins` so that no part begins inside
 * such a tensor. */
tri_status tri_buckets_cut_at_tensors(const tri_optimizer_settings *optimizer, const tri_mesh_shape *shape,
                                      const tri_parameter_table *table, tri_buckets *buckets);

#endif
