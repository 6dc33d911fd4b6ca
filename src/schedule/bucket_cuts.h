/* The cutting of buckets where optimizers need whole tensors. */
#ifndef TRI_SCHEDULE_BUCKET_CUTS_H
#define TRI_SCHEDULE_BUCKET_CUTS_H

#include "schedule/buckets.h"

/* Sets the begins of every bucket that holds such a tensor: no part begins inside one. */
tri_status tri_buckets_cut_at_tensors(const tri_optimizer_settings *optimizer, const tri_mesh_shape *shape,
                                      const tri_parameter_table *table, tri_buckets *buckets);

#endif
