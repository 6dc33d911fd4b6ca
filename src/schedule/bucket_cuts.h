/* Cuts buckets between tensors, for optimizers that need whole tensors. */
#ifndef TRI_SCHEDULE_BUCKET_CUTS_H
#define TRI_SCHEDULE_BUCKET_CUTS_H

#include "schedule/buckets.h"

/* Sets tri_bucket.begins of each bucket that has a tensor which an optimizer needs whole. No part of these buckets
 * begins inside such a tensor. */
tri_status tri_buckets_cut_at_tensors(const tri_optimizer_settings *optimizer, const tri_mesh_shape *shape,
                                      const tri_parameter_table *table, tri_buckets *buckets);

#endif
