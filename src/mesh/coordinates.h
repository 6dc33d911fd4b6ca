/* Coordinates of a rank in the mesh, along its axes, fastest first: tensor, context (two axes: ranks along the inner
 * one exchange heads, ranks along the outer one keys), data, pipeline. Plain arithmetic, which also works for machines
 * that are only described; the groups of ranks that communicate are in comm/mesh.h.
 *
 * MoE layers use a second mesh over the ranks of a pipeline stage, with the same rank numbers: expert_tensor (fastest),
 * expert, expert_data. Its size is that of tensor x context x data, but an axis of one mesh need not be part of an axis
 * of the other (Liu et al. 2025, "MoE Parallel Folding", arXiv 2504.14960). */
#ifndef TRI_MESH_COORDINATES_H
#define TRI_MESH_COORDINATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tri_axis {
  TRI_AXIS_TENSOR,
  TRI_AXIS_CONTEXT_INNER,
  TRI_AXIS_CONTEXT,
  TRI_AXIS_DATA,
  TRI_AXIS_PIPELINE,
  TRI_AXIS_EXPERT_TENSOR, /* axes of the expert mesh from here on */
  TRI_AXIS_EXPERT,
  TRI_AXIS_EXPERT_DATA,
} tri_axis;
enum { TRI_NUM_MESH_AXES = TRI_AXIS_PIPELINE + 1, TRI_NUM_AXES = TRI_AXIS_EXPERT_DATA + 1 };

/* Sizes of the axes, and of two axes of the expert mesh; expert_data follows from them. Without experts `expert` is 0:
 * it counts as 1, and the expert mesh has no groups. */
typedef struct tri_mesh_shape {
  int size[TRI_NUM_MESH_AXES];
  int expert_tensor, expert;
} tri_mesh_shape;

/* One coordinate for each axis of the mesh. The coordinates in the expert mesh follow from these. */
typedef struct tri_mesh_coordinates {
  int at[TRI_NUM_MESH_AXES];
} tri_mesh_coordinates;

/* A mesh, and one of its ranks. */
typedef struct tri_mesh_position {
  tri_mesh_shape shape;
  tri_mesh_coordinates place;
} tri_mesh_position;

/* Return the position of the only rank of a mesh of one rank; and the position of the first rank of a mesh that has
 * `ranks` ranks along `axis` and one along every other axis. `axis` is not an axis of the expert mesh. */
tri_mesh_position tri_mesh_position_alone(void);
tri_mesh_position tri_mesh_position_along(tri_axis axis, int64_t ranks);

const char *tri_axis_name(tri_axis axis);
/* Returns whether an axis belongs to the expert mesh. */
bool tri_axis_is_folded(tri_axis axis);
/* Return the size of an axis of either mesh, and the coordinate along it of the rank at `place`. */
int tri_mesh_axis_size(const tri_mesh_shape *shape, tri_axis axis);
int tri_mesh_axis_at(const tri_mesh_shape *shape, const tri_mesh_coordinates *place, tri_axis axis);

/* Return the number of ranks of a pipeline stage, and the number in its stage of the rank at `place`. */
int tri_mesh_stage_ranks(const tri_mesh_shape *shape);
int tri_mesh_stage_rank(const tri_mesh_shape *shape, const tri_mesh_coordinates *place);

int tri_mesh_num_ranks(const tri_mesh_shape *shape);
tri_mesh_coordinates tri_mesh_coordinates_of(const tri_mesh_shape *shape, int rank);
int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_coordinates *place);
/* Writes the coordinates of a rank along the axes longer than 1, "tensor 1, data 0, pipeline 3"; "the only rank" if
 * there is no such axis. Returns text. */
const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size);

#endif
