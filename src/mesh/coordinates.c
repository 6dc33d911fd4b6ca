#include "mesh/coordinates.h"

#include <stdio.h>

const char *tri_axis_name(tri_axis axis) {
  switch (axis) {
    case TRI_AXIS_TENSOR: return "tensor";
    case TRI_AXIS_CONTEXT_INNER: return "context_inner";
    case TRI_AXIS_CONTEXT: return "context";
    case TRI_AXIS_DATA: return "data";
    case TRI_AXIS_PIPELINE: return "pipeline";
    case TRI_AXIS_EXPERT_TENSOR: return "expert_tensor";
    case TRI_AXIS_EXPERT: return "expert";
    case TRI_AXIS_EXPERT_DATA: return "expert_data";
  }
  return "?";
}

bool tri_axis_is_folded(tri_axis axis) { return (int)axis >= TRI_NUM_MESH_AXES; }

static int at_least_1(int size) { return size < 1 ? 1 : size; }

int tri_mesh_axis_size(const tri_mesh_shape *shape, tri_axis axis) {
  const int tensor = at_least_1(shape->expert_tensor), expert = at_least_1(shape->expert);
  switch (axis) {
    case TRI_AXIS_TENSOR:
    case TRI_AXIS_CONTEXT_INNER:
    case TRI_AXIS_CONTEXT:
    case TRI_AXIS_DATA:
    case TRI_AXIS_PIPELINE: return shape->size[axis];
    case TRI_AXIS_EXPERT_TENSOR: return tensor;
    case TRI_AXIS_EXPERT: return expert;
    case TRI_AXIS_EXPERT_DATA: return at_least_1(tri_mesh_stage_ranks(shape) / (tensor * expert));
  }
  return 1;
}

int tri_mesh_axis_at(const tri_mesh_shape *shape, const tri_mesh_coordinates *place, tri_axis axis) {
  if (!tri_axis_is_folded(axis)) return place->at[axis];
  int rank = tri_mesh_stage_rank(shape, place);
  for (int faster = TRI_NUM_MESH_AXES; faster < (int)axis; faster++)
    rank /= tri_mesh_axis_size(shape, (tri_axis)faster);
  return rank % tri_mesh_axis_size(shape, axis);
}

/* The pipeline is the slowest axis of the mesh: all others number the ranks of a stage. */
int tri_mesh_stage_ranks(const tri_mesh_shape *shape) {
  int ranks = 1;
  for (int axis = 0; axis < TRI_AXIS_PIPELINE; axis++) ranks *= shape->size[axis];
  return ranks;
}

int tri_mesh_stage_rank(const tri_mesh_shape *shape, const tri_mesh_coordinates *place) {
  int rank = 0;
  for (int axis = TRI_AXIS_PIPELINE; axis-- > 0;) rank = rank * shape->size[axis] + place->at[axis];
  return rank;
}

tri_mesh_position tri_mesh_position_alone(void) {
  tri_mesh_position position = {0};
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) position.shape.size[axis] = 1;
  return position;
}

tri_mesh_position tri_mesh_position_along(tri_axis axis, int64_t ranks) {
  tri_mesh_position position = tri_mesh_position_alone();
  position.shape.size[axis] = (int)ranks;
  return position;
}

int tri_mesh_num_ranks(const tri_mesh_shape *shape) {
  int ranks = 1;
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) ranks *= shape->size[axis];
  return ranks;
}

tri_mesh_coordinates tri_mesh_coordinates_of(const tri_mesh_shape *shape, int rank) {
  tri_mesh_coordinates place;
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) {
    place.at[axis] = rank % shape->size[axis];
    rank /= shape->size[axis];
  }
  return place;
}

int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_coordinates *place) {
  int rank = 0;
  for (int axis = TRI_NUM_MESH_AXES; axis-- > 0;) rank = rank * shape->size[axis] + place->at[axis];
  return rank;
}

const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size) {
  tri_mesh_coordinates place = tri_mesh_coordinates_of(shape, rank);
  snprintf(text, size, "%s", tri_mesh_num_ranks(shape) == 1 ? "the only rank" : "");
  size_t held = 0;
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) {
    if (shape->size[axis] == 1 || held >= size) continue;
    int wrote = snprintf(text + held, size - held, "%s%s %d", held > 0 ? ", " : "", tri_axis_name((tri_axis)axis),
                         place.at[axis]);
    held += wrote > 0 ? (size_t)wrote : 0;
  }
  return text;
}
