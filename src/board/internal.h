/* Internals shared by board.c, answers.c, words.c and waits.c. */
#ifndef TRI_BOARD_INTERNAL_H
#define TRI_BOARD_INTERNAL_H

#include "board/board.h"
#include "board/folders.h"

#include <pthread.h>
#include <sys/stat.h>

enum { TRI_BOARD_REASON_BYTES = 600, TRI_BOARD_OBJECTIVE_BYTES = 32 };

typedef struct tri_board_checkpoint {
  int64_t step;
  /* Whether the checkpoint has the marks TRI_FILE_BEST and TRI_FILE_PROVEN. */
  bool best, proven;
} tri_board_checkpoint;

/* An item that was found at least once. `gone`: whether the item no longer exists. */
typedef struct tri_board_item {
  tri_found_kind kind;
  const char *root; /* folder of the board that contains the item; other users may be able to write below it, so files
                       are opened relative to it (files/file.h) */
  char path[TRI_PATH_BYTES], name[TRI_PATH_BYTES]; /* path: absolute path; name: displayed name (name_item) */
  bool gone;
  int64_t version; /* a number that changes with the item's files; for studies and timelines only */
  /* Only runs have the members below. */
  tri_series series;
  bool said_full;  /* whether the board has warned that the series has reached its limit */
  json_t *summary; /* NULL: the run has no summary, or it cannot be read now */
  struct timespec summary_changed;
  int64_t samples, config,
      failures; /* numbers that change with the run's files of samples, configuration and failures; 0: no such file */
  int64_t planned;                           /* optimizer.steps; 0: unknown */
  char objective[TRI_BOARD_OBJECTIVE_BYTES]; /* objective.name; "": cross_entropy, or not known */
  char reason[TRI_BOARD_REASON_BYTES];       /* reason of the last failure in failures.txt */
  struct timespec failed;                    /* time when failures.txt was written */
  bool locked;             /* whether the run has a lock: the run is in progress, or its process has died */
  struct timespec touched; /* time when the lock was touched */
  double quiet_s;          /* seconds since metrics were written or the lock was touched, whichever was later */
  /* Complete checkpoints [num_checkpoints], the newest first. */
  tri_board_checkpoint *checkpoints;
  int64_t num_checkpoints;
} tri_board_item;

struct tri_board {
  char **folders;
  int64_t num_folders;
  pthread_mutex_t next, lock; /* `lock` protects the members below; tri_board_lock locks it */
  tri_board_item **items;
  int64_t num_items, room;
  bool looked;    /* whether the folders have been searched at least once */
  bool said_full; /* whether the board has warned that all series together have reached the limit */
};

/* Locks the list of items and everything that the items own. Hold the lock no longer than the work on one run takes. */
void tri_board_lock(tri_board *board);
void tri_board_unlock(tri_board *board);

#define TRI_BOARD_STATES(X)                                                                                            \
  X(TRI_BOARD_RUNNING, "running")                                                                                      \
  X(TRI_BOARD_ENDED_EARLY, "ended early")                                                                              \
  X(TRI_BOARD_FINISHED, "finished")                                                                                    \
  X(TRI_BOARD_DIVERGED, "diverged")                                                                                    \
  X(TRI_BOARD_FAILED, "failed")                                                                                        \
  X(TRI_BOARD_INTERRUPTED, "interrupted")
#define TRI_BOARD_STATE(VALUE, NAME) VALUE,
typedef enum tri_board_state { TRI_BOARD_STATES(TRI_BOARD_STATE) TRI_NUM_BOARD_STATES } tri_board_state;
#undef TRI_BOARD_STATE

/* Returns the state of a run. */
tri_board_state tri_board_state_of(const tri_board_item *run);
/* Returns the name of a state, such as "ended early". */
const char *tri_board_state_name(tri_board_state state);

/* ---- words.c ----------------------------------------------------------------------------------------------------- */

/* Reads at most `most_bytes` bytes from the end of a file below `root`. Sets *cut to whether the file has more bytes.
 * Release *out with tri_free. A file that cannot be read to the end gives a shorter text. */
tri_status tri_board_read_end(const char *root, const char *relative, size_t most_bytes, char **out, bool *cut);
/* Reads from a config.yaml the number of steps of the whole run (0 if the file does not have it) and the objective (""
 * if it is cross_entropy or not given). */
void tri_board_read_config(const char *root, const char *relative, int64_t *steps,
                           char objective[TRI_BOARD_OBJECTIVE_BYTES]);
/* Sets `out` to the first sentence of the last failure in a failures.txt; to "" if there is no failure. */
void tri_board_reason(const char *root, const char *relative, char out[TRI_BOARD_REASON_BYTES]);

/* Computes how long each rank of a timeline waited (waits.c). The timeline is the file `relative` below `root`. Release
 * *out with json_decref. */
tri_status tri_board_waits(const char *root, const char *relative, json_t **out);

#endif
