/* Looking for the newest checkpoint that will do, one after the other. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_CANDIDATES_H
#define TRI_CHECKPOINT_CANDIDATES_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

/* A process alone has the list and shares it with no other; of several ranks the first has it. */
typedef struct tri_candidates {
  const char *root;
  bool first;
  tri_folder *list; /* [count] of tri_folder_list, where `first` */
  int64_t count;
  tri_status (*share)(const tri_group *group, size_t bytes, void *data); /* the first rank's to all; or NULL */
  const tri_group *group;
} tri_candidates;

/* As tri_checkpoint_newest_that, which see; COLLECTIVE over the group where there is one. */
tri_status tri_candidates_try(const tri_candidates *from, tri_checkpoint_try take, void *context,
                              char path[TRI_PATH_BYTES]);

#endif
