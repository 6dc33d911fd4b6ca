/* Buckets: stretches of the flat arrays whose gradients are reduced over the data ranks together (ZeRO, Rajbhandari et
 * al. 2020).
 *
 * A bucket holds the parameters of consecutive layers of one chunk, so it is complete when the last micro-batch's
 * backward has passed them, and its reduction runs while the backward goes on. Each bucket is cut into one part a data
 * rank, at whole blocks of TRI_BLOCK_ELEMENTS. From ZeRO 1 on a rank holds the optimizer's state of its parts alone. */
#ifndef TRI_SCHEDULE_BUCKETS_H
#define TRI_SCHEDULE_BUCKETS_H

#include "model/parameters.h"
#include "schedule/layout.h"

typedef struct tri_bucket {
  int64_t first, end;             /* elements of the flat arrays */
  int64_t *begins;                /* [data + 1]: where each data rank's part begins, from `first` on */
  int64_t own_first, own_end;     /* what this rank updates: its part, or everything without ZeRO */
  int64_t state;                  /* where the moments of own_first lie in their array */
  int64_t first_entry, end_entry; /* its parameters in the table */
  tri_layer_range layers;
  int32_t chunk;
  bool tied;    /* holds a parameter of a tied pair: it is complete only when the pair's gradients were added */
  bool partial; /* holds gradients that are sums over the tensor group, or copies of key/value heads */
} tri_bucket;

typedef struct tri_buckets {
  tri_bucket *entries;
  int64_t count;
  int64_t state_elements; /* of an array of moments on this rank */
  int64_t data, data_rank;
} tri_buckets;

/* For the table of the rank whose chunks are share->chunks; `element_bytes` is that of a gradient. Release with
 * tri_buckets_destroy. */
tri_status tri_buckets_create(const tri_layout *layout, const tri_model_share *share, const tri_parameter_table *table,
                              int64_t data_rank, int64_t element_bytes, tri_buckets **out);
void tri_buckets_destroy(tri_buckets *buckets);

#endif
