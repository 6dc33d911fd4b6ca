/* Reads texts of a run: the number of planned steps, the objective, and the reason of its last failure. */
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

/* Returns the text after `key`, such as " KEY: ", in a section of a config.yaml that a run has written; NULL if the
 * section does not have it. */
static const char *value_in(const char *text, const char *section, const char *key) {
  bool inside = false;
  for (const char *line = text; line != NULL; line = line_after(line)) {
    if (isalpha((unsigned char)*line)) inside = strncmp(line, section, strlen(section)) == 0;
    if (inside && strncmp(line, key, strlen(key)) == 0) return line + strlen(key);
  }
  return NULL;
}

/* Returns the number of planned steps; 0 if it is not known. If it follows from the number of epochs, the file has it
 * in a comment. */
static int64_t steps_in(const char *text) {
  const char *value = value_in(text, "optimizer:", "  steps: ");
  if (value == NULL) value = value_in(text, "optimizer:", "  # steps: ");
  const long long steps = value == NULL ? 0 : strtoll(value, NULL, 10);
  return steps > 0 && steps <= INT64_C(1) << 53 ? steps : 0;
}

static void copy_objective(const char *text, char out[TRI_BOARD_OBJECTIVE_BYTES]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const char *value = value_in(text, "objective:", "  name: ");
  const size_t bytes = value == NULL ? 0 : strspn(value, letters);
  out[0] = '\0';
  if (bytes == 0 || bytes >= TRI_BOARD_OBJECTIVE_BYTES) return;
  memcpy(out, value, bytes);
  out[bytes] = '\0';
  if (strcmp(out, "cross_entropy") == 0) out[0] = '\0';
}

void tri_board_read_config(const char *root, const char *relative, int64_t *steps,
                           char objective[TRI_BOARD_OBJECTIVE_BYTES]) {
  char *text = NULL;
  size_t bytes = 0;
  *steps = 0;
  objective[0] = '\0';
  if (tri_file_read_below(root, relative, MOST_CONFIG_BYTES, &text, &bytes) != TRI_OK) return;
  *steps = steps_in(text);
  copy_objective(text, objective);
  tri_free(text);
}

/* ---- failures.txt ------------------------------------------------------------------------------------------------ */

/* Returns the text after the time of day at the beginning of a line, "2026-11-30T10:20:30.123Z "; the line if it begins
 * without one. */
static const char *after_time(const char *line) {
  static const char form[] = "0000-00-00T00:00:00.000Z ";
  for (size_t i = 0; i < sizeof form - 1; i++) {
    if (form[i] == '0' ? !isdigit((unsigned char)line[i]) : line[i] != form[i]) return line;
  }
  return line + sizeof form - 1;
}

/* Parses the beginning of a failure's line, "rank 3" or "job of 4 ranks". Returns the text after it; NULL if the line
 * begins in another way. */
static const char *after_number(const char *line) {
  static const char *const beginnings[] = {"rank ", "job of "};
  for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
    const char *number = line + strlen(beginnings[i]);
    if (strncmp(line, beginnings[i], strlen(beginnings[i])) != 0 || !isdigit((unsigned char)*number)) continue;
    const char *rest = number + strspn(number, "0123456789");
    return i == 0 ? rest : strncmp(rest, " ranks", 6) == 0 ? rest + 6 : NULL;
  }
  return NULL;
}

/* Returns the text after the name of the failed rank or job: "rank 3: ", "rank 3 (pipeline 1), at step 7: " or "job of
 * 4 ranks: ". Returns NULL if the line does not begin so, for example "rank 3 (pipeline 1) on node7 was killed by
 * signal 9". */
static const char *behind_who(const char *line) {
  static const char at_step[] = ", at step ";
  const char *rest = after_number(after_time(line));
  if (rest == NULL) return NULL;
  if (strncmp(rest, " (", 2) == 0) {
    rest += strcspn(rest, ")\n");
    if (*rest != ')') return NULL;
    rest++;
  }
  if (strncmp(rest, at_step, strlen(at_step)) == 0) {
    rest += strlen(at_step);
    rest += strspn(rest, "0123456789");
  }
  return strncmp(rest, ": ", 2) == 0 ? rest + 2 : NULL;
}

/* Returns the message of the last failure in the file; each new failure is appended at the end. Returns the whole text
 * if no line begins with a rank or a job. */
static const char *last_failure(const char *text) {
  const char *found = NULL;
  for (const char *line = text; line != NULL; line = line_after(line)) {
    if (behind_who(line) != NULL) found = line;
  }
  for (const char *behind; found != NULL && (behind = behind_who(found)) != NULL;) found = behind;
  return found != NULL ? found : after_time(text);
}

/* Returns the length of the first sentence in bytes. Advice and consequences, which follow after it, are not shown. */
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
