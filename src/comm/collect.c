#include "comm/collect.h"

#include "base/memory.h"
#include "comm/agreement.h"

#include <string.h>

/* Allocates, on rank 0, memory for parts of the given sizes, and sets out->begins. */
static tri_status make_room(int ranks, const int64_t *sizes, tri_collected *out) {
  TRI_TRY(tri_alloc("memory of all ranks", (size_t)ranks + 1, sizeof *out->begins, &out->begins));
  for (int r = 0; r < ranks; r++) out->begins[r + 1] = out->begins[r] + sizes[r];
  return tri_alloc("memory of all ranks", (size_t)out->begins[ranks], 1, &out->all);
}

static tri_status send(const tri_group *group, int tag, int64_t bytes, const void *mine) {
  tri_request *request = NULL;
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_send_start(group, 0, tag, (size_t)bytes, mine, &request));
  return tri_request_wait(&request);
}

static tri_status receive(const tri_group *group, int tag, int from, const tri_collected *to) {
  const int64_t bytes = to->begins[from + 1] - to->begins[from];
  tri_request *request = NULL;
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_receive_start(group, from, tag, (size_t)bytes, (char *)to->all + to->begins[from], &request));
  return tri_request_wait(&request);
}

/* COLLECTIVE. Makes room on rank 0 for the parts of all ranks. */
static tri_status agree_on_room(const tri_group *group, int64_t bytes, tri_collected *out) {
  int64_t *sizes = NULL;
  TRI_TRY(tri_common_status(group, tri_alloc("sizes", (size_t)group->size, sizeof *sizes, &sizes)));
  tri_status status = tri_gather_bytes(group, sizeof bytes, &bytes, sizes);
  if (status == TRI_OK)
    status = tri_first_rank_status(group, group->rank == 0 ? make_room(group->size, sizes, out) : TRI_OK);
  tri_free(sizes);
  return status;
}

tri_status tri_collect(const tri_group *group, int tag, int64_t bytes, const void *mine, tri_collected *out) {
  *out = (tri_collected){NULL, NULL};
  tri_status status = agree_on_room(group, bytes, out);
  if (status == TRI_OK && group->rank > 0) status = send(group, tag, bytes, mine);
  if (status == TRI_OK && group->rank == 0 && bytes > 0) memcpy(out->all, mine, (size_t)bytes);
  for (int rank = 1; rank < group->size && status == TRI_OK && group->rank == 0; rank++)
    status = receive(group, tag, rank, out);
  if (status != TRI_OK) tri_collected_release(out);
  return status;
}

void tri_collected_release(tri_collected *collected) {
  tri_free(collected->all);
  tri_free(collected->begins);
  *collected = (tri_collected){NULL, NULL};
}
