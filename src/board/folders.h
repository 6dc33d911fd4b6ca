/* Finds runs, studies and timelines in folders. */
#ifndef TRI_BOARD_FOLDERS_H
#define TRI_BOARD_FOLDERS_H

#include "base/status.h"
#include "files/file.h"

#include <stdint.h>

/* A run is a folder with metrics.jsonl. A study is a store of `trireme tune`. A timeline is a file NAME.json with
 * NAME.svg in the same folder. */
#define TRI_FOUND_KINDS(X)                                                                                             \
  X(RUN, run)                                                                                                          \
  X(STUDY, study)                                                                                                      \
  X(TIMELINE, timeline)
#define TRI_FOUND_VALUE(VALUE, word) TRI_FOUND_##VALUE,
typedef enum tri_found_kind { TRI_FOUND_KINDS(TRI_FOUND_VALUE) } tri_found_kind;

typedef struct tri_found {
  tri_found_kind kind;
  const char *root; /* the given folder that contains `path` */
  char path[TRI_PATH_BYTES];
} tri_found;

/* Starts as {0}. */
typedef struct tri_found_list {
  tri_found *items;
  int64_t count, room;
  int64_t looked_at; /* number of names that were looked at so far; names after TRI_FOUND_MOST_NAMES are skipped */
} tri_found_list;

enum { TRI_FOUND_MOST_NAMES = 200000, TRI_FOUND_MOST_DEPTH = 12 };

/* LOCAL. Adds the items in a folder and in the folders below it, at most TRI_FOUND_MOST_DEPTH levels deep. The text
 * `folder` must outlive the list. Does not follow links. Skips names that begin with a dot, checkpoints, trials of
 * studies, and everything that cannot be read now. */
tri_status tri_found_below(const char *folder, tri_found_list *out);
void tri_found_release(tri_found_list *list);

#endif
