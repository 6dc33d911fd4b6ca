#include "comm/mesh.h"

#include <stdio.h>

const char *tri_axis_name(tri_axis axis) {
  static const char *const names[] = {"tensor", "context", "data", "pipeline"};
  return names[axis];
}

int tri_mesh_num_ranks(const tri_mesh_shape *shape) {
  int product = 1;
  for (int a = 0; a < TRI_NUM_AXES; a++) product *= shape->size[a];
  return product;
}

tri_mesh_place tri_mesh_place_of(const tri_mesh_shape *shape, int rank) {
  tri_mesh_place place;
  for (int a = 0; a < TRI_NUM_AXES; a++) {
    place.at[a] = rank % shape->size[a];
    rank /= shape->size[a];
  }
  return place;
}

int tri_mesh_rank_of(const tri_mesh_shape *shape, const tri_mesh_place *place) {
  int rank = 0;
  for (int a = TRI_NUM_AXES - 1; a >= 0; a--) rank = rank * shape->size[a] + place->at[a];
  return rank;
}

const char *tri_mesh_describe(const tri_mesh_shape *shape, int rank, char *text, size_t size) {
  tri_mesh_place place = tri_mesh_place_of(shape, rank);
  size_t used = 0;
  text[0] = '\0';
  for (int a = 0; a < TRI_NUM_AXES; a++) {
    if (shape->size[a] == 1 || used >= size) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s %d", used == 0 ? "" : ", ", tri_axis_name((tri_axis)a),
                             place.at[a]);
  }
  if (used == 0) snprintf(text, size, "the only rank");
  return text;
}

/* Ranks that differ along one axis only have equal numbers once that coordinate is 0. */
static tri_status split_axis(tri_mesh *mesh, tri_axis axis) {
  tri_mesh_place origin = mesh->place;
  origin.at[axis] = 0;
  return tri_group_split(&mesh->world, tri_axis_name(axis), tri_mesh_rank_of(&mesh->shape, &origin),
                         mesh->place.at[axis], &mesh->groups[axis]);
}

static tri_status split_tied(tri_mesh *mesh) {
  int stages = mesh->shape.size[TRI_AXIS_PIPELINE], stage = mesh->place.at[TRI_AXIS_PIPELINE];
  bool member = stage == 0 || stage == stages - 1;
  tri_mesh_place origin = mesh->place;
  origin.at[TRI_AXIS_PIPELINE] = 0;
  int color = member ? tri_mesh_rank_of(&mesh->shape, &origin) : mesh->world.size + mesh->world.rank;
  return tri_group_split(&mesh->world, "tied", color, stage, &mesh->tied);
}

tri_status tri_mesh_create(const tri_mesh_shape *shape, tri_mesh *out) {
  tri_mesh mesh = tri_mesh_alone();
  mesh.shape = *shape;
  mesh.world = tri_group_world();
  if (tri_mesh_num_ranks(shape) != mesh.world.size) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "a mesh of tensor %d x context %d x data %d x pipeline %d needs %d ranks, and the job "
                    "has %d",
                    shape->size[0], shape->size[1], shape->size[2], shape->size[3], tri_mesh_num_ranks(shape),
                    mesh.world.size);
  }
  mesh.place = tri_mesh_place_of(shape, mesh.world.rank);
  for (int a = 0; a < TRI_NUM_AXES; a++) TRI_TRY(split_axis(&mesh, (tri_axis)a));
  TRI_TRY(split_tied(&mesh));
  *out = mesh;
  return TRI_OK;
}

tri_mesh tri_mesh_alone(void) {
  tri_mesh mesh = {.shape = {{1, 1, 1, 1}}, .world = tri_group_alone("world"), .tied = tri_group_alone("tied")};
  for (int a = 0; a < TRI_NUM_AXES; a++) mesh.groups[a] = tri_group_alone(tri_axis_name((tri_axis)a));
  return mesh;
}

void tri_mesh_destroy(tri_mesh *mesh) {
  tri_group_destroy(&mesh->tied);
  for (int a = 0; a < TRI_NUM_AXES; a++) tri_group_destroy(&mesh->groups[a]);
}
