/* The messages between the nodes of a group in one round of a collective: partial sums of a part go to the part's rank,
 * and the complete values come back from it. Messages of one kind between two ranks are matched by their order, which
 * is the order of the group's requests and of their rounds. */
#include "comm/internal.h"
#include "mesh/parts.h"

enum { TAG_SUMS = 1, TAG_VALUES = 2 };

int64_t tri_request_round(const tri_request *request, int64_t part, int64_t round, int64_t *begin) {
  int64_t size = request->group->size;
  const int64_t *begins = request->begins;
  int64_t first = begins != NULL ? begins[part] : tri_part_begin(request->count, size, part);
  int64_t end = begins != NULL ? begins[part + 1] : tri_part_begin(request->count, size, part + 1);
  *begin = first + round * request->round_elements;
  int64_t left = end - *begin;
  return left < 0 ? 0 : left < request->round_elements ? left : request->round_elements;
}

/* Returns the node's partial sum of a part. If the node has one rank, and values and partial sums have the same type,
 * this is the address of the values themselves. */
static const char *partial(const tri_request *request, int64_t round, int owned, int64_t begin) {
  const tri_group_impl *group = request->group;
  if (tri_exchange_sends_values(request)) return request->values + (size_t)begin * request->sum->bytes;
  return group->send[round % 2] + (size_t)(owned - group->owned_begin[group->local]) * group->round_bytes;
}

static tri_status send_to(tri_group_impl *group, tri_moving *moving, int to, int tag, const char *data, size_t bytes) {
  TRI_MPI(group->name,
          MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, group->exchange, &moving->requests[moving->count]));
  moving->count++;
  return TRI_OK;
}

static tri_status receive_from(tri_group_impl *group, tri_moving *moving, int from, int tag, char *data, size_t bytes) {
  TRI_MPI(group->name,
          MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, group->exchange, &moving->requests[moving->count]));
  moving->count++;
  return TRI_OK;
}

tri_status tri_exchange_sums(tri_request *request, int64_t round) {
  tri_group_impl *group = request->group;
  tri_moving *moving = &group->sums_moving;
  size_t size = request->sum->partial_bytes;
  int64_t begin;
  size_t bytes = size * (size_t)tri_request_round(request, group->rank, round, &begin);
  for (int node = 0; node < group->num_nodes && bytes > 0; node++) {
    if (node == group->node) continue;
    char *to = group->receive + (size_t)node * group->round_bytes;
    TRI_TRY(receive_from(group, moving, group->peers[node], TAG_SUMS, to, bytes));
  }
  for (int i = group->owned_begin[group->local]; i < group->owned_begin[group->local + 1]; i++) {
    int part = group->owned_parts[i];
    bytes = size * (size_t)tri_request_round(request, part, round, &begin);
    if (part == group->rank || bytes == 0) continue;
    TRI_TRY(send_to(group, moving, part, TAG_SUMS, partial(request, round, i, begin), bytes));
  }
  return TRI_OK;
}

void tri_exchange_add(tri_request *request, int64_t round) {
  tri_group_impl *group = request->group;
  int64_t begin;
  int64_t length = tri_request_round(request, group->rank, round, &begin);
  int own = group->owned_begin[group->local];
  while (group->owned_parts[own] != group->rank) own++;
  const char *mine = partial(request, round, own, begin);
  for (int node = 0; node < group->num_nodes; node++) {
    group->terms[node] = node == group->node ? mine : group->receive + (size_t)node * group->round_bytes;
  }
  char *to = request->values + (size_t)begin * request->sum->bytes;
  if (length > 0) request->sum->partials(group->num_nodes, group->terms, length, to);
}

tri_status tri_exchange_values(tri_request *request, int64_t round) {
  tri_group_impl *group = request->group;
  tri_moving *moving = &group->values_moving[round % 2];
  size_t size = request->sum->bytes;
  int64_t begin;
  for (int i = group->owned_begin[group->local]; i < group->owned_begin[group->local + 1]; i++) {
    int part = group->owned_parts[i];
    size_t bytes = size * (size_t)tri_request_round(request, part, round, &begin);
    if (part == group->rank || bytes == 0) continue;
    TRI_TRY(receive_from(group, moving, part, TAG_VALUES, request->values + (size_t)begin * size, bytes));
  }
  size_t bytes = size * (size_t)tri_request_round(request, group->rank, round, &begin);
  for (int i = 1; i < group->num_nodes && bytes > 0; i++) {
    int node = (group->node + i) % group->num_nodes; /* spreads the ranks' messages over the nodes */
    TRI_TRY(send_to(group, moving, group->peers[node], TAG_VALUES, request->values + (size_t)begin * size, bytes));
  }
  return TRI_OK;
}

/* Each MPI_Test makes progress on all messages, so the loop stops at the first one that is not finished. */
tri_status tri_exchange_arrived(tri_group_impl *group, tri_moving *moving, bool *arrived) {
  int through = 1;
  while (moving->count > 0 && through) {
    TRI_MPI(group->name, MPI_Test(&moving->requests[moving->count - 1], &through, MPI_STATUS_IGNORE));
    if (through) moving->count--;
  }
  *arrived = moving->count == 0;
  return TRI_OK;
}
