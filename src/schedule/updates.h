/* The updates of a rank at the end of a step: a list of optimizer calls for its buckets, with the offsets of the
 * states of each call. */
#ifndef TRI_SCHEDULE_UPDATES_H
#define TRI_SCHEDULE_UPDATES_H

#include "optimizers/optimizer.h"
#include "schedule/buckets.h"

typedef struct tri_updates {
  tri_update_call *calls; /* [count], bucket by bucket, in the order of the table */
  int64_t count;
  int64_t *first_call; /* index of the first call of each entry [entries + 1]; the calls of entry e are first_call[e] ..
                          first_call[e + 1] - 1 */
  size_t state_bytes;  /* bytes of all states */
} tri_updates;

/* Creates the list of updates. `settings`, the buckets and the table must outlive it. Release with
 * tri_updates_destroy. */
tri_status tri_updates_create(const tri_optimizer_settings *settings, const tri_mesh_position *position, tri_dtype type,
                              const tri_parameter_table *table, const tri_buckets *buckets, tri_updates **out);
void tri_updates_destroy(tri_updates *updates);

/* Computes the bytes of scratch of the update: the maximum over the calls, which run one after the other. */
tri_status tri_updates_workspace(const tri_updates *updates, const tri_device_description *device, size_t *bytes);

#endif
