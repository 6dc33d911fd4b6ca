#include "base/domain.h"

const char *tri_domain_name(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH: return "data";
    case TRI_DOMAIN_REPLICAS: return "replicas";
    case TRI_DOMAIN_LOSS: return "loss";
    case TRI_DOMAIN_TENSOR: return "tensor";
    case TRI_DOMAIN_CONTEXT: return "context";
    case TRI_DOMAIN_PIPELINE: return "pipeline";
  }
  return "?";
}

bool tri_domain_has(tri_domain domain, tri_axis axis) {
  switch (domain) {
    case TRI_DOMAIN_BATCH: return axis == TRI_AXIS_DATA;
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS: return axis == TRI_AXIS_DATA || axis == TRI_AXIS_CONTEXT;
    case TRI_DOMAIN_TENSOR: return axis == TRI_AXIS_TENSOR;
    case TRI_DOMAIN_CONTEXT: return axis == TRI_AXIS_CONTEXT;
    case TRI_DOMAIN_PIPELINE: return axis == TRI_AXIS_PIPELINE;
  }
  return false;
}

tri_axis tri_domain_axis(tri_domain domain) {
  int axis = TRI_NUM_AXES - 1;
  while (axis > 0 && !tri_domain_has(domain, (tri_axis)axis)) axis--;
  return (tri_axis)axis;
}

bool tri_domain_shares_group(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH:
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS: return true;
    case TRI_DOMAIN_TENSOR:
    case TRI_DOMAIN_CONTEXT:
    case TRI_DOMAIN_PIPELINE: return false;
  }
  return false;
}

int tri_domain_size(const tri_mesh_shape *shape, tri_domain domain) {
  int size = 1;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (tri_domain_has(domain, (tri_axis)axis)) size *= shape->size[axis];
  }
  return size;
}

int tri_domain_rank(const tri_mesh_shape *shape, const tri_mesh_place *place, tri_domain domain) {
  int rank = 0;
  for (int axis = TRI_NUM_AXES; axis-- > 0;) {
    if (tri_domain_has(domain, (tri_axis)axis)) rank = rank * shape->size[axis] + place->at[axis];
  }
  return rank;
}

tri_mesh_place tri_domain_place(const tri_mesh_shape *shape, const tri_mesh_place *place, tri_domain domain, int rank) {
  tri_mesh_place at = *place;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (!tri_domain_has(domain, (tri_axis)axis)) continue;
    at.at[axis] = rank % shape->size[axis];
    rank /= shape->size[axis];
  }
  return at;
}
