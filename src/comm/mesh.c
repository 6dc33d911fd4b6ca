#include "comm/mesh.h"

#include <stdio.h>
#include <string.h>

tri_mesh tri_mesh_alone(void) {
  tri_mesh mesh = {.world = tri_group_alone("world"), .tied = tri_group_alone("tied")};
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    mesh.shape.size[axis] = 1;
    mesh.groups[axis] = tri_group_alone(tri_axis_name((tri_axis)axis));
  }
  return mesh;
}

/* A product that does not fit, or overflows, in words: "tensor 2 x context 1 x data 3 x pipeline 2". */
static tri_status check_shape(const tri_mesh_shape *shape, int ranks) {
  const int *n = shape->size;
  int64_t places = 1;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (n[axis] < 1) {
      return tri_fail(TRI_BAD_LAYOUT, "layout.%s is %d; it is at least 1", tri_axis_name((tri_axis)axis), n[axis]);
    }
    if (places <= INT32_MAX) places *= n[axis];
  }
  if (places == ranks) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "tensor %d x context %d x data %d x pipeline %d are %s%lld ranks, but the job has %d; change one of "
                  "layout.tensor, layout.context, layout.data and layout.pipeline, or the number of ranks",
                  n[TRI_AXIS_TENSOR], n[TRI_AXIS_CONTEXT], n[TRI_AXIS_DATA], n[TRI_AXIS_PIPELINE],
                  places > INT32_MAX ? "over " : "", (long long)(places > INT32_MAX ? INT32_MAX : places), ranks);
}

/* Ranks that differ along one axis only have one number when their place along it is set to 0: their color. */
static int color_along(const tri_mesh *mesh, tri_axis axis) {
  tri_mesh_place origin = mesh->place;
  origin.at[axis] = 0;
  return tri_mesh_rank_of(&mesh->shape, &origin);
}

static tri_status split_tied(tri_mesh *mesh) {
  int stages = mesh->shape.size[TRI_AXIS_PIPELINE];
  int stage = mesh->place.at[TRI_AXIS_PIPELINE];
  bool end = stage == 0 || stage == stages - 1;
  /* Those between are alone, each in a color of its own beyond those of the others. */
  int color = end ? 0 : 1 + stage;
  return tri_group_split(&mesh->groups[TRI_AXIS_PIPELINE], "tied", color, stage, &mesh->tied);
}

tri_status tri_mesh_create(const tri_mesh_shape *shape, tri_mesh *out) {
  tri_status status;
  TRI_TRY(check_shape(shape, tri_comm_size()));
  tri_mesh mesh = tri_mesh_alone();
  mesh.shape = *shape;
  mesh.place = tri_mesh_place_of(shape, tri_comm_rank());
  mesh.world = tri_group_world();
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (shape->size[axis] == 1) continue;
    TRI_TRY_GOTO(tri_group_split(&mesh.world, tri_axis_name((tri_axis)axis), color_along(&mesh, (tri_axis)axis),
                                 mesh.place.at[axis], &mesh.groups[axis]),
                 destroy_mesh);
  }
  TRI_TRY_GOTO(split_tied(&mesh), destroy_mesh);
  *out = mesh;
  return TRI_OK;
destroy_mesh:
  tri_mesh_destroy(&mesh);
  return status;
}

void tri_mesh_destroy(tri_mesh *mesh) {
  tri_group_destroy(&mesh->tied);
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) tri_group_destroy(&mesh->groups[axis]);
  tri_group_destroy(&mesh->world);
}

static bool is_tied(const tri_mesh *mesh, const char *group) { return strcmp(mesh->tied.name, group) == 0; }

int tri_mesh_axis_of(const tri_mesh *mesh, const char *group) {
  int axis = 0;
  while (axis < TRI_NUM_AXES && strcmp(mesh->groups[axis].name, group) != 0) axis++;
  return is_tied(mesh, group) ? TRI_AXIS_PIPELINE : axis;
}

int tri_mesh_world_rank(const tri_mesh *mesh, const char *group, int at) {
  int axis = tri_mesh_axis_of(mesh, group);
  if (axis == TRI_NUM_AXES) return at;
  tri_mesh_place place = mesh->place;
  place.at[axis] = is_tied(mesh, group) && at > 0 ? mesh->shape.size[axis] - 1 : at;
  return tri_mesh_rank_of(&mesh->shape, &place);
}
