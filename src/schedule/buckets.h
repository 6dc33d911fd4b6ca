/* Buckets: stretches of the flat arrays that their replicas share out among them (ZeRO, Rajbhandari et al. 2020).
 *
 * A bucket holds the parameters of consecutive layers of one chunk that are added up over the same domain (experts of
 * one layer, whose dense part lies before them, in another bucket), so its gradients are whole when the last
 * micro-batch's backward has passed them, and their reduction runs while the backward goes on. Each bucket is cut into
 * one part a replica, at whole blocks of TRI_BLOCK_ELEMENTS; where optimizers need whole matrices, between tensors, so
 * that the replicas' work comes to the same over all buckets. What a rank holds:
 *
 *   ZeRO 1  the optimizer's states of its parts alone;
 *   ZeRO 2  the gradients too. A bucket's gradients are made in one of two slots, which buckets use in turn, reduced,
 * and the rank's part is put away. So it is in a step of one micro-batch. With more, gradients are added up over the
 * micro-batches first and are whole until the last: reducing each micro-batch's would multiply the traffic and change
 * the order of the sums, and with it the answer's last bits; ZeRO 3  the values too. A bucket's values are gathered
 * into one of two slots before a piece of the program that needs them, while the piece before runs.
 *
 * A tied pair's bucket is never sharded: its gradients come together at the end of a step only, and the head needs the
 * embedding's values at the other end of the model. */
#ifndef TRI_SCHEDULE_BUCKETS_H
#define TRI_SCHEDULE_BUCKETS_H

#include "model/parameters.h"
#include "optimizers/optimizer.h"
#include "schedule/layout.h"

typedef struct tri_bucket {
  int64_t first, end;             /* elements of the flat arrays */
  tri_domain replicas;            /* over which its gradients are added up, */
  int64_t ranks, rank;            /* that domain's, and this one's number among them */
  int64_t *begins;                /* [ranks + 1]: where each one's part begins, from `first` on */
  int64_t own_first, own_end;     /* what this rank updates: its part, or everything without ZeRO */
  int64_t first_entry, end_entry; /* its parameters in the table */
  tri_layer_range layers;
  int32_t chunk;
  bool tied;    /* holds a parameter of a tied pair: it is complete only when the pair's gradients were added */
  bool experts; /* holds stacks: the calls of a layer's experts need it, and no other call of that layer */
  bool partial; /* holds gradients that are sums over the ranks of their parts, or copies of key/value heads */

  bool values_sharded, gradients_sharded;
  int64_t values_at, gradients_at; /* in the arrays: the rank's part where sharded, else the whole bucket */
  int32_t slot;                    /* of a sharded bucket */
} tri_bucket;

/* Slots of a kind: one is used while the next is filled. */
enum { TRI_BUCKET_SLOTS = 2 };

typedef struct tri_buckets {
  tri_bucket *entries;
  int64_t count;
  int64_t value_elements;                              /* of the array of values */
  int64_t gradient_elements;                           /* of the array of gradients, aliases' behind the rest */
  int64_t value_slot_elements, gradient_slot_elements; /* of one slot; 0 without */
} tri_buckets;

/* What of an entry this rank has in an array, and where. What is not trained lies in an array of its kind
 * (tri_parameter_table.num_frozen). */
typedef struct tri_stretch {
  int64_t first, count; /* elements of the entry's local part */
  int64_t at;           /* of the array */
} tri_stretch;

/* buckets NULL: arrays as the table lays them out. */
tri_stretch tri_stretch_of_values(const tri_buckets *buckets, const tri_parameter_table *table, int64_t entry);
tri_stretch tri_stretch_of_gradients(const tri_buckets *buckets, const tri_parameter_table *table, int64_t entry);

/* What of a stretch is in `count` elements of the entry from `first` on; counted from there. */
tri_stretch tri_stretch_within(tri_stretch whole, int64_t first, int64_t count);

/* The bucket that holds an entry; NULL for an alias, for what is not trained and for what is not on this rank. */
const tri_bucket *tri_bucket_of(const tri_buckets *buckets, const tri_parameter_table *table, int64_t entry);

/* For the table of the rank whose share it is; `element_bytes` is that of a gradient. Release with
 * tri_buckets_destroy. */
tri_status tri_buckets_create(const tri_layout *layout, const tri_optimizer_settings *optimizer,
                              const tri_model_share *share, const tri_parameter_table *table, int64_t micro_batches,
                              int64_t element_bytes, tri_buckets **out);
void tri_buckets_destroy(tri_buckets *buckets);

#endif
