/* Buckets: ranges of the flat arrays of parameters that are sharded over replicas (ZeRO, Rajbhandari et al. 2020).
 *
 * A bucket holds the parameters of consecutive layers of one chunk whose gradients are summed over the same domain. So
 * the experts of a layer have a bucket of their own, separate from the dense parameters of the layer. The gradients of
 * a bucket are complete when the backward of the last micro-batch has passed its layers, and their reduction overlaps
 * with the rest of the backward. Each bucket is cut into one part for each replica, at multiples of TRI_BLOCK_ELEMENTS.
 * If an optimizer needs whole matrices, the bucket is cut between tensors, so that the work of all buckets together is
 * about equal on all replicas.
 *
 * Each rank holds:
 *
 * - ZeRO 1: the optimizer states of its parts.
 *
 * - ZeRO 2: also the gradients of its parts. A bucket's gradients are computed in one of two buffers, which buckets use
 * in turn, and reduced; then the rank's part is copied out. This is done in steps of one micro-batch. With several
 * micro-batches, all gradients are whole until the last one, because they accumulate: reducing the gradients of each
 * micro-batch would multiply the traffic and change the order of the sums, and so the last bits of the result.
 *
 * - ZeRO 3: also the values of its parts. A bucket's values are gathered into one of two buffers before the segment of
 * the program (program.c) that needs them, while the previous segment runs. Buckets then also hold frozen parameters:
 * for each stored type a range of that type's array, which is cut and gathered in that type. Under ZeRO 0 to 2 every
 * rank has all frozen parameters, and they are not in buckets.
 *
 * The bucket of tied embeddings has sharded optimizer states, but its gradients and values stay whole: the gradients
 * are complete only at the end of a step, and the output projection needs the values at the other end of the model. */
#ifndef TRI_SCHEDULE_BUCKETS_H
#define TRI_SCHEDULE_BUCKETS_H

#include "model/parameters.h"
#include "optimizers/optimizer.h"
#include "schedule/layout.h"

/* The range of a bucket's frozen parameters in the array of one stored type. Except `begins`, all members are counted
 * in elements of that array, or in bytes if the type has 4 bits. A rank's parts begin at multiples of
 * TRI_BLOCK_ELEMENTS. */
typedef struct tri_frozen_range {
  int64_t first, end;
  int64_t own_first, own_end; /* range that this rank keeps: its part if the bucket's values are sharded, else all */
  int64_t at;                 /* offset of own_first in this rank's array */
  int64_t *begins; /* [ranks + 1]: begin of each rank's part, relative to `first`, in elements of the type in which it
                      is gathered (tri_stored_gathered) */
} tri_frozen_range;

typedef struct tri_bucket {
  int64_t first, end;  /* elements first .. end - 1 of the flat arrays; first == end if all parameters are frozen */
  tri_domain replicas; /* domain over which the gradients are summed */
  tri_domain parts;    /* domain over which partial gradients are summed before the sum over `replicas` */
  int64_t ranks, rank; /* size of `replicas`, and this rank's number in `replicas` */
  int64_t *begins;     /* [ranks + 1]: begin of each rank's part, relative to `first` */
  int64_t own_first, own_end;     /* elements that this rank updates: its part, or all elements without ZeRO */
  int64_t first_entry, end_entry; /* the parameters are the entries first_entry .. end_entry - 1 of the table */
  tri_layer_range layers;
  int32_t chunk;
  bool tied;    /* whether the bucket holds a parameter of tied embeddings; its gradients are then complete only after
                   the gradients of both embeddings are summed */
  bool experts; /* whether the bucket holds experts; only the calls of these experts need it */
  bool partial; /* whether some gradients are partial sums (TRI_HOLDING_PARTIAL) */

  bool values_sharded, gradients_sharded;
  int64_t values_at, gradients_at; /* offsets in the arrays, of the rank's part if sharded, else of the whole bucket */
  int32_t buffer;                  /* index of the buffers that a sharded bucket uses, below TRI_BUCKET_BUFFERS */
  tri_frozen_range frozen[TRI_NUM_STORED]; /* range of the frozen parameters of each stored type; empty if the buckets
                                              do not hold frozen parameters */
} tri_bucket;

/* Returns whether a bucket has gradients to reduce and values to update. */
static inline bool tri_bucket_is_trained(const tri_bucket *bucket) { return bucket->end > bucket->first; }

/* Number of gather buffers, and of reduce buffers: one buffer is filled while the other is used. */
enum { TRI_BUCKET_BUFFERS = 2 };

typedef struct tri_buckets {
  tri_bucket *entries; /* [count] */
  int64_t count;
  int64_t value_elements;    /* elements of the array of values */
  int64_t gradient_elements; /* elements of the array of gradients; tied aliases are the last elements */
  int64_t gather_buffer_elements,
      reduce_buffer_elements; /* elements of one gather buffer and of one reduce buffer; 0: no such buffers */
  bool holds_frozen;          /* whether buckets hold frozen parameters as well */
  int64_t frozen_elements[TRI_NUM_STORED]; /* elements of this rank's array of each stored type; bytes in 4 bits */
  int64_t frozen_buffer_elements[TRI_NUM_STORED]; /* elements of one gather buffer of each stored type; 0: no buffers */
} tri_buckets;

/* The part of an entry that this rank has in an array, and its offset. Frozen parameters are in arrays of their stored
 * type (tri_parameter_table.num_frozen). */
typedef struct tri_element_range {
  int64_t first, count; /* elements [first, first + count) of the entry's local part */
  int64_t at;           /* offset of `first` in the array */
} tri_element_range;

/* Return the part of an entry that this rank has in the array of values, and in the array of gradients. If `buckets` is
 * NULL, the arrays are those of the parameter table. */
tri_element_range tri_element_range_of_values(const tri_buckets *buckets, const tri_parameter_table *table,
                                              int64_t entry);
tri_element_range tri_element_range_of_gradients(const tri_buckets *buckets, const tri_parameter_table *table,
                                                 int64_t entry);

/* Returns the intersection of the range `whole` with the elements [first, first + count) of the entry. The result's
 * `first` is relative to the argument `first`; an empty intersection is {0, 0, 0}. */
tri_element_range tri_element_range_within(tri_element_range whole, int64_t first, int64_t count);

/* Returns the part of the elements [first, first + count) of a frozen entry that this rank keeps, relative to `first`.
 * An entry in 4 bits is counted in bytes. The result's `at` is an offset in the array of the entry's stored type. */
tri_element_range tri_element_range_of_frozen(const tri_buckets *buckets, const tri_parameter_table *table,
                                              int64_t entry, int64_t first, int64_t count);

/* Returns the bucket that holds an entry; NULL for tied aliases, parameters of other ranks, and frozen parameters
 * outside of buckets. */
const tri_bucket *tri_bucket_of(const tri_buckets *buckets, const tri_parameter_table *table, int64_t entry);

/* Creates the buckets of a rank. `table`: the parameter table of the rank that `share` describes; `element_bytes`:
 * bytes of the gradient of one parameter. Release with tri_buckets_destroy. */
tri_status tri_buckets_create(const tri_layout *layout, const tri_optimizer_settings *optimizer,
                              const tri_model_share *share, const tri_parameter_table *table, int64_t micro_batches,
                              int64_t element_bytes, tri_buckets **out);
void tri_buckets_destroy(tri_buckets *buckets);

#endif
