#include "mesh/domain.h"

const char *tri_domain_name(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH: return "data";
    case TRI_DOMAIN_REPLICAS: return "replicas";
    case TRI_DOMAIN_LOSS: return "loss";
    case TRI_DOMAIN_TENSOR: return "tensor";
    case TRI_DOMAIN_CONTEXT: return "context";
    case TRI_DOMAIN_CONTEXT_INNER: return "context_inner";
    case TRI_DOMAIN_CONTEXT_OUTER: return "context_outer";
    case TRI_DOMAIN_PIPELINE: return "pipeline";
    case TRI_DOMAIN_EXPERT: return "expert";
    case TRI_DOMAIN_EXPERT_HOLDERS: return "expert_holders";
    case TRI_DOMAIN_EXPERT_TENSOR: return "expert_tensor";
    case TRI_DOMAIN_EXPERT_REPLICAS: return "expert_replicas";
    case TRI_DOMAIN_SEQUENCE: return "sequence";
  }
  return "?";
}

bool tri_domain_has(tri_domain domain, tri_axis axis) {
  switch (domain) {
    case TRI_DOMAIN_BATCH: return axis == TRI_AXIS_DATA;
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS: return axis == TRI_AXIS_DATA || tri_domain_has(TRI_DOMAIN_CONTEXT, axis);
    case TRI_DOMAIN_TENSOR: return axis == TRI_AXIS_TENSOR;
    case TRI_DOMAIN_CONTEXT: return axis == TRI_AXIS_CONTEXT || axis == TRI_AXIS_CONTEXT_INNER;
    case TRI_DOMAIN_CONTEXT_INNER: return axis == TRI_AXIS_CONTEXT_INNER;
    case TRI_DOMAIN_CONTEXT_OUTER: return axis == TRI_AXIS_CONTEXT;
    case TRI_DOMAIN_PIPELINE: return axis == TRI_AXIS_PIPELINE;
    case TRI_DOMAIN_EXPERT: return axis == TRI_AXIS_EXPERT_TENSOR || axis == TRI_AXIS_EXPERT;
    case TRI_DOMAIN_EXPERT_HOLDERS: return axis == TRI_AXIS_EXPERT;
    case TRI_DOMAIN_EXPERT_TENSOR: return axis == TRI_AXIS_EXPERT_TENSOR;
    case TRI_DOMAIN_EXPERT_REPLICAS: return axis == TRI_AXIS_EXPERT_DATA;
    case TRI_DOMAIN_SEQUENCE: return axis == TRI_AXIS_TENSOR || tri_domain_has(TRI_DOMAIN_CONTEXT, axis);
  }
  return false;
}

bool tri_domain_is_folded(tri_domain domain) {
  int axis = 0;
  while (!tri_domain_has(domain, (tri_axis)axis)) axis++;
  return tri_axis_is_folded((tri_axis)axis);
}

tri_axis tri_domain_axis(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH:
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS:
    case TRI_DOMAIN_EXPERT_REPLICAS: return TRI_AXIS_DATA;
    case TRI_DOMAIN_TENSOR:
    case TRI_DOMAIN_SEQUENCE: return TRI_AXIS_TENSOR;
    case TRI_DOMAIN_CONTEXT:
    case TRI_DOMAIN_CONTEXT_INNER:
    case TRI_DOMAIN_CONTEXT_OUTER: return TRI_AXIS_CONTEXT;
    case TRI_DOMAIN_PIPELINE: return TRI_AXIS_PIPELINE;
    case TRI_DOMAIN_EXPERT:
    case TRI_DOMAIN_EXPERT_HOLDERS:
    case TRI_DOMAIN_EXPERT_TENSOR: return TRI_AXIS_EXPERT;
  }
  return TRI_AXIS_TENSOR;
}

bool tri_axis_is_shown(tri_axis axis) {
  int domain = 0;
  while (domain < TRI_NUM_DOMAINS && tri_domain_axis((tri_domain)domain) != axis) domain++;
  return domain < TRI_NUM_DOMAINS;
}

bool tri_domain_has_group(tri_domain domain) {
  return domain != TRI_DOMAIN_CONTEXT && domain != TRI_DOMAIN_EXPERT_HOLDERS;
}

