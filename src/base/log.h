/* Lines for people, on standard error. Standard output belongs to a command's result. */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

#include "base/status.h"

#include <stdbool.h>

/* Where lines go before standard error is tried: ranks of a supervisor (launch/supervisor.h) send them to it
 * (base/parent.h). Both functions return false for what they could not send; it is then written to standard error,
 * marked, so that the supervisor can tell it from the launcher's own output. `send` is called from signal handlers,
 * too. */
typedef enum tri_log_kind {
  TRI_LOG_LINE,
  TRI_LOG_PROGRESS, /* replaces the line before it */
  TRI_LOG_NEWS,     /* for the supervisor alone (tri_log_to_parent) */
} tri_log_kind;
typedef struct tri_log_sink {
  bool (*send)(tri_log_kind kind, const char *text);
  bool (*failure)(int exit_status, const char *message);
} tri_log_sink;

/* `sink` is static. Takes effect once lines are marked (tri_log_mark_lines). */
void tri_log_set_sink(const tri_log_sink *sink);

#define TRI_LOG_MARK '\x1e'
#define TRI_LOG_PROGRESS_MARK '\x1f'
#define TRI_LOG_PARENT_MARK '\x1d'
#define TRI_LOG_NEW_LINE '\v' /* inside a marked line */

/* Marks every line from here on; `terminal`: the parent's standard error is one. */
void tri_log_mark_lines(bool terminal);

/* A line for the parent alone, from any rank: "rank 3 14342 pipeline 1" (its process and its place), "step 12". */
void tri_log_to_parent(const char *format, ...) TRI_PRINTF(1, 2);

/* A failure's message, for people: "trireme: ..." and a newline. A rank hands it to its parent, and comes back when the
 * parent has it, or cannot be reached: then it is written as ever. An empty message says that another rank tells. True
 * if the parent has it. */
bool tri_log_failure(tri_status status, const char *message);

/* From here on nothing is logged: this rank leaves it to the first one. Failures are no log lines; they are printed. */
void tri_log_set_quiet(void);

/* One line with a newline added. */
void tri_log(const char *format, ...) TRI_PRINTF(1, 2);

/* As tri_log, beginning with "warning: ". */
void tri_warn(const char *format, ...) TRI_PRINTF(1, 2);

/* As tri_log, from a signal's handler, and from any rank; 8 KiB at most. */
void tri_log_in_handler(const char *text);

/* A line that replaces the one before it on a terminal; elsewhere it is printed at most once in ten seconds. The next
 * tri_log or tri_log_progress_end moves on to a fresh line. Call from one thread. */
void tri_log_progress(const char *format, ...) TRI_PRINTF(1, 2);
void tri_log_progress_end(void);

#endif
