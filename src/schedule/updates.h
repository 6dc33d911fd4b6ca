/* The updates of a rank at the end of a step: a list of optimizer calls, made from its buckets, and the place of each
 * call's states. */
#ifndef TRI_SCHEDULE_UPDATES_H
#define TRI_SCHEDULE_UPDATES_H

#include "optimizers/optimizer.h"
#include "schedule/buckets.h"

typedef struct tri_updates {
  tri_update_call *calls; /* bucket by bucket, in the order of the table */
  int64_t count;
  int64_t *first_call; /* [entries + 1]: calls of an entry are [first_call[e], first_call[e + 1]) */
  size_t state_bytes;  /* bytes of all states */
} tri_updates;

/* Creates the list. `settings`, the buckets and the table must outlive the list. Release with tri_updates_destroy. */
tri_status tri_updates_create(const tri_optimizer_settings *settings, const tri_mesh_position *position, tri_dtype type,
                              const tri_parameter_table *table, const tri_buckets *buckets, tri_updates **out);
void tri_updates_destroy(tri_updates *updates);

/* Computes the scratch bytes of the update: the maximum over its calls, which run one after the other. */
tri_status tri_updates_workspace(const tri_updates *updates, const tri_device_description *device, size_t *bytes);

#endif
