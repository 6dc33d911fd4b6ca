/* Where a rank stands: its coordinates along the axes of a layout, fastest first: tensor, context (two axes: the inner
 * one's ranks exchange heads, the other's keys), data, pipeline. Plain arithmetic, for ranks of machines that are not
 * there too; the groups of ranks that work together are comm/mesh.h's.
 *
 * Layers of experts see the ranks of a pipeline stage a second time, under the same numbers: expert_tensor (fastest),
 * expert, expert_data. Their product is that of tensor, context and data; no axis of one view need be a part of an axis
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
  TRI_AXIS_EXPERT_TENSOR, /* of the second view of the ranks of a stage */
  TRI_AXIS_EXPERT,
  TRI_AXIS_EXPERT_DATA,
} tri_axis;
enum { TRI_NUM_MESH_AXES = TRI_AXIS_PIPELINE + 1, TRI_NUM_AXES = TRI_AXIS_EXPERT_DATA + 1 };

/* How long the axes of the mesh are, and two of the second view; expert_data is what these leave. Where there are no
 * experts, `expert` is 0: it counts as 1, and nothing has a group in the second view. */
typedef struct tri_mesh_shape {
  int size[TRI_NUM_MESH_AXES];
  int expert_tensor, expert;
} tri_mesh_shape;

/* A place: one coordinate an axis of the mesh. That in the second view follows from it. */
typedef struct tri_mesh_coordinates {
  int at[TRI_NUM_MESH_AXES];
} tri_mesh_coordinates;

/* One rank of a mesh. */
typedef struct tri_mesh_seat {
  tri_mesh_shape shape;
  tri_mesh_coordinates place;
} tri_mesh_seat;

/* The only rank of a mesh, and the first of one that is so long along one axis alone. */
tri_mesh_seat tri_mesh_seat_alone(void);
tri_mesh_seat tri_mesh_seat_along(tri_axis axis, int64_t ranks);

const char *tri_axis_name(tri_axis axis);
/* Whether an axis is one of the second view. */
bool tri_axis_is_folded(tri_axis axis);
/* Of either view: how long an axis is, and where along it the rank at `place` stands. */
int tri_mesh_axis_size(const tri_mesh_shape *shape, tri_axis axis);
int tri_mesh_axis_at(const tri_mesh_shape *shape, const tri_mesh_coordinates *place, tri_axis axis);

/* The ranks of a pipeline stage, and the number among them of the one at `place`. */
int tri_mesh_stage_ranks(const tri_mesh_shape *shape);
int tri_mesh_stage_rank(const tri_mesh_shape *shape, const tri_mesh_coordinates *place);

int tri_mesh_num_ranks(const tri_mesh_shape *shape);
tri_mesh_coordinates tri_mesh_coordinates_of(const tri_mesh_shape *shape, int rank);
int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_coordinates *place);
/* "tensor 1, data 0, pipeline 3": the axes longer than 1; "the only rank" if none is longer. */
const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size);

#endif
