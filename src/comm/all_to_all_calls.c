/* The public functions for all-to-alls and ring passes. */
#include "base/memory.h"
#include "comm/internal.h"

#include <string.h>

/* Allocates a request followed by its tables: the begins, and room for the largest possible number of messages. */
static tri_status make(const tri_request *description, tri_request **out) {
  const int size = description->group->size, rank = description->group->rank;
  const size_t begins = (size_t)size + 1;
  size_t messages = 0;
  tri_request *request = NULL;
  for (int r = 0; r < size; r++) {
    if (r != rank)
      messages += tri_parts_pieces(tri_parts_given_bytes(description, r)) +
                  tri_parts_pieces(tri_parts_received_bytes(description, r));
  }
  const size_t tables = 2 * begins * sizeof(int64_t) + messages * sizeof(tri_part_message);
  TRI_TRY(tri_alloc("an all_to_all", 1, sizeof *request + tables, &request));
  *request = *description;
  int64_t *copied = (int64_t *)(request + 1); /* a copy, because the caller may free its array */
  memcpy(copied, description->begins, begins * sizeof *copied);
  memcpy(copied + begins, description->to_begins, begins * sizeof *copied);
  request->begins = copied;
  request->to_begins = copied + begins;
  request->messages = (tri_part_message *)(void *)(copied + 2 * begins);
  *out = request;
  return TRI_OK;
}

static tri_status check(const tri_group *group, const tri_request *request) {
  const size_t given = tri_parts_given_bytes(request, group->rank),
               kept = tri_parts_received_bytes(request, group->rank);
  if (given == kept) return TRI_OK;
  return tri_fail_internal("%s over %s: rank %d gives %zu bytes to itself and expects %zu",
                           tri_operation_name(request->operation), group->name, group->rank, given, kept);
}

/* Makes and enqueues the request. In a group of one rank the work is done at once, and *out stays NULL. */
static tri_status enqueue(const tri_group *group, const tri_request *description, tri_request **out) {
  TRI_TRY(check(group, description));
  if (group->impl == NULL) {
    if (description->bytes > 0) memcpy(description->to, description->values, description->bytes);
    return TRI_OK;
  }
  TRI_TRY(tri_comm_check());
  TRI_TRY(make(description, out));
  tri_collective_enqueue(*out);
  return TRI_OK;
}

static tri_status start(const tri_group *group, const tri_request *description, tri_request **out) {
  tri_request *request = NULL;
  bool moved = false;
  *out = NULL;
  TRI_TRY(enqueue(group, description, &request));
  if (request != NULL) TRI_TRY(tri_collective_advance(request->group, &moved));
  *out = request;
  return TRI_OK;
}

static tri_request describe(const tri_group *group, tri_operation operation, size_t element_bytes,
                            const int64_t *from_begins, const void *from, const int64_t *to_begins, void *to) {
  return (tri_request){.group = group->impl,
                       .operation = operation,
                       .bytes = (size_t)from_begins[group->size] * element_bytes,
                       .sum = tri_sum_none(element_bytes),
                       .values = (char *)(uintptr_t)from,
                       .count = from_begins[group->size],
                       .begins = from_begins,
                       .to = to,
                       .to_begins = to_begins};
}

tri_status tri_all_to_all(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                          const int64_t *to_begins, void *to) {
  tri_request *request = NULL;
  const tri_request description =
      describe(group, TRI_ALL_TO_ALL, tri_dtype_bytes(type), from_begins, from, to_begins, to);
  TRI_TRY(enqueue(group, &description, &request));
  if (request == NULL) return TRI_OK;
  TRI_TRY(tri_comm_finish(request)); /* on failure MPI may still write to the request, so it is not freed */
  tri_free(request);
  return TRI_OK;
}

tri_status tri_all_to_all_start(const tri_group *group, tri_dtype type, const int64_t *from_begins, const void *from,
                                const int64_t *to_begins, void *to, tri_request **out) {
  tri_request description = describe(group, TRI_ALL_TO_ALL, tri_dtype_bytes(type), from_begins, from, to_begins, to);
  description.background = true;
  return start(group, &description, out);
}

tri_status tri_ring_pass_start(const tri_group *group, int to, size_t send_bytes, const void *send, int from,
                               size_t receive_bytes, void *receive, tri_request **out) {
  const int size = group->size;
  int64_t *begins = NULL;
  if (to < 0 || to >= size || from < 0 || from >= size) {
    return tri_fail_internal("pass over %s: rank %d or %d does not exist; the group has %d ranks", group->name, to,
                             from, size);
  }
  TRI_TRY(tri_alloc("a pass", 2 * ((size_t)size + 1), sizeof *begins, &begins));
  int64_t *given = begins, *got = begins + size + 1;
  for (int r = 0; r <= size; r++) {
    given[r] = r > to ? (int64_t)send_bytes : 0;
    got[r] = r > from ? (int64_t)receive_bytes : 0;
  }
  tri_request description = describe(group, TRI_RING_PASS, 1, given, send, got, receive);
  description.background = true;
  tri_status status = start(group, &description, out);
  tri_free(begins);
  return status;
}
