/* What `trireme board` shows: what was found in some folders, kept up to date by one thread and asked by others.
 * Nothing in the folders is written. */
#ifndef TRI_BOARD_BOARD_H
#define TRI_BOARD_BOARD_H

#include "base/status.h"
#include "board/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_board tri_board;

/* LOCAL. A folder that is not there is TRI_BAD_FILE. Release with tri_board_destroy. */
tri_status tri_board_create(const char *const *folders, int64_t count, tri_board **out);
void tri_board_destroy(tri_board *board);

/* LOCAL, from one thread. Looks for what is new or gone, and reads summaries and checkpoints' names again. */
tri_status tri_board_look(tri_board *board);

/* LOCAL, from the same thread. Reads on in the metrics of all runs, some millions of bytes at a time; true if there
 * is more at once. */
bool tri_board_read(tri_board *board);

/* ---- answers, from any thread (answers.c) ------------------------------------------------------------------------ */

/* Items have numbers from 0, which stay theirs. A number that no item has, or one of another kind, is TRI_BAD_USAGE;
 * files that cannot be read are TRI_BAD_FILE or TRI_IO_FAILED. Texts are JSON, released with free(). */
enum { TRI_BOARD_MOST_RUNS = 1000, TRI_BOARD_MOST_POINTS = 4000 };

typedef struct tri_answer {
  char *text;
  size_t bytes;
} tri_answer;

/* All there is, in a few numbers each; "version" of each says whether to ask for more. */
tri_status tri_board_answer_list(tri_board *board, tri_answer *out);
/* Curves of some runs. */
tri_status tri_board_answer_series(tri_board *board, const tri_bucket_request *request, const int64_t *runs,
                                   int64_t num_runs, tri_answer *out);
/* The words of a run: its configuration, its failures. */
tri_status tri_board_answer_run(tri_board *board, int64_t number, tri_answer *out);
tri_status tri_board_answer_study(tri_board *board, int64_t number, tri_answer *out);
/* How long each rank of a timeline waited for others. */
tri_status tri_board_answer_timeline(tri_board *board, int64_t number, tri_answer *out);
/* A timeline's picture: SVG, not JSON. */
tri_status tri_board_answer_picture(tri_board *board, int64_t number, tri_answer *out);

#endif
