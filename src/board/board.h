/* State of `trireme board`: the items found in some folders. One thread keeps the state up to date; other threads
 * answer requests from it. The board only reads the folders; only SQLite writes, to the -shm file of a study
 * (tune/store_peek.h). */
#ifndef TRI_BOARD_BOARD_H
#define TRI_BOARD_BOARD_H

#include "base/status.h"
#include "board/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_board tri_board;

/* LOCAL. Creates the board of folders[count]. Fails with TRI_BAD_FILE if a folder is missing. Release with
 * tri_board_destroy. */
tri_status tri_board_create(const char *const *folders, int64_t count, tri_board **out);
void tri_board_destroy(tri_board *board);

/* LOCAL; always call it from the same thread. Looks for new and removed items, and reads the files of items again,
 * except metrics: summaries, configurations, failures, locks and names of checkpoints of runs, and the versions of
 * studies and timelines. */
tri_status tri_board_look(tri_board *board);

/* LOCAL; call it from the thread of tri_board_look. Reads new metrics of all runs, at most 4 MiB of each. Logs a
 * warning once when a run or the board has reached its limit of steps. Returns whether more can be read immediately. */
bool tri_board_read(tri_board *board);

/* ---- answers, from any thread (answers.c) ------------------------------------------------------------------------ */

/* Items have numbers from 0, which never change. The functions below fail with TRI_BAD_USAGE if no item has the number
 * or the item is of another kind, and with TRI_BAD_FILE or TRI_IO_FAILED if a file cannot be read. A text is JSON;
 * release it with free(). */
enum { TRI_BOARD_MOST_RUNS = 1000, TRI_BOARD_MOST_POINTS = 4000 };

typedef struct tri_answer {
  char *text;
  size_t bytes;
} tri_answer;

/* Lists all items, with a few numbers for each. If an item's "version" is not the same as in an earlier list, the other
 * answers about this item have changed, too. */
tri_status tri_board_answer_list(tri_board *board, tri_answer *out);
/* Writes the state of all runs to *out, in Prometheus's format (http/exposition.h). */
tri_status tri_board_answer_metrics(tri_board *board, tri_answer *out);
/* Writes the curves of runs[num_runs] to *out. */
tri_status tri_board_answer_series(tri_board *board, const tri_bucket_request *request, const int64_t *runs,
                                   int64_t num_runs, tri_answer *out);
/* Writes the texts of a run to *out: its configuration, its failures and its samples. */
tri_status tri_board_answer_run(tri_board *board, int64_t number, tri_answer *out);
/* Writes a study and its trials to *out, as tri_store_peek reads them. */
tri_status tri_board_answer_study(tri_board *board, int64_t number, tri_answer *out);
/* Writes to *out how long each rank of a timeline waited for other ranks. */
tri_status tri_board_answer_timeline(tri_board *board, int64_t number, tri_answer *out);
/* Writes the picture of a timeline to *out. The text is SVG, not JSON. */
tri_status tri_board_answer_picture(tri_board *board, int64_t number, tri_answer *out);

#endif
