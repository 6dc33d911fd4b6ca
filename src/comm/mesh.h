/* The process mesh: ranks laid out over the dimensions of a layout, fastest first: tensor, context, data, pipeline.
 * Tensor groups are therefore neighbours, inside a node where a node holds enough ranks. */
#ifndef TRI_COMM_MESH_H
#define TRI_COMM_MESH_H

#include "comm/comm.h"

typedef enum tri_axis { TRI_AXIS_TENSOR, TRI_AXIS_CONTEXT, TRI_AXIS_DATA, TRI_AXIS_PIPELINE } tri_axis;
enum { TRI_NUM_AXES = 4 };

/* A place: one coordinate an axis. */
typedef struct tri_mesh_shape {
  int size[TRI_NUM_AXES];
} tri_mesh_shape;

typedef struct tri_mesh_place {
  int at[TRI_NUM_AXES];
} tri_mesh_place;

const char *tri_axis_name(tri_axis axis);
int tri_mesh_num_ranks(const tri_mesh_shape *shape);
tri_mesh_place tri_mesh_place_of(const tri_mesh_shape *shape, int rank);
int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_place *place);
/* "tensor 1, data 0, pipeline 3": the axes longer than 1; "the only rank" where there is none. */
const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size);

typedef struct tri_mesh {
  tri_mesh_shape shape;
  tri_mesh_place place;           /* of this rank */
  tri_group world;                /* the whole mesh */
  tri_group groups[TRI_NUM_AXES]; /* the ranks that differ from this one along one axis only */
  tri_group tied; /* the first and the last stage of this rank's pipeline: they share a tied embedding; else alone */
} tri_mesh;

/* COLLECTIVE over the job. The shape must have as many places as the job has ranks (TRI_BAD_LAYOUT says the product
 * that does not fit). Destroy with tri_mesh_destroy. */
tri_status tri_mesh_create(const tri_mesh_shape *shape, tri_mesh *out);
/* A mesh of one rank without a job. */
tri_mesh tri_mesh_alone(void);
void tri_mesh_destroy(tri_mesh *mesh);

/* The axis of this rank's group of that name, or TRI_NUM_AXES for the world; a tied pair's is TRI_AXIS_PIPELINE. */
int tri_mesh_axis_of(const tri_mesh *mesh, const char *group);
/* The rank in the world of the rank `at` of this rank's group of that name. */
int tri_mesh_world_rank(const tri_mesh *mesh, const char *group, int at);

#endif
