#include "comm/agreement.h"

#include "base/memory.h"

#include <xxhash.h>

tri_status tri_first_rank_status(const tri_group *group, tri_status status) {
  int32_t code = (int32_t)status;
  if (group->size == 1) return status;
  TRI_TRY(tri_broadcast(group, 0, sizeof code, &code));
  if (group->rank == 0 || code == (int32_t)TRI_OK) return status;
  return tri_fail((tri_status)code, "%s", "");
}

/* COLLECTIVE. Finds the lowest rank that failed, and its status. *rank is -1 if no rank failed. */
static tri_status find_failed(const tri_group *group, tri_status status, int *rank, tri_status *code) {
  int32_t own = (int32_t)status, *all = NULL;
  TRI_TRY(tri_alloc("statuses", (size_t)group->size, sizeof *all, &all));
  tri_status gathered = tri_gather_bytes(group, sizeof own, &own, all);
  int failed = 0;
  while (gathered == TRI_OK && failed < group->size && all[failed] == (int32_t)TRI_OK) failed++;
  *rank = failed == group->size ? -1 : failed;
  *code = *rank < 0 || gathered != TRI_OK ? TRI_OK : (tri_status)all[failed];
  tri_free(all);
  return gathered;
}

tri_status tri_common_status(const tri_group *group, tri_status status) {
  int failed;
  tri_status code;
  if (group->size == 1) return status;
  TRI_TRY(find_failed(group, status, &failed, &code));
  if (failed < 0 || failed == group->rank) return code;
  return tri_fail(code, "%s", "");
}

tri_status tri_common_failure(const tri_group *group, tri_status status) {
  tri_saved_error kept = {0};
  int failed;
  tri_status code;
  if (group->size == 1) return status;
  tri_error_save(&kept, status);
  TRI_TRY(find_failed(group, status, &failed, &code));
  if (failed < 0) return TRI_OK;
  TRI_TRY(tri_broadcast(group, failed, sizeof kept.message, kept.message));
  return tri_fail(code, "%s", kept.message);
}

tri_status tri_must_agree(const tri_group *group, const char *what, const char *text, size_t length) {
  uint64_t own = XXH3_64bits(text, length); /* the hash detects accidental differences, not forged ones */
  uint64_t *all = NULL;
  int differs = -1;
  if (group->size == 1) return TRI_OK;
  TRI_TRY(tri_alloc("hashes", (size_t)group->size, sizeof *all, &all));
  tri_status status = tri_gather_bytes(group, sizeof own, &own, all);
  for (int r = group->size - 1; r > 0 && status == TRI_OK; r--) {
    if (all[r] != all[0]) differs = r;
  }
  tri_free(all);
  TRI_TRY(status);
  if (differs < 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "rank %d was started with another %s than rank 0; all ranks of a job need the same one; check that "
                  "all nodes see the same file under that name",
                  differs, what);
}
