/* What board.c, answers.c and words.c share. */
#ifndef TRI_BOARD_INTERNAL_H
#define TRI_BOARD_INTERNAL_H

#include "board/board.h"
#include "board/folders.h"

#include <pthread.h>
#include <sys/stat.h>

enum { TRI_BOARD_REASON_BYTES = 600, TRI_BOARD_OBJECTIVE_BYTES = 32 };

typedef struct tri_board_checkpoint {
  int64_t step;
  bool best, proven;
} tri_board_checkpoint;

/* One that was found once; `gone` where it is not any more. */
typedef struct tri_board_item {
  tri_found_kind kind;
  const char *root; /* the board's; others may write below it: what lies there is opened from here (base/file.h) */
  char path[TRI_PATH_BYTES], name[TRI_PATH_BYTES]; /* `name` is for people: from the folder that was given */
  bool gone;
  int64_t version; /* of studies and timelines: another whenever their files are */
  /* Of runs. */
  tri_series series;
  bool said_full;  /* that the series holds as much as it may */
  json_t *summary; /* NULL: the run has not ended */
  struct timespec summary_changed;
  int64_t samples, config, failures;         /* another number whenever the file is; 0: there is none */
  int64_t planned;                           /* optimizer.steps; 0: not known */
  char objective[TRI_BOARD_OBJECTIVE_BYTES]; /* objective.name; "": cross_entropy, or not known */
  char reason[TRI_BOARD_REASON_BYTES];       /* of the last failure in failures.txt */
  struct timespec failed;                    /* when failures.txt was written */
  bool locked;                               /* somebody writes there, or has died there */
  struct timespec touched;                   /* the lock */
  double quiet_s;                            /* since somebody has written metrics, or touched the lock */
  tri_board_checkpoint *checkpoints;
  int64_t num_checkpoints;
} tri_board_item;

struct tri_board {
  char **folders;
  int64_t num_folders;
  pthread_mutex_t next, lock; /* tri_board_lock: of what follows */
  tri_board_item **items;
  int64_t num_items, room;
  bool looked;
  bool said_full; /* that all series together do */
};

/* Of all items and what they hold; not for longer than a run takes. */
void tri_board_lock(tri_board *board);
void tri_board_unlock(tri_board *board);

/* ---- words.c ----------------------------------------------------------------------------------------------------- */

/* At most that many bytes from a file's end; *cut says that there are more. Release *out with tri_free. */
tri_status tri_board_read_end(const char *root, const char *relative, size_t most_bytes, char **out, bool *cut);
/* What the board says of a config.yaml: the steps of the whole run, 0 if it does not say, and its objective, "" if that
 * is cross_entropy or not said. */
void tri_board_read_config(const char *root, const char *relative, int64_t *steps,
                           char objective[TRI_BOARD_OBJECTIVE_BYTES]);
/* The first sentence of what was added last to a failures.txt; "" if there is none. */
void tri_board_reason(const char *root, const char *relative, char out[TRI_BOARD_REASON_BYTES]);

/* How long each rank of a timeline waited (waits.c), a file below a folder. Release *out with json_decref. */
tri_status tri_board_waits(const char *root, const char *relative, json_t **out);

#endif
