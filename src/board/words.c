/* What the words beside a run's metrics say: how many steps it is to make, and why it failed. */
#include "board/internal.h"

#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CONFIG_BYTES = 1 << 20, FAILURES_BYTES = 16384 };

tri_status tri_board_read_end(const char *root, const char *relative, size_t most_bytes, char **out, bool *cut) {
  struct stat about;
  char *text = NULL;
  int file = -1;
  TRI_TRY(tri_file_open_below(root, relative, &file));
  tri_status status = fstat(file, &about) == 0 ? TRI_OK : tri_fail(TRI_IO_FAILED, "cannot read %s", relative);
  *cut = status == TRI_OK && about.st_size > (off_t)most_bytes;
  if (status == TRI_OK) status = tri_alloc("the end of a file", most_bytes + 1, 1, &text);
  if (status == TRI_OK) {
    const ssize_t got = pread(file, text, most_bytes, *cut ? about.st_size - (off_t)most_bytes : 0);
    text[got < 0 ? 0 : got] = '\0';
  }
  close(file);
  *out = text;
  return status;
}

static const char *line_after(const char *line) {
  const char *end = strchr(line, '\n');
  return end == NULL ? NULL : end + 1;
}

/* ---- config.yaml ------------------------------------------------------------------------------------------------- */

/* As a run writes it: `steps:` in the section `optimizer:`, where they follow from epochs as a comment. */
static int64_t steps_in(const char *text) {
  static const char *const keys[] = {"  steps: ", "  # steps: "};
  bool inside = false;
  for (const char *line = text; line != NULL; line = line_after(line)) {
    if (isalpha((unsigned char)*line)) inside = strncmp(line, "optimizer:", strlen("optimizer:")) == 0;
    for (size_t i = 0; inside && i < sizeof keys / sizeof keys[0]; i++) {
      if (strncmp(line, keys[i], strlen(keys[i])) != 0) continue;
      long long steps = strtoll(line + strlen(keys[i]), NULL, 10);
      return steps > 0 && steps <= INT64_C(1) << 53 ? steps : 0;
    }
  }
  return 0;
}

int64_t tri_board_planned_steps(const char *root, const char *relative) {
  char *text = NULL;
  size_t bytes = 0;
  if (tri_file_read_below(root, relative, MOST_CONFIG_BYTES, &text, &bytes) != TRI_OK) return 0;
  int64_t steps = steps_in(text);
  tri_free(text);
  return steps;
}

/* ---- failures.txt ------------------------------------------------------------------------------------------------ */

/* Behind "rank 3: ", "rank 3 (pipeline 1), at step 7: " and "job of 4 ranks: ": who failed; NULL if a line does not
 * begin so. */
static const char *behind_who(const char *line) {
  static const char *const beginnings[] = {"rank ", "job of "};
  for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
    const char *number = line + strlen(beginnings[i]);
    if (strncmp(line, beginnings[i], strlen(beginnings[i])) != 0 || !isdigit((unsigned char)*number)) continue;
    const char *behind = number + strspn(number, "0123456789"), *colon = behind + strcspn(behind, ":\n");
    const bool is_who = *behind == ':' || strncmp(behind, " (", 2) == 0 || strncmp(behind, " ranks:", 7) == 0;
    return is_who && strncmp(colon, ": ", 2) == 0 ? colon + 2 : NULL;
  }
  return NULL;
}

/* The file is added to at each failure: the last one counts. */
static const char *last_failure(const char *text) {
  const char *found = NULL;
  for (const char *line = text; line != NULL; line = line_after(line)) {
    if (behind_who(line) != NULL) found = line;
  }
  for (const char *behind; found != NULL && (behind = behind_who(found)) != NULL;) found = behind;
  return found != NULL ? found : text;
}

/* Up to what is to be done about it, or what follows from it. */
static size_t first_sentence(const char *text) {
  size_t bytes = 0;
  while (text[bytes] != '\0' && text[bytes] != '\n') {
    bool ends = text[bytes] == ';' || text[bytes] == '.';
    if (ends && (text[bytes + 1] == ' ' || text[bytes + 1] == '\n' || text[bytes + 1] == '\0')) break;
    bytes++;
  }
  return bytes;
}

void tri_board_reason(const char *root, const char *relative, char out[TRI_BOARD_REASON_BYTES]) {
  char *text = NULL;
  bool cut = false;
  out[0] = '\0';
  if (tri_board_read_end(root, relative, FAILURES_BYTES, &text, &cut) == TRI_OK) {
    const char *failure = last_failure(text);
    snprintf(out, TRI_BOARD_REASON_BYTES, "%.*s", (int)first_sentence(failure), failure);
  }
  tri_free(text);
}
