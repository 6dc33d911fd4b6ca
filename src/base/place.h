/* Where a rank stands: its coordinates along the axes of a layout, fastest first: tensor, context, data, pipeline.
 * Plain arithmetic, for ranks of machines that are not there too; the groups of ranks that work together are
 * comm/mesh.h's. */
#ifndef TRI_BASE_PLACE_H
#define TRI_BASE_PLACE_H

#include <stddef.h>
#include <stdint.h>

typedef enum tri_axis { TRI_AXIS_TENSOR, TRI_AXIS_CONTEXT, TRI_AXIS_DATA, TRI_AXIS_PIPELINE } tri_axis;
enum { TRI_NUM_AXES = 4 };

/* A place: one coordinate an axis. */
typedef struct tri_mesh_shape {
  int size[TRI_NUM_AXES];
} tri_mesh_shape;

typedef struct tri_mesh_place {
  int at[TRI_NUM_AXES];
} tri_mesh_place;

/* One rank of a mesh. */
typedef struct tri_mesh_seat {
  tri_mesh_shape shape;
  tri_mesh_place place;
} tri_mesh_seat;

/* The only rank of a mesh, and the first of one that is so long along one axis alone. */
tri_mesh_seat tri_mesh_seat_alone(void);
tri_mesh_seat tri_mesh_seat_along(tri_axis axis, int64_t ranks);

const char *tri_axis_name(tri_axis axis);
int tri_mesh_num_ranks(const tri_mesh_shape *shape);
tri_mesh_place tri_mesh_place_of(const tri_mesh_shape *shape, int rank);
int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_place *place);
/* "tensor 1, data 0, pipeline 3": the axes longer than 1; "the only rank" where there is none. */
const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size);

#endif
