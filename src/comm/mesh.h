/* The process mesh: ranks laid out over the dimensions of a layout, fastest first (mesh/coordinates.h).
 * Tensor groups are therefore neighbours, inside a node where a node holds enough ranks. */
#ifndef TRI_COMM_MESH_H
#define TRI_COMM_MESH_H

#include "comm/comm.h"
#include "mesh/domain.h"

typedef struct tri_mesh {
  tri_mesh_shape shape;
  tri_mesh_coordinates place;        /* of this rank */
  tri_group world;                   /* the whole mesh */
  tri_group groups[TRI_NUM_DOMAINS]; /* the ranks of this rank's domains; alone where the domain has none of its own */
  tri_domain group_of[TRI_NUM_DOMAINS]; /* whose group a domain uses: that of the first of the same ranks, or its own */
  tri_group tied; /* the first and the last stage of this rank's pipeline: they share a tied embedding; else alone */
} tri_mesh;

/* COLLECTIVE over the job. The shape must have as many places as the job has ranks (TRI_BAD_LAYOUT says the product
 * that does not fit). Domains of layers with experts have groups where shape->expert is at least 1. Destroy with
 * tri_mesh_destroy. */
tri_status tri_mesh_create(const tri_mesh_shape *shape, tri_mesh *out);
/* A mesh of one rank without a job. */
tri_mesh tri_mesh_alone(void);
void tri_mesh_destroy(tri_mesh *mesh);

/* This rank's group of a domain; where its ranks are several, one over which something passes (tri_domain_has_group).
 */
const tri_group *tri_mesh_group(const tri_mesh *mesh, tri_domain domain);

/* The domain of this rank's group of that name, or TRI_NUM_DOMAINS for the world; a tied pair's is
 * TRI_DOMAIN_PIPELINE. */
int tri_mesh_domain_of(const tri_mesh *mesh, const char *group);
/* How many ranks that group has. */
int tri_mesh_group_size(const tri_mesh *mesh, const char *group);
/* The rank in the world of the rank `at` of this rank's group of that name. */
int tri_mesh_world_rank(const tri_mesh *mesh, const char *group, int at);

#endif
