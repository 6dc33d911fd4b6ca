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
  bool best, proven;
} tri_board_checkpoint;

/* An item that was found at least once; `gone`: it no longer exists. */
typedef struct tri_board_item {
  tri_found_kind kind;
  const char *root; /* the board's; other users may be able to write below it, so files are opened relative to it
                       (files/file.h) */
  char path[TRI_PATH_BYTES], name[TRI_PATH_BYTES]; /* absolute path; displayed name (name_item) */
  bool gone;
  int64_t version; /* changes with the item's files; studies and timelines only */
  /* Runs: */
  tri_series series;
  bool said_full;  /* a warning was given that the series has reached its limit */
  json_t *summary; /* NULL: the run has not ended */
  struct timespec summary_changed;
  int64_t samples, config, failures;         /* change with their files; 0: no such file */
  int64_t planned;                           /* optimizer.steps; 0: unknown */
  char objective[TRI_BOARD_OBJECTIVE_BYTES]; /* objective.name; "": cross_entropy, or unknown */
  char reason[TRI_BOARD_REASON_BYTES];       /* reason of the last failure in failures.txt */
  struct timespec failed;                    /* time when failures.txt was written */
  bool locked;                               /* the run has a lock: it is running, or its process has died */
  struct timespec touched;                   /* time when the lock was touched */
  double quiet_s;                            /* seconds since metrics were written or the lock was touched */
  tri_board_checkpoint *checkpoints;
  int64_t num_checkpoints;
} tri_board_item;

struct tri_board {
  char **folders;
  int64_t num_folders;
  pthread_mutex_t next, lock; /* `lock`, taken by tri_board_lock, protects the members below */
  tri_board_item **items;
  int64_t num_items, room;
  bool looked;    /* the folders have been searched at least once */
  bool said_full; /* a warning was given that all series together have reached the limit */
};

/* Locks the list of items and all that they own. Hold it no longer than the work on one run takes. */
void tri_board_lock(tri_board *board);
void tri_board_unlock(tri_board *board);

/* ---- words.c ----------------------------------------------------------------------------------------------------- */

/* Reads at most `most_bytes` bytes from a file's end; *cut: the file has more. Release *out with tri_free. */
tri_status tri_board_read_end(const char *root, const char *relative, size_t most_bytes, char **out, bool *cut);
/* Reads from a config.yaml the steps of the whole run, 0 if it does not have them, and the objective, "" if it is
 * cross_entropy or not given. */
void tri_board_read_config(const char *root, const char *relative, int64_t *steps,
                           char objective[TRI_BOARD_OBJECTIVE_BYTES]);
/* Sets out to the first sentence of the last failure in a failures.txt; "" without a failure. */
void tri_board_reason(const char *root, const char *relative, char out[TRI_BOARD_REASON_BYTES]);

/* Computes how long each rank of a timeline waited (waits.c). The timeline is a file below `root`. Release *out with
 * json_decref. */
tri_status tri_board_waits(const char *root, const char *relative, json_t **out);

#endif
