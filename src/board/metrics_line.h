/* One line of metrics.jsonl, for those who read very many: the numbers that are drawn, found by one look at each byte.
 * The rest of a line (sources, experts) is passed over. */
#ifndef TRI_BOARD_METRICS_LINE_H
#define TRI_BOARD_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is drawn over steps, under its name in the file, in the order in which a line has it; and whether a mean over
 * many steps says more than each of them. */
#define TRI_BOARD_COLUMN_ROWS(X)                                                                                       \
  X(LOSS, loss, true)                                                                                                  \
  X(VALIDATION_LOSS, validation_loss, false)                                                                           \
  X(GRAD_NORM, grad_norm, true)                                                                                        \
  X(LR, lr, false)                                                                                                     \
  X(TOKENS_PER_S, tokens_per_s, true)                                                                                  \
  X(STEP_S, step_s, true)                                                                                              \
  X(MFU, mfu, true)                                                                                                    \
  X(PEAK_BYTES, peak_bytes, false)                                                                                     \
  X(BAD_STEPS, bad_steps, false)
#define TRI_BOARD_COLUMN_VALUE(VALUE, key, noisy) TRI_BOARD_##VALUE,
typedef enum tri_board_column { TRI_BOARD_COLUMN_ROWS(TRI_BOARD_COLUMN_VALUE) } tri_board_column;
enum { TRI_BOARD_COLUMNS = 9 };

/* The name in the file and on the page. */
const char *tri_board_column_name(tri_board_column column);
bool tri_board_column_is_noisy(tri_board_column column);

typedef struct tri_board_line {
  int64_t step, tokens;
  double values[TRI_BOARD_COLUMNS]; /* NaN if the line has none, or null */
} tri_board_line;

/* Whether these bytes, without a newline, are an object with a whole step from 1 on. A number may be off by a rounding
 * or two: it is to be drawn. */
bool tri_board_line_read(const char *line, size_t bytes, tri_board_line *out);

#endif
