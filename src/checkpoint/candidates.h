/* Tries checkpoints, the newest first, until one is good. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_CANDIDATES_H
#define TRI_CHECKPOINT_CANDIDATES_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

/* The checkpoints below a root. */
typedef struct tri_candidates {
  const char *root;
  bool first;       /* whether this rank has the list: it is the first of the group, or there is no group */
  tri_folder *list; /* [count]: result of tri_folder_list; NULL on other ranks */
  int64_t count;
  /* Broadcasts data[bytes] from the first rank of the group; NULL: there is no group. */
  tri_status (*share)(const tri_group *group, size_t bytes, void *data);
  const tri_group *group; /* the ranks that try the checkpoints together; NULL: only this rank */
} tri_candidates;

/* COLLECTIVE over the group, LOCAL without one. See tri_checkpoint_newest_that. */
tri_status tri_candidates_try(const tri_candidates *from, tri_checkpoint_try take, void *context,
                              char path[TRI_PATH_BYTES]);

#endif
