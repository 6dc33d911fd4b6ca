#include "files/lines.h"

#include "base/format.h"
#include "base/memory.h"
#include "files/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 16 };

struct tri_lines {
  char *name;
  int file;
  size_t longest;
  char *held;              /* [room]: bytes [begin, end) are read but not returned yet */
  size_t room, begin, end; /* room includes a byte for a NUL */
  size_t looked;           /* bytes from `begin` on that were searched and have no newline */
  bool ended;              /* whether the end of the file was reached */
  int64_t number,          /* number of lines returned so far */
      at;                  /* offset of `begin` in the file */
};

tri_status tri_lines_of(int file, const char *name, size_t longest, tri_lines **out) {
  tri_lines *lines = NULL;
  tri_status status = tri_alloc("a reader of lines", 1, sizeof *lines, &lines);
  if (status == TRI_OK) {
    *lines = (tri_lines){.file = file, .longest = longest};
    status = tri_strdup(name, &lines->name);
  }
  if (status != TRI_OK) {
    tri_free(lines);
    close(file);
    return status;
  }
  *out = lines;
  return TRI_OK;
}

tri_status tri_lines_open(const char *path, size_t longest, tri_lines **out) {
  int file = -1;
  TRI_TRY(tri_file_open_plain(path, &file));
  return tri_lines_of(file, path, longest, out);
}

void tri_lines_close(tri_lines *lines) {
  if (lines == NULL) return;
  close(lines->file);
  tri_free(lines->held);
  tri_free(lines->name);
  tri_free(lines);
}

/* Makes room for another piece. */
static tri_status make_room(tri_lines *l) {
  if (l->begin > 0) {
    memmove(l->held, l->held + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
  }
  if (l->room - l->end > PIECE_BYTES) return TRI_OK;
  const size_t doubled = 2 * l->room, wanted = l->end + PIECE_BYTES + 1, most = l->longest + 2 * PIECE_BYTES + 1;
  l->room = doubled < wanted ? wanted : doubled > most && most >= wanted ? most : doubled;
  return tri_realloc(l->name, l->room, 1, &l->held);
}

/* Reads the available bytes, at most a piece, in one call, so that a typed line is returned at once. */
static tri_status read_piece(tri_lines *l) {
  TRI_TRY(make_room(l));
  ssize_t got = 0;
  do got = read(l->file, l->held + l->end, PIECE_BYTES);
  while (got < 0 && errno == EINTR);
  if (got < 0) return tri_fail(TRI_BAD_FILE, "cannot read %s: %s", l->name, strerror(errno));
  l->end += (size_t)got;
  l->ended = got == 0;
  return TRI_OK;
}

static size_t held_bytes(const tri_lines *l) { return l->end - l->begin; }

/* Reads until a newline, the end of the file, or the limit of a line. Sets *bytes to the length of the line without its
 * newline, and *newline to whether a newline was found. */
static tri_status find_end(tri_lines *l, size_t *bytes, bool *newline) {
  for (;;) {
    const char *begin = l->held + l->begin;
    const char *found = held_bytes(l) > l->looked ? memchr(begin + l->looked, '\n', held_bytes(l) - l->looked) : NULL;
    *newline = found != NULL;
    *bytes = found != NULL ? (size_t)(found - begin) : held_bytes(l);
    if (found != NULL || l->ended || *bytes > l->longest) return TRI_OK;
    l->looked = *bytes;
    TRI_TRY(read_piece(l));
  }
}

/* Skips the rest of a line that is too long, but keeps its first l->longest bytes. Sets *skipped to the number of bytes
 * skipped, and *newline to whether a newline ends the line. */
static tri_status skip_rest(tri_lines *l, bool *newline, int64_t *skipped) {
  const size_t kept = l->longest;
  size_t rest = 0;
  *skipped = 0;
  for (;;) {
    char *begin = l->held + l->begin + kept;
    const char *found = held_bytes(l) > kept ? memchr(begin, '\n', held_bytes(l) - kept) : NULL;
    *newline = found != NULL;
    rest = found != NULL ? (size_t)(found - begin) : held_bytes(l) - kept;
    memmove(begin, begin + rest, held_bytes(l) - kept - rest);
    l->end -= rest;
    *skipped += (int64_t)rest;
    if (found != NULL || l->ended) return TRI_OK;
    TRI_TRY(read_piece(l));
  }
}

static tri_status next_line(tri_lines *l, bool any, tri_line *line, bool *there) {
  size_t bytes = 0;
  bool newline = false;
  int64_t skipped = 0;
  l->looked = 0;
  TRI_TRY(find_end(l, &bytes, &newline));
  *there = bytes > 0 || newline;
  if (!*there) return TRI_OK;
  l->number++;
  const bool too_long = bytes > l->longest;
  if (too_long && !any) {
    char limit[32];
    return tri_fail(TRI_BAD_FILE, "line %lld of %s is longer than the %s that a line of it may have",
                    (long long)l->number, l->name, tri_format_bytes((double)l->longest, limit, sizeof limit));
  }
  if (too_long) {
    TRI_TRY(skip_rest(l, &newline, &skipped));
    bytes = l->longest;
  }
  const int64_t first = l->at;
  l->at += (int64_t)bytes + skipped + newline;
  *line = (tri_line){l->held + l->begin, bytes, newline, too_long, l->number, first, l->at};
  l->held[l->begin + bytes] = '\0'; /* replaces the newline, or follows the last byte */
  l->begin += bytes + newline;
  return TRI_OK;
}

tri_status tri_lines_next(tri_lines *lines, tri_line *line, bool *there) {
  return next_line(lines, false, line, there);
}

tri_status tri_lines_next_any(tri_lines *lines, tri_line *line, bool *there) {
  return next_line(lines, true, line, there);
}
