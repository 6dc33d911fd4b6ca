#include "comm/mesh.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

tri_mesh tri_mesh_alone(void) {
  tri_mesh mesh = {.world = tri_group_alone("world"), .tied = tri_group_alone("tied")};
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) mesh.shape.size[axis] = 1;
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    mesh.groups[d] = tri_group_alone(tri_domain_name((tri_domain)d));
    mesh.group_of[d] = (tri_domain)d;
  }
  return mesh;
}

/* Checks that expert_tensor x expert divides the number of ranks of a stage, so that its expert mesh has as many ranks
 * as its dense mesh. */
static tri_status check_folding(const tri_mesh_shape *shape) {
  int ranks = tri_mesh_stage_ranks(shape);
  int64_t tensor = tri_mesh_axis_size(shape, TRI_AXIS_EXPERT_TENSOR);
  int64_t expert = tri_mesh_axis_size(shape, TRI_AXIS_EXPERT);
  if (ranks % (tensor * expert) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_LAYOUT,
                  "layout.expert_tensor %lld x layout.expert %lld do not divide the %d ranks of a stage; change one of "
                  "them",
                  (long long)tensor, (long long)expert, ranks);
}

/* Checks that each size is at least 1, and that their product is the number of ranks and does not overflow. The message
 * spells out the product: "tensor 2 x context 1 x data 3 x pipeline 2". */
static tri_status check_shape(const tri_mesh_shape *shape, int ranks) {
  const int *n = shape->size;
  int64_t places = 1;
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) {
    if (n[axis] < 1) {
      return tri_fail(TRI_BAD_LAYOUT, "layout.%s is %d; it is at least 1", tri_axis_name((tri_axis)axis), n[axis]);
    }
    if (places <= INT32_MAX) places *= n[axis];
  }
  if (places == ranks) return check_folding(shape);
  return tri_fail(TRI_BAD_LAYOUT,
                  "tensor %d x context %d x data %d x pipeline %d are %s%lld ranks, but the job has %d; change one of "
                  "layout.tensor, layout.context, layout.data and layout.pipeline, or the number of ranks",
                  n[TRI_AXIS_TENSOR], n[TRI_AXIS_CONTEXT_INNER] * n[TRI_AXIS_CONTEXT], n[TRI_AXIS_DATA],
                  n[TRI_AXIS_PIPELINE], places > INT32_MAX ? "over " : "",
                  (long long)(places > INT32_MAX ? INT32_MAX : places), ranks);
}

/* Returns the first domain with the same ranks whose group the domain may use. A domain of one rank has its own group,
 * which costs nothing and has the domain's name. */
static tri_domain find_group(const tri_mesh_shape *shape, tri_domain domain) {
  if (tri_domain_size(shape, domain) == 1) return domain;
  int first = 0;
  while (!tri_domain_may_share((tri_domain)first, domain) || !tri_domains_are_same(shape, (tri_domain)first, domain)) {
    first++;
  }
  return (tri_domain)first;
}

static bool needs_group(const tri_mesh_shape *shape, tri_domain domain) {
  if (tri_domain_size(shape, domain) == 1 || !tri_domain_has_group(domain)) return false;
  return shape->expert > 0 || !tri_domain_is_of_experts(domain);
}

/* COLLECTIVE over the mesh. Creates the group of a domain, unless the domain needs no group or uses that of another
 * domain. The color of a rank is its number with the coordinates along the domain's axes set to 0: equal for the
 * ranks of one group. */
static tri_status split_domain(tri_mesh *mesh, tri_domain domain) {
  mesh->group_of[domain] = find_group(&mesh->shape, domain);
  if (mesh->group_of[domain] != domain || !needs_group(&mesh->shape, domain)) return TRI_OK;
  tri_mesh_coordinates origin = tri_domain_coordinates(&mesh->shape, &mesh->place, domain, 0);
  return tri_group_split(&mesh->world, tri_domain_name(domain), tri_mesh_rank_of(&mesh->shape, &origin),
                         tri_domain_rank(&mesh->shape, &mesh->place, domain), &mesh->groups[domain]);
}

static tri_status split_tied(tri_mesh *mesh) {
  int stages = mesh->shape.size[TRI_AXIS_PIPELINE];
  int stage = mesh->place.at[TRI_AXIS_PIPELINE];
  bool end = stage == 0 || stage == stages - 1;
  /* Each middle stage is alone in a color that no other stage has. */
  int color = end ? 0 : 1 + stage;
  return tri_group_split(tri_mesh_group(mesh, TRI_DOMAIN_PIPELINE), "tied", color, stage, &mesh->tied);
}

tri_status tri_mesh_create(const tri_group *parent, const tri_mesh_shape *shape, tri_mesh *out) {
  tri_status status;
  TRI_TRY(check_shape(shape, parent->size));
  tri_mesh mesh = tri_mesh_alone();
  mesh.shape = *shape;
  mesh.place = tri_mesh_coordinates_of(shape, parent->rank);
  mesh.world = *parent;
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) TRI_TRY_GOTO(split_domain(&mesh, (tri_domain)d), destroy_mesh);
  TRI_TRY_GOTO(split_tied(&mesh), destroy_mesh);
  *out = mesh;
  return TRI_OK;
destroy_mesh:
  tri_mesh_destroy(&mesh);
  return status;
}

void tri_mesh_destroy(tri_mesh *mesh) {
  tri_group_destroy(&mesh->tied);
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) tri_group_destroy(&mesh->groups[d]);
  mesh->world = tri_group_alone(mesh->world.name);
}

const tri_group *tri_mesh_group(const tri_mesh *mesh, tri_domain domain) {
  const tri_domain has = mesh->group_of[domain];
  assert(needs_group(&mesh->shape, has) || tri_domain_size(&mesh->shape, has) == 1);
  return &mesh->groups[has];
}

static bool is_tied(const tri_mesh *mesh, const char *group) { return strcmp(mesh->tied.name, group) == 0; }

int tri_mesh_domain_of(const tri_mesh *mesh, const char *group) {
  int domain = 0;
  while (domain < TRI_NUM_DOMAINS && strcmp(mesh->groups[domain].name, group) != 0) domain++;
  return is_tied(mesh, group) ? TRI_DOMAIN_PIPELINE : domain;
}

int tri_mesh_group_size(const tri_mesh *mesh, const char *group) {
  int domain = tri_mesh_domain_of(mesh, group);
  if (is_tied(mesh, group)) return mesh->shape.size[TRI_AXIS_PIPELINE] > 1 ? 2 : 1;
  return domain == TRI_NUM_DOMAINS ? mesh->world.size : tri_domain_size(&mesh->shape, (tri_domain)domain);
}

int tri_mesh_world_rank(const tri_mesh *mesh, const char *group, int at) {
  int domain = tri_mesh_domain_of(mesh, group);
  if (domain == TRI_NUM_DOMAINS) return at;
  if (is_tied(mesh, group) && at > 0) at = mesh->shape.size[TRI_AXIS_PIPELINE] - 1;
  tri_mesh_coordinates place = tri_domain_coordinates(&mesh->shape, &mesh->place, (tri_domain)domain, at);
  return tri_mesh_rank_of(&mesh->shape, &place);
}
