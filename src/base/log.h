/* Lines for people, on standard error. Standard output belongs to a command's result. */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

#include "base/status.h"

#include <stdbool.h>

/* From here on nothing is logged: this rank leaves it to the first one. Failures are no log lines; they are printed. */
void tri_log_be_quiet(void);

/* One line with a newline added. */
void tri_log(const char *format, ...) TRI_PRINTF(1, 2);

/* As tri_log, beginning with "warning: ". */
void tri_warn(const char *format, ...) TRI_PRINTF(1, 2);

/* A line that replaces the one before it on a terminal; elsewhere it is printed at most once in ten seconds. The next
 * tri_log or tri_log_progress_end moves on to a fresh line. Call from one thread. */
void tri_log_progress(const char *format, ...) TRI_PRINTF(1, 2);
void tri_log_progress_end(void);

#endif