bool tri_domain_is_of_experts(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH:
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS:
    case TRI_DOMAIN_TENSOR:
    case TRI_DOMAIN_CONTEXT:
    case TRI_DOMAIN_CONTEXT_INNER:
    case TRI_DOMAIN_CONTEXT_OUTER:
    case TRI_DOMAIN_PIPELINE: return false;
    case TRI_DOMAIN_EXPERT:
    case TRI_DOMAIN_EXPERT_HOLDERS:
    case TRI_DOMAIN_EXPERT_TENSOR:
    case TRI_DOMAIN_EXPERT_REPLICAS:
    case TRI_DOMAIN_SEQUENCE: return true;
  }
  return false;
}

/* Returns whether the communication over a domain runs in the background of layers. */
static bool is_behind_layers(tri_domain domain) {
  switch (domain) {
    case TRI_DOMAIN_BATCH:
    case TRI_DOMAIN_REPLICAS:
    case TRI_DOMAIN_LOSS:
    case TRI_DOMAIN_EXPERT_REPLICAS: return true;
    case TRI_DOMAIN_TENSOR:
    case TRI_DOMAIN_CONTEXT:
    case TRI_DOMAIN_CONTEXT_INNER:
    case TRI_DOMAIN_CONTEXT_OUTER:
    case TRI_DOMAIN_PIPELINE:
    case TRI_DOMAIN_EXPERT:
    case TRI_DOMAIN_EXPERT_HOLDERS:
    case TRI_DOMAIN_EXPERT_TENSOR:
    case TRI_DOMAIN_SEQUENCE: return false;
  }
  return false;
}

bool tri_domain_may_share(tri_domain first, tri_domain domain) {
  if (first == domain) return true;
  if (is_behind_layers(domain)) return is_behind_layers(first);
  if (domain != TRI_DOMAIN_SEQUENCE) return false;
  return first == TRI_DOMAIN_TENSOR || first == TRI_DOMAIN_CONTEXT_INNER || first == TRI_DOMAIN_CONTEXT_OUTER;
}

/* Returns the distance of two neighbours along an axis in the order of the mesh. */
static int stride_of(const tri_mesh_shape *shape, int axis) {
  int stride = 1;
  for (int faster = tri_axis_is_folded((tri_axis)axis) ? TRI_NUM_MESH_AXES : 0; faster < axis; faster++) {
    stride *= tri_mesh_axis_size(shape, (tri_axis)faster);
  }
  return stride;
}

/* Returns the distance of a rank from the first rank of its domain in the order of the mesh. */
static int distance_of(const tri_mesh_shape *shape, tri_domain domain, int rank) {
  int distance = 0;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (!tri_domain_has(domain, (tri_axis)axis)) continue;
    int size = tri_mesh_axis_size(shape, (tri_axis)axis);
    distance += rank % size * stride_of(shape, axis);
    rank /= size;
  }
  return distance;
}

/* Compares the distances of ranks from the first rank of their domain. All domains of a kind have the same distances,
 * which grow with the rank's number in the domain. So the distances determine all domains of the kind: rank 0 begins
 * the first one, and the lowest rank that is in no earlier domain begins the next one. */
bool tri_domains_are_same(const tri_mesh_shape *shape, tri_domain a, tri_domain b) {
  int size = tri_domain_size(shape, a);
  if (size != tri_domain_size(shape, b)) return false;
  for (int rank = 1; rank < size; rank++) {
    if (distance_of(shape, a, rank) != distance_of(shape, b, rank)) return false;
  }
  return true;
}

int tri_domain_size(const tri_mesh_shape *shape, tri_domain domain) {
  int size = 1;
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    if (tri_domain_has(domain, (tri_axis)axis)) size *= tri_mesh_axis_size(shape, (tri_axis)axis);
  }
  return size;
}

int tri_domain_rank(const tri_mesh_shape *shape, const tri_mesh_coordinates *place, tri_domain domain) {
  int rank = 0;
  for (int axis = TRI_NUM_AXES; axis-- > 0;) {
    if (!tri_domain_has(domain, (tri_axis)axis)) continue;
    rank = rank * tri_mesh_axis_size(shape, (tri_axis)axis) + tri_mesh_axis_at(shape, place, (tri_axis)axis);
  }
  return rank;
}

tri_mesh_coordinates tri_domain_coordinates(const tri_mesh_shape *shape, const tri_mesh_coordinates *place,
                                            tri_domain domain, int rank) {
  tri_mesh_coordinates first = *place;
  int own = tri_domain_rank(shape, place, domain);
  if (own == rank) return first;
  int there = tri_mesh_rank_of(shape, place) + distance_of(shape, domain, rank) - distance_of(shape, domain, own);
  return tri_mesh_coordinates_of(shape, there);
}
