/* Reads a file that another program or user may have written, line by line; no line takes more memory than the caller
 * allows. */
#ifndef TRI_FILES_LINES_H
#define TRI_FILES_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_lines tri_lines;

typedef struct tri_line {
  const char *text;   /* [bytes] and a NUL; valid until the next line is read */
  size_t bytes;       /* number of bytes of the line without its newline */
  bool ended;         /* whether a newline ends the line; the last line of a file may have none */
  bool too_long;      /* whether the line is too long, so that `text` is only its beginning */
  int64_t number;     /* number of the line, from 1 */
  int64_t first, end; /* byte range in the file, with the newline */
} tri_line;

/* Opens a plain file (tri_file_open_plain) whose lines may have up to `longest` bytes. Close with tri_lines_close. */
tri_status tri_lines_open(const char *path, size_t longest, tri_lines **out);
/* Makes a reader for an open file of any kind. It owns the file: tri_lines_close, or a failure of this function, closes
 * it. `name` is for messages and is copied. */
tri_status tri_lines_of(int file, const char *name, size_t longest, tri_lines **out);
void tri_lines_close(tri_lines *lines);

/* Reads the next line. *there is false if the file has no further line. Fails with TRI_BAD_FILE, with the number of the
 * line, if the line is too long. */
tri_status tri_lines_next(tri_lines *lines, tri_line *line, bool *there);
/* Reads the next line as tri_lines_next does, but a line that is too long is not a failure: `text` is its beginning,
 * and `too_long` is set. For files whose other lines are still useful after a bad one. */
tri_status tri_lines_next_any(tri_lines *lines, tri_line *line, bool *there);

#endif
