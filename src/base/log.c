#include "base/log.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOG_IN_HANDLER_BYTES = 1 << 13 };

/* State of the process's log. */
static bool progress_open;
static double progress_last_s = -1e9;
static bool quiet, marked, parent_has_terminal;
static const tri_log_sink *sink; /* NULL: standard error only */

void tri_log_set_sink(const tri_log_sink *to) { sink = to; }

static int copy_file = -1; /* file of tri_log_copy_to; -1: none */
static double copied_progress_s = -1e9;
static const double PROGRESS_S = 10; /* least time between two progress lines that are not on a terminal */

/* Sends a line to the sink; returns whether that succeeded. */
static bool send(tri_log_kind kind, const char *text) { return marked && sink != NULL && sink->send(kind, text); }

void tri_log_mark_lines(bool terminal) {
  marked = true;
  parent_has_terminal = terminal;
}

/* Writes a text with as few calls as possible: many processes share this standard error, and their texts are mixed if
 * one is written in several calls. */
static void write_whole(const char *text, size_t length) {
  while (length > 0) {
    ssize_t done = write(STDERR_FILENO, text, length);
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (done < 0 && errno == EAGAIN && poll(&room, 1, -1) > 0) continue;
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return; /* standard error is closed */
    text += done;
    length -= (size_t)done;
  }
}

void tri_log_copy_to(int file) { copy_file = file; }

/* Appends a line to the file of tri_log_copy_to, if there is such a file and this process has no parent. Stops the
 * copying, with a warning, if the file cannot be written. */
static void copy_line(const char *prefix, const char *text) {
  char line[TRI_MESSAGE_BYTES + 128], now[TRI_CLOCK_TEXT_BYTES];
  static const char failed[] =
      "warning: the file of --log cannot be written any more; the program goes on without it\n";
  if (copy_file < 0 || marked) return;
  snprintf(line, sizeof line - 1, "%s %s%s", tri_clock_text(now), prefix, text);
  const size_t length = strlen(line);
  line[length] = '\n';
  if (write(copy_file, line, length + 1) == (ssize_t)length + 1) return;
  copy_file = -1;
  write_whole(failed, sizeof failed - 1);
}

/* Writes a line to standard error. After tri_log_mark_lines, begins it with `mark`, and replaces newlines inside it
 * by TRI_LOG_NEW_LINE. */
static void write_line(char mark, const char *prefix, const char *text) {
  char line[TRI_MESSAGE_BYTES + 64];
  snprintf(line, sizeof line - 1, "%.*s%s%s", marked ? 1 : 0, &mark, prefix, text);
  for (char *at = line; marked && (at = strchr(at, '\n')) != NULL;) *at = TRI_LOG_NEW_LINE;
  size_t length = strlen(line);
  line[length] = '\n';
  write_whole(line, length + 1);
}

void tri_log_to_parent(const char *format, ...) {
  char text[256];
  if (!marked) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!send(TRI_LOG_NEWS, text)) write_line(TRI_LOG_PARENT_MARK, "", text);
}

bool tri_log_failure(tri_status status, const char *message) {
  tri_log_progress_end();
  if (marked && sink != NULL && sink->failure(tri_status_exit(status), message)) return true;
  if (*message != '\0') write_line(TRI_LOG_MARK, "trireme: ", message);
  if (*message != '\0') copy_line("trireme: ", message);
  return false;
}

void tri_log_set_quiet(void) { quiet = true; }

static void print_line(const char *prefix, const char *format, va_list arguments) {
  if (quiet) return;
  tri_log_progress_end();
  char text[16384];
  size_t length = strlen(prefix);
  memcpy(text, prefix, length);
  vsnprintf(text + length, sizeof text - length, format, arguments);
  if (send(TRI_LOG_LINE, text)) return;
  write_line(TRI_LOG_MARK, "", text);
  copy_line("", text);
}

void tri_log(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("", format, arguments);
  va_end(arguments);
}

void tri_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("warning: ", format, arguments);
  va_end(arguments);
}

void tri_log_in_handler(const char *text) {
  char line[LOG_IN_HANDLER_BYTES];
  size_t length = 0;
  if (send(TRI_LOG_LINE, text)) return;
  if (marked) line[length++] = TRI_LOG_MARK;
  for (; *text != '\0' && length + 1 < sizeof line; text++) {
    line[length++] = (char)(marked && *text == '\n' ? TRI_LOG_NEW_LINE : *text);
  }
  line[length++] = '\n';
  write_whole(line, length);
}

void tri_log_progress(const char *format, ...) {
  if (quiet) return;
  bool terminal = marked ? parent_has_terminal : isatty(STDERR_FILENO) == 1;
  double now_s = tri_clock_s();
  const bool copies = copy_file >= 0 && now_s - copied_progress_s >= PROGRESS_S;
  if (!terminal && now_s - progress_last_s < PROGRESS_S) return;
  progress_last_s = now_s;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (send(TRI_LOG_PROGRESS, text)) return;
  if (copies) copied_progress_s = now_s;
  if (copies) copy_line("", text);
  if (marked) {
    write_line(TRI_LOG_PROGRESS_MARK, "", text);
  } else if (terminal) {
    fprintf(stderr, "\r\033[K%s", text);
    progress_open = true;
  } else {
    fprintf(stderr, "%s\n", text);
  }
  fflush(stderr);
}

void tri_log_progress_end(void) {
  if (progress_open) fputc('\n', stderr);
  progress_open = false;
}
