/* The window that the ranks of a group share on a node: flags, notes and staging buffers. */
#include "comm/internal.h"

#include <stdint.h>
#include <string.h>

static void find_staging(tri_group_impl *group, int local, char *base) {
  uintptr_t alignment = _Alignof(tri_flag);
  char *begin = base + (alignment - (uintptr_t)base % alignment) % alignment;
  group->staging[local].flag = (tri_flag *)begin;
  group->staging[local].buffers[0] = begin + sizeof(tri_flag);
  group->staging[local].buffers[1] = group->staging[local].buffers[0] + group->buffer_bytes;
}

static tri_status not_given(const tri_group_impl *group, size_t bytes, int code) {
  char reason[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, reason, &length);
  return tri_comm_lost(
      "%s: no %zu KiB of memory that the %d ranks on this node share (%s); enlarge /dev/shm (for a "
      "container --shm-size=1g), or set TRIREME_RANKS_PER_NODE=1 to do without, more slowly",
      group->name, bytes / 1024, group->num_local, reason);
}

static tri_status allocate(tri_group_impl *group, size_t bytes, void *base) {
  MPI_Info info;
  TRI_MPI(group->name, MPI_Info_create(&info));
  TRI_MPI(group->name,
          MPI_Info_set(info, "alloc_shared_noncontig", "true")); /* each rank's part begins on its own page */
  int code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, group->node_comm, base, &group->window);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS) return not_given(group, bytes, code);
  TRI_MPI(group->name, MPI_Win_set_errhandler(group->window, MPI_ERRORS_RETURN));
  TRI_MPI(group->name, MPI_Win_lock_all(MPI_MODE_NOCHECK, group->window));
  return TRI_OK;
}

/* Returns the bytes of this rank's part of the window. The size of the second flag is room to align the first. */
size_t tri_window_bytes(const tri_group_impl *group) { return 2 * sizeof(tri_flag) + 2 * group->buffer_bytes; }

tri_status tri_window_create(tri_group_impl *group) {
  if (group->num_local == 1) return TRI_OK;
  size_t bytes = tri_window_bytes(group);
  void *base = NULL;
  TRI_TRY(allocate(group, bytes, &base));
  memset(base, 0, bytes); /* allocates the pages now: a shortage shows at once, and they are on this core's NUMA node */
  for (int l = 0; l < group->num_local; l++) {
    MPI_Aint size;
    int unit;
    void *theirs = NULL;
    TRI_MPI(group->name, MPI_Win_shared_query(group->window, l, &size, &unit, (void *)&theirs));
    find_staging(group, l, theirs);
  }
  TRI_MPI(group->name, MPI_Win_sync(group->window));
  TRI_MPI(group->name, MPI_Barrier(group->node_comm));
  TRI_MPI(group->name, MPI_Win_sync(group->window));
  return TRI_OK;
}

void tri_window_destroy(tri_group_impl *group) {
  if (group->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(group->window);
  MPI_Win_free(&group->window);
}
