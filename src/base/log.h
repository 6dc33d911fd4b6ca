/* Lines for people, on standard error. Standard output belongs to a command's result. */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

#include "base/status.h"

#include <stdbool.h>

/* A sink takes lines in place of standard error. Ranks under a supervisor (launch/supervisor.h) have a sink that sends
 * lines to the supervisor (base/parent.h). `send` sends a line; signal handlers call it, too. `failure` sends an error
 * message and the exit status. Both return false if they could not send; the line is then written to standard error,
 * with a mark that distinguishes it from the launcher's output. */
typedef enum tri_log_kind {
  TRI_LOG_LINE,
  TRI_LOG_PROGRESS, /* replaces the line before it */
  TRI_LOG_NEWS,     /* for the supervisor only (tri_log_to_parent) */
} tri_log_kind;
typedef struct tri_log_sink {
  bool (*send)(tri_log_kind kind, const char *text);
  bool (*failure)(int exit_status, const char *message);
} tri_log_sink;

/* Sets the sink, which is not copied. It takes effect once lines are marked (tri_log_mark_lines). */
void tri_log_set_sink(const tri_log_sink *sink);

#define TRI_LOG_MARK '\x1e'
#define TRI_LOG_PROGRESS_MARK '\x1f'
#define TRI_LOG_PARENT_MARK '\x1d'
#define TRI_LOG_NEW_LINE '\v' /* stands for '\n' inside a marked line */

/* Marks every later line for the parent (TRI_LOG_MARK and the others). `terminal`: whether the parent's standard error
 * is a terminal. */
void tri_log_mark_lines(bool terminal);

/* Sends a line that only the parent reads, from any rank: "rank 3 14342 pipeline 1" (the rank's process id and
 * coordinates), "step 12". The line is cut to 255 bytes. Does nothing in a process without a parent. */
void tri_log_to_parent(const char *format, ...) TRI_PRINTF(1, 2);

/* Prints the message of a failure: "trireme: ..." and a newline. A rank sends the message to its parent instead, and
 * waits until the parent has it; if the parent cannot be reached, prints it. An empty message means that another rank
 * reports the failure. Returns whether the parent has the message. */
bool tri_log_failure(tri_status status, const char *message);

/* Also appends each later line to a file, with the time of day (clock.h) before it. Appends at most one progress line
 * in ten seconds, and no line of tri_log_in_handler. `file`: a descriptor that is open for appending, and stays open.
 * If it cannot be written, logs that once and goes on without it. A process with a parent does not write to its file:
 * the parent has the lines. */
void tri_log_copy_to(int file);

/* Switches logging of this process off: only the first rank of a job logs. Error messages are still printed. */
void tri_log_set_quiet(void);

/* Logs one line, and adds a newline. */
void tri_log(const char *format, ...) TRI_PRINTF(1, 2);

/* Logs a line as tri_log does, with "warning: " before it. */
void tri_warn(const char *format, ...) TRI_PRINTF(1, 2);

/* Logs a line as tri_log does, from a signal handler, and in a quiet process as well. The line is cut to 8 KiB. */
void tri_log_in_handler(const char *text);

/* Logs a line that on a terminal replaces the line before it; without a terminal, logs at most one in ten seconds. The
 * next tri_log or tri_log_progress_end begins a new line. Call from one thread. */
void tri_log_progress(const char *format, ...) TRI_PRINTF(1, 2);
void tri_log_progress_end(void);

#endif
