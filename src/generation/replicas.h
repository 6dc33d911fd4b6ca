/* The ranks that generate or evaluate together: replicas of `tensor` adjacent ranks each, which hold the slices of one
 * copy of the weights. */
#ifndef TRI_GENERATION_REPLICAS_H
#define TRI_GENERATION_REPLICAS_H

#include "checkpoint/merged.h"
#include "comm/mesh.h"
#include "model/model.h"

typedef struct tri_replicas {
  tri_group all; /* all ranks */
  tri_mesh mesh; /* ranks of this rank's replica along the tensor axis; created only if a replica has several ranks */
  tri_group replica; /* the ranks of this rank's replica */
  tri_group leaders; /* ranks with this rank's index in their replicas; on the first rank of a replica these are all
                        first ranks */
} tri_replicas;

/* Returns one replica of this rank alone. */
tri_replicas tri_replicas_alone(void);
/* COLLECTIVE over `all`, which must outlive the replicas. Fails with TRI_BAD_LAYOUT if `tensor` does not divide the
 * number of ranks, or if that many ranks cannot share each layer of the model; the message is on one rank, and names
 * the option --tensor. Fails if two ranks have opened different models; with `weights` NULL the models are not
 * compared. Release with tri_replicas_destroy. */
tri_status tri_replicas_create(const tri_group *all, int64_t tensor, const tri_model *model, const tri_merged *weights,
                               tri_replicas *out);
void tri_replicas_destroy(tri_replicas *replicas);

/* Returns the mesh for tri_runner_create; NULL if a replica is one rank. */
const tri_mesh *tri_replicas_mesh(const tri_replicas *replicas);
/* Returns whether this rank is the first of its replica. */
bool tri_replicas_leads(const tri_replicas *replicas);

#endif
