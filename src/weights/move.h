/* Moves weights in memory, from the ranks that train them to ranks that generate with them.
 *
 * The senders have slices of the model's tensors as a checkpoint has them: each element is in one slice of one sender,
 * whatever the layout. A receiver has a parameter table of its own, with all of the model's tensors or some of them, as
 * a whole or in slices. Each sender sends its slices of these tensors to each receiver, in messages of at most 4 MiB,
 * in the type in which the receiver stores the tensor: the sender's type or, if that is fp32, bf16. A rank copies its
 * own slices without messages. A receiver of slices passes over the elements that it does not have.
 *
 * Every slice is followed by its checksum (element_sum.h) and the version of the weights. The receiver recomputes the
 * sum from its own memory and the elements that it passed over. The move fails if a tensor is missing, swapped or
 * damaged, or has another version. The message names the tensor and the version; unless the tensor is missing, it also
 * has the version that was received and the rank that sent it. */
#ifndef TRI_WEIGHTS_MOVE_H
#define TRI_WEIGHTS_MOVE_H

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "weights/weights.h"

/* A sender's side. All ranks that send have the same tensors, in the same order. */
typedef struct tri_weights_source {
  const tri_checkpoint_tensor *tensors; /* [num_tensors] */
  int64_t num_tensors;
  const tri_checkpoint_slice *slices; /* [num_slices] of these tensors, ascending by tensor */
  int64_t num_slices;
  int64_t version; /* version of the weights that are sent (tri_weights_version) */
} tri_weights_source;

/* A receiver's side. */
typedef struct tri_weights_target {
  tri_weights *weights;
  const tri_checkpoint_memory *memory; /* functions that access the weights' values; NULL: the values are in host
                                          memory */
} tri_weights_target;

/* COLLECTIVE over the group. `from` NULL: this rank sends nothing; `to` NULL: this rank receives nothing. The device's
 * queue must be finished on both sides, and the senders' values must not change meanwhile. Sets the version of the
 * received weights to the version of the sent ones. Fails with the same status on all ranks: TRI_COMM if the received
 * weights differ from the sent ones. */
tri_status tri_weights_move(const tri_group *group, const tri_weights_source *from, const tri_weights_target *to);

#endif
