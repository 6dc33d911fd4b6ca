#include "checkpoint/candidates.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns the candidate after `after` (NULL: the first one). The order is from the highest step down; of equal steps,
 * the final folder comes before one that was being replaced. */
static const tri_folder *next_candidate(const tri_folder *list, int64_t count, const tri_folder *after) {
  const tri_folder *best = NULL;
  for (int64_t i = 0; i < count; i++) {
    const tri_folder *folder = &list[i];
    if (folder->kind == TRI_FOLDER_TEMPORARY) continue;
    /* `list` is sorted by kind first, which is the right order of equal steps. */
    if (after != NULL && (folder->step > after->step || (folder->step == after->step && folder <= after))) continue;
    if (best == NULL || folder->step > best->step) best = folder;
  }
  return best;
}

/* The next candidate, which the first rank finds and sends to the others. */
typedef struct candidate {
  char name[64];       /* name of the folder below the root; "": there are no more candidates */
  bool old, disproved; /* old: whether it is an old folder; if that is damaged, it is the rest of a removal, and is
                          skipped without a message. disproved: whether it has the mark TRI_FILE_DISPROVED */
} candidate;

static tri_status disproved(void) {
  return tri_fail(TRI_BAD_FILE,
                  "every step that followed it was bad, until the run gave up (it is marked " TRI_FILE_DISPROVED
                  "); to use it all the same, name it");
}

tri_status tri_candidates_try(const tri_candidates *from, tri_checkpoint_try take, void *context,
                              char path[TRI_PATH_BYTES]) {
  int64_t bad = 0;
  for (const tri_folder *folder = NULL;;) {
    candidate next = {.name = ""};
    if (from->first) folder = next_candidate(from->list, from->count, folder);
    if (folder != NULL) snprintf(next.name, sizeof next.name, "%s", folder->name);
    next.old = folder != NULL && folder->kind == TRI_FOLDER_OLD;
    next.disproved = folder != NULL && tri_folder_has(from->root, folder, TRI_FILE_DISPROVED);
    if (from->share != NULL) TRI_TRY(from->share(from->group, sizeof next, &next));
    if (next.name[0] == '\0') break;
    TRI_TRY(tri_path_join(path, from->root, next.name));
    bool damaged = next.disproved;
    tri_status status = next.disproved ? disproved() : take(context, path, &damaged);
    if (status == TRI_OK || !damaged) return status;
    if (next.old) continue;
    if (from->first) tri_log("passing over the checkpoint %s: %s", path, tri_status_message());
    bad++;
  }
  path[0] = '\0';
  if (bad == 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "none of the %" PRId64 " checkpoints in %s is usable; restore one, or move them away to start over",
                  bad, from->root);
}
