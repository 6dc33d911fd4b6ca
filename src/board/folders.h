/* What lies in folders that people want to look at: runs, studies, timelines. */
#ifndef TRI_BOARD_FOLDERS_H
#define TRI_BOARD_FOLDERS_H

#include "base/file.h"
#include "base/status.h"

#include <stdint.h>

/* A run is a folder with metrics.jsonl, a study a store of trireme tune, a timeline NAME.json with NAME.svg beside it.
 */
#define TRI_FOUND_KINDS(X)                                                                                             \
  X(RUN, run)                                                                                                          \
  X(STUDY, study)                                                                                                      \
  X(TIMELINE, timeline)
#define TRI_FOUND_VALUE(VALUE, word) TRI_FOUND_##VALUE,
typedef enum tri_found_kind { TRI_FOUND_KINDS(TRI_FOUND_VALUE) } tri_found_kind;

typedef struct tri_found {
  tri_found_kind kind;
  const char *root; /* the folder that was given; the path lies in it */
  char path[TRI_PATH_BYTES];
} tri_found;

/* Starts as {0}. */
typedef struct tri_found_list {
  tri_found *items;
  int64_t count, room;
  int64_t looked_at; /* names, of TRI_FOUND_MOST_NAMES at most */
} tri_found_list;

enum { TRI_FOUND_MOST_NAMES = 200000, TRI_FOUND_MOST_DEPTH = 12 };

/* LOCAL. Adds what lies in a folder, which must outlive the list, and below it. Links are not followed, and names that
 * begin with a dot, checkpoints and the trials of studies are passed over; what cannot be read now is not there. */
tri_status tri_found_below(const char *folder, tri_found_list *out);
void tri_found_release(tri_found_list *list);

#endif
