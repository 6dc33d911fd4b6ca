/* The mesh: the ranks of a job, or of a group of it, arranged along the axes of a layout (mesh/coordinates.h). The
 * tensor axis varies fastest, so the ranks of a tensor group are adjacent, on one node if the node has enough ranks. */
#ifndef TRI_COMM_MESH_H
#define TRI_COMM_MESH_H

#include "comm/comm.h"
#include "mesh/domain.h"

typedef struct tri_mesh {
  tri_mesh_shape shape;
  tri_mesh_coordinates place;           /* coordinates of this rank */
  tri_group world;                      /* group of all ranks of the mesh, which is the parent of its groups */
  tri_group groups[TRI_NUM_DOMAINS];    /* [domain]; a group of one rank if the domain has no group */
  tri_domain group_of[TRI_NUM_DOMAINS]; /* [domain]: domain whose group the domain uses, because both have the same
                                           ranks; often the domain itself */
  tri_group tied; /* group of the first and the last stage of this rank's pipeline, for tied embeddings; on other stages
                     a group of one rank */
} tri_mesh;

/* COLLECTIVE over `parent`, which must outlive the mesh. Arranges the parent's ranks. Fails with TRI_BAD_LAYOUT if a
 * size is below 1, the product of the sizes is not the number of the parent's ranks, or the expert axes do not
 * divide a stage. Domains of the expert mesh have groups only if shape->expert is at least 1. Release with
 * tri_mesh_destroy. */
tri_status tri_mesh_create(const tri_group *parent, const tri_mesh_shape *shape, tri_mesh *out);
/* LOCAL. Returns a mesh of one rank without a job. */
tri_mesh tri_mesh_alone(void);
void tri_mesh_destroy(tri_mesh *mesh);

/* LOCAL. Returns this rank's group of a domain. A domain of several ranks must have groups (tri_domain_has_group). */
const tri_group *tri_mesh_group(const tri_mesh *mesh, tri_domain domain);

/* LOCAL. Returns the domain of the group with that name: TRI_DOMAIN_PIPELINE for "tied", TRI_NUM_DOMAINS for the world
 * and any other name. */
int tri_mesh_domain_of(const tri_mesh *mesh, const char *group);
/* LOCAL. Returns the number of ranks of the group with that name; for an unknown name, that of the world. */
int tri_mesh_group_size(const tri_mesh *mesh, const char *group);
/* LOCAL. Returns the rank of the mesh that is rank `at` of the group with the name `group`, one of this rank's
 * groups. */
int tri_mesh_world_rank(const tri_mesh *mesh, const char *group, int at);

#endif
