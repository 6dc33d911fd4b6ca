#include "base/place.h"

#include <stdio.h>

const char *tri_axis_name(tri_axis axis) {
  switch (axis) {
    case TRI_AXIS_TENSOR: return "tensor";
    case TRI_AXIS_CONTEXT: return "context";
    case TRI_AXIS_DATA: return "data";
    case TRI_AXIS_PIPELINE: return "pipeline";
  }
  return "?";
}

tri_mesh_seat tri_mesh_seat_alone(void) {
  tri_mesh_seat seat = {0};
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) seat.shape.size[axis] = 1;
  return seat;
}

tri_mesh_seat tri_mesh_seat_along(tri_axis axis, int64_t ranks) {
  tri_mesh_seat seat = tri_mesh_seat_alone();
  seat.shape.size[axis] = (int)ranks;
  return seat;
}

int tri_mesh_num_ranks(const tri_mesh_shape *shape) {
  int ranks = 1;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) ranks *= shape->size[axis];
  return ranks;
}

tri_mesh_place tri_mesh_place_of(const tri_mesh_shape *shape, int rank) {
  tri_mesh_place place;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    place.at[axis] = rank % shape->size[axis];
    rank /= shape->size[axis];
  }
  return place;
}

int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_place *place) {
  int rank = 0;
  for (int axis = TRI_NUM_AXES; axis-- > 0;) rank = rank * shape->size[axis] + place->at[axis];
  return rank;
}

const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size) {
  tri_mesh_place place = tri_mesh_place_of(shape, rank);
  snprintf(text, size, "%s", tri_mesh_num_ranks(shape) == 1 ? "the only rank" : "");
  size_t held = 0;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (shape->size[axis] == 1 || held >= size) continue;
    int wrote = snprintf(text + held, size - held, "%s%s %d", held > 0 ? ", " : "", tri_axis_name((tri_axis)axis),
                         place.at[axis]);
    held += wrote > 0 ? (size_t)wrote : 0;
  }
  return text;
}
