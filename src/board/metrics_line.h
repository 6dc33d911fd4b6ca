/* Fast reader of one line of metrics.jsonl for the board. It finds the numbers that are drawn in one pass over the
 * bytes, and skips the rest of the line. */
#ifndef TRI_BOARD_METRICS_LINE_H
#define TRI_BOARD_METRICS_LINE_H

#include "run/named_metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns that are drawn over steps, in the order of a line. Each row has the column's name in the file, and whether a
 * mean over many steps is more useful than single values. The columns after router_loss are computed from the line's
 * lists. expert_load is the load of the busiest expert as a multiple of an even load; expert_evenness is the evenness
 * of all loads, at most 1; both are means over the layers. The source columns are the shares of the first
 * TRI_BOARD_SOURCES sources. */
#define TRI_BOARD_COLUMN_ROWS(X)                                                                                       \
  X(LOSS, loss, true)                                                                                                  \
  X(VALIDATION_LOSS, validation_loss, false)                                                                           \
  X(GRAD_NORM, grad_norm, true)                                                                                        \
  X(LR, lr, false)                                                                                                     \
  X(TOKENS_PER_S, tokens_per_s, true)                                                                                  \
  X(STEP_S, step_s, true)                                                                                              \
  X(MFU, mfu, true)                                                                                                    \
  X(PEAK_BYTES, peak_bytes, false)                                                                                     \
  X(BAD_STEPS, bad_steps, false)                                                                                       \
  X(KL, kl, true)                                                                                                      \
  X(ROUTER_LOSS, router_loss, true)                                                                                    \
  X(EXPERT_LOAD, expert_load, true)                                                                                    \
  X(EXPERT_EVENNESS, expert_evenness, true)                                                                            \
  X(SOURCE_1, source_1, false)                                                                                         \
  X(SOURCE_2, source_2, false)                                                                                         \
  X(SOURCE_3, source_3, false)                                                                                         \
  X(SOURCE_4, source_4, false)                                                                                         \
  X(SOURCE_5, source_5, false)                                                                                         \
  X(SOURCE_6, source_6, false)                                                                                         \
  X(SOURCE_7, source_7, false)                                                                                         \
  X(SOURCE_8, source_8, false)
#define TRI_BOARD_COLUMN_VALUE(VALUE, key, noisy) TRI_BOARD_##VALUE,
typedef enum tri_board_column { TRI_BOARD_COLUMN_ROWS(TRI_BOARD_COLUMN_VALUE) } tri_board_column;
enum {
  TRI_BOARD_COLUMNS = 21,
  TRI_BOARD_OWN_COLUMNS = 11 /* number of columns that have a key of their own in a line */,
  TRI_BOARD_SOURCES = 8
};

/* Returns the name of a column in the file and on the page. */
const char *tri_board_column_name(tri_board_column column);
/* Returns whether a mean over many steps of a column is more useful than its single values. */
bool tri_board_column_is_noisy(tri_board_column column);

/* A number under a name of its own, such as "rewards/chosen" or "reward". The name is valid (run/named_metrics.h), and
 * is not that of another member of a run's curves (tri_board_answer_series). */
typedef struct tri_board_named {
  const char *name; /* points into the line */
  size_t bytes;     /* bytes of the name, fewer than TRI_METRIC_NAME_BYTES */
  double value;
} tri_board_named;

typedef struct tri_board_line {
  int64_t step, tokens;
  double values[TRI_BOARD_COLUMNS];              /* NaN if missing or null */
  tri_board_named named[TRI_MOST_NAMED_METRICS]; /* the first named numbers of the line; later ones are ignored */
  int64_t num_named;
  const char *share; /* share of time by category: a JSON object in the line; NULL if the line does not have it */
  size_t share_bytes;
} tri_board_line;

/* Reads a line without its newline. Returns whether the line is an object with an integer step of at least 1. Numbers
 * are only drawn, so they may have an error of one or two roundings. */
bool tri_board_line_read(const char *line, size_t bytes, tri_board_line *out);

#endif
