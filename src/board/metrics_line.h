/* One line of metrics.jsonl, for those who read very many: the numbers that are drawn, found by one look at each byte.
 * The rest of a line is passed over. */
#ifndef TRI_BOARD_METRICS_LINE_H
#define TRI_BOARD_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is drawn over steps, under its name in the file, in the order in which a line has it; and whether a mean over
 * many steps says more than each of them. Behind router_loss: what is made of the line's lists, of experts the mean
 * over their layers (the load of the busiest expert as a multiple of an even one, and how even all loads are, at most
 * 1), of sources the share of each of the first ones. */
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
enum { TRI_BOARD_COLUMNS = 21, TRI_BOARD_OWN_COLUMNS = 11 /* with a key of their own */, TRI_BOARD_SOURCES = 8 };

/* The name in the file and on the page. */
const char *tri_board_column_name(tri_board_column column);
bool tri_board_column_is_noisy(tri_board_column column);

/* A number under a name such as "rewards/chosen", whatever the name: parts of letters, digits, '_', '-' and '.', with a
 * '/' between them. */
enum { TRI_BOARD_NAMED = 24 /* of a line, and of a run */, TRI_BOARD_NAME_BYTES = 64 };
typedef struct tri_board_named {
  const char *name; /* in the line */
  size_t bytes;     /* of the name, fewer than TRI_BOARD_NAME_BYTES */
  double value;
} tri_board_named;

typedef struct tri_board_line {
  int64_t step, tokens;
  double values[TRI_BOARD_COLUMNS]; /* NaN if the line has none, or null */
  tri_board_named named[TRI_BOARD_NAMED];
  int64_t num_named;
  const char *share; /* where time went, an object as it is written in the line; NULL: it says nothing */
  size_t share_bytes;
} tri_board_line;

/* Whether these bytes, without a newline, are an object with a whole step from 1 on. A number may be off by a rounding
 * or two: it is to be drawn. */
bool tri_board_line_read(const char *line, size_t bytes, tri_board_line *out);

#endif
