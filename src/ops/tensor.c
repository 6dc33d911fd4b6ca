/* Tensor parallelism in a list: the ranges of a rank, and the collectives (mesh_collectives.c) at the beginning and end
 * of each part that is split over tensor ranks. A list for one tensor rank has no collectives. */
#include "mesh/parts.h"
#include "ops/ops.h"

void tri_op_share_of(const tri_op_list *list, int64_t length, int64_t *first, int64_t *count) {
  tri_part_of(length, tri_op_list_ranks(list, TRI_DOMAIN_TENSOR), tri_op_list_rank(list, TRI_DOMAIN_TENSOR), first,
              count);
}

int64_t tri_op_share(const tri_op_list *list, int64_t length) {
  int64_t first = 0, count = 0;
  tri_op_share_of(list, length, &first, &count);
  return count;
}

tri_heads tri_op_share_heads(const tri_op_list *list, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  int64_t kv = kv_heads < tri_op_list_ranks(list, TRI_DOMAIN_TENSOR) ? 1 : tri_op_share(list, kv_heads);
  return (tri_heads){tri_op_share(list, heads), kv, head_dim};
}

tri_status tri_op_enter_tensor(tri_op_list *list, int32_t x, int32_t *out) {
  *out = x;
  if (tri_op_list_ranks(list, TRI_DOMAIN_TENSOR) == 1) return TRI_OK;
  return tri_op_mesh_collective(list, list->shard.sequence_parallel ? &tri_gather_sequence : &tri_copy_to_tensor, x,
                                out);
}

tri_status tri_op_leave_tensor(tri_op_list *list, int32_t x, int32_t *out) {
  *out = x;
  if (tri_op_list_ranks(list, TRI_DOMAIN_TENSOR) == 1) return TRI_OK;
  return tri_op_mesh_collective(list, list->shard.sequence_parallel ? &tri_scatter_sequence : &tri_reduce_from_tensor,
                                x, out);
}
