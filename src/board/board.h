/* State of `trireme board`: the items found in some folders. One thread keeps it up to date, others answer requests
 * from it. The folders are only read, except for SQLite's -shm file of a study (tune/store_peek.h). */
#ifndef TRI_BOARD_BOARD_H
#define TRI_BOARD_BOARD_H

#include "base/status.h"
#include "board/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_board tri_board;

/* LOCAL. A missing folder is TRI_BAD_FILE. Release with tri_board_destroy. */
tri_status tri_board_create(const char *const *folders, int64_t count, tri_board **out);
void tri_board_destroy(tri_board *board);

/* LOCAL, from one thread. Looks for new and removed items, and reads summaries and names of checkpoints again. */
tri_status tri_board_look(tri_board *board);

/* LOCAL, from the same thread. Reads new metrics of all runs, at most 4 MiB of each. Returns whether more can be read
 * immediately. */
bool tri_board_read(tri_board *board);

/* ---- answers, from any thread (answers.c) ------------------------------------------------------------------------ */

/* Items have numbers from 0, which never change. An unknown number, or that of an item of another kind, is
 * TRI_BAD_USAGE; a file that cannot be read is TRI_BAD_FILE or TRI_IO_FAILED. Texts are JSON; release them with free().
 */
enum { TRI_BOARD_MOST_RUNS = 1000, TRI_BOARD_MOST_POINTS = 4000 };

typedef struct tri_answer {
  char *text;
  size_t bytes;
} tri_answer;

/* Lists all items, with a few numbers each. If an item's "version" has changed since an earlier list, the other answers
 * about it have changed, too. */
tri_status tri_board_answer_list(tri_board *board, tri_answer *out);
/* Returns the curves of some runs. */
tri_status tri_board_answer_series(tri_board *board, const tri_bucket_request *request, const int64_t *runs,
                                   int64_t num_runs, tri_answer *out);
/* Returns the texts of a run: its configuration, its failures and its samples. */
tri_status tri_board_answer_run(tri_board *board, int64_t number, tri_answer *out);
tri_status tri_board_answer_study(tri_board *board, int64_t number, tri_answer *out);
/* Returns how long each rank of a timeline waited for others. */
tri_status tri_board_answer_timeline(tri_board *board, int64_t number, tri_answer *out);
/* Returns a timeline's picture: SVG, not JSON. */
tri_status tri_board_answer_picture(tri_board *board, int64_t number, tri_answer *out);

#endif
