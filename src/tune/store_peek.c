#include "tune/store_peek.h"

#include "files/file.h"
#include "files/json_kind.h"
#include "tune/store.h"
#include "tune/store_guard.h"
#include "tune/study_objective.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  PEEK_BUSY_MS = 300,
  MOST_PEEK_S = 1, /* maximum duration of a statement in seconds */
  MOST_FILE_BYTES = 512 << 20,
  MOST_SHOWN_ROWS = 50000,
  MOST_SHOWN_BYTES = 32 << 20, /* maximum bytes of all texts together */
  URI_BYTES = 3 * TRI_PATH_BYTES + 64,
  JOURNAL_KIND_AT = 18,
  JOURNAL_IS_WAL = 2
};

typedef struct peek {
  sqlite3 *db;
  tri_store_guard guard;
  char path[TRI_PATH_BYTES];
  int64_t bytes; /* number of bytes of the texts read so far */
} peek;

/* Opens a regular file for SQLite in place of open(2), without following links. Returns -1 and sets errno on failure.
 * SQLite checks and opens a file by its whole path, so a folder of this path could be replaced by a link between the
 * check and the opening. */
static int open_plain(const char *path, int flags, int mode) {
  const char *name = NULL;
  struct stat about;
  int above = -1;
  if (path[0] != '/' || tri_folder_open_above("/", path + 1, &above, &name) != TRI_OK) {
    errno = EACCES;
    return -1;
  }
  int file = openat(above, name, flags | O_NOFOLLOW | O_NONBLOCK, mode), reason = errno;
  close(above);
  if (file >= 0 && (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))) {
    close(file);
    file = -1;
    reason = EACCES;
  }
  errno = reason;
  return file;
}

tri_status tri_store_peek_prepare(void) {
  sqlite3_initialize();
  sqlite3_vfs *system = sqlite3_vfs_find(NULL);
  if (system != NULL && system->iVersion >= 3 && system->xSetSystemCall != NULL &&
      system->xSetSystemCall(system, "open", (sqlite3_syscall_ptr)open_plain) == SQLITE_OK) {
    return TRI_OK;
  }
  return tri_fail(TRI_UNSUPPORTED, "this SQLite has no hook for opening files");
}

/* Fails with TRI_BAD_FILE if the file is not a store or is too large. Called before SQLite opens it. Sets *at_rest to
 * whether the store uses a write-ahead log, and the log does not exist: then no process writes, and the file alone is
 * complete. SQLite itself would create such a log, and remove it afterwards. */
static tri_status check_store(const char *root, const char *relative, bool *at_rest) {
  char log[TRI_PATH_BYTES], kind = 0;
  struct stat about;
  int file = -1;
  int64_t bytes = 0;
  TRI_TRY(tri_path_with(log, relative, "-wal"));
  TRI_TRY(tri_file_open_below(root, relative, &file));
  bool is_one = tri_store_begins(file);
  bool logs = pread(file, &kind, 1, JOURNAL_KIND_AT) == 1 && kind == JOURNAL_IS_WAL;
  if (fstat(file, &about) == 0) bytes = about.st_size;
  close(file);
  if (!is_one) return tri_fail(TRI_BAD_FILE, "%s/%s is not a store of trireme tune", root, relative);
  bool is_written = tri_file_find_below(root, log, &about);
  if (is_written && about.st_size > bytes) bytes = about.st_size;
  *at_rest = logs && !is_written;
  if (bytes <= MOST_FILE_BYTES) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s/%s has more than %d MB, more than is shown; ask `trireme tune report`", root,
                  relative, MOST_FILE_BYTES >> 20);
}

/* Writes a path as a URI that is opened only for reading, with its special characters escaped. `at_rest`: whether
 * SQLite may take the file as unchanging. */
static void uri_of(const char *path, bool at_rest, char uri[URI_BYTES]) {
  size_t at = (size_t)snprintf(uri, URI_BYTES, "file:");
  for (const char *c = path; *c != '\0' && at + 40 < URI_BYTES; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '/' ||
                 *c == '.' || *c == '-' || *c == '_';
    at += (size_t)snprintf(uri + at, URI_BYTES - at, plain ? "%c" : "%%%02X", (unsigned char)*c);
  }
  snprintf(uri + at, URI_BYTES - at, "?mode=ro%s", at_rest ? "&immutable=1" : "");
}

static tri_status peek_failed(const peek *p) {
  int code = sqlite3_errcode(p->db);
  bool other = code == SQLITE_ERROR || tri_store_is_damage(code);
  if (code == SQLITE_INTERRUPT) {
    return tri_fail(TRI_BAD_FILE, "%s: cannot read it in %d s; ask `trireme tune report`", p->path, MOST_PEEK_S);
  }
  return tri_fail(other ? TRI_BAD_FILE : TRI_IO_FAILED, "%s: cannot read it: %s%s", p->path, sqlite3_errmsg(p->db),
                  other ? "; it is damaged or not a store of trireme tune" : "");
}

static tri_status peek_prepare(peek *p, const char *sql, sqlite3_stmt **out) {
  tri_store_guard_renew(&p->guard);
  return sqlite3_prepare_v2(p->db, sql, -1, out, NULL) == SQLITE_OK ? TRI_OK : peek_failed(p);
}

/* Returns the value of a column as JSON; for a state its word. */
static json_t *json_of_value(sqlite3_stmt *row, int column) {
  if (strcmp(sqlite3_column_name(row, column), "state") == 0) {
    int state = sqlite3_column_int(row, column);
    if (state == TRI_STORE_STOPPED_EARLY) state = TRI_TRIAL_DONE;
    return json_string(tri_trial_state_name((tri_trial_state)state));
  }
  double real = sqlite3_column_double(row, column);
  json_t *text = NULL;
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER: return json_integer(sqlite3_column_int64(row, column));
    case SQLITE_FLOAT: return tri_json_number(real);
    case SQLITE_TEXT: text = json_string((const char *)sqlite3_column_text(row, column)); break;
    default: break;
  }
  return text == NULL ? json_null() : text;
}

/* Adds one row, whose first column is its number, to `rows`. Fails with TRI_BAD_FILE if the number is not valid, or if
 * the rows are too many or too long. */
static tri_status peek_row(peek *p, sqlite3_stmt *query, json_t *rows) {
  const char *what = sqlite3_column_name(query, 0);
  if (strcmp(what, "number") == 0) what = "trial";
  TRI_TRY(tri_store_check_number(p->path, what, sqlite3_column_int64(query, 0), TRI_STORE_MOST_NUMBER));
  json_t *row = json_object();
  for (int c = 0; c < sqlite3_column_count(query); c++) {
    json_object_set_new(row, sqlite3_column_name(query, c), json_of_value(query, c));
    if (sqlite3_column_type(query, c) == SQLITE_TEXT) p->bytes += sqlite3_column_bytes(query, c);
  }
  json_array_append_new(rows, row);
  if (json_array_size(rows) <= MOST_SHOWN_ROWS && p->bytes <= MOST_SHOWN_BYTES) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s has more than %d %ss, or long texts, more than is shown; ask `trireme tune report`",
                  p->path, MOST_SHOWN_ROWS, what);
}

static tri_status peek_rows(peek *p, const char *sql, json_t *document, const char *key) {
  sqlite3_stmt *query = NULL;
  json_t *rows = json_array();
  json_object_set_new(document, key, rows);
  TRI_TRY(peek_prepare(p, sql, &query));
  tri_status status = TRI_OK;
  int code = SQLITE_ROW;
  while (status == TRI_OK && (code = sqlite3_step(query)) == SQLITE_ROW) status = peek_row(p, query, rows);
  if (status == TRI_OK && code != SQLITE_DONE) status = peek_failed(p);
  sqlite3_finalize(query);
  return status;
}

/* Returns the rest of the line that begins with KEY in a store's description of its study; with `one_word` only up to
 * the first space. Returns JSON null if there is no such line. */
static json_t *json_of_line(const char *text, const char *key, bool one_word) {
  size_t bytes = strlen(key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, key, bytes) != 0 || line[bytes] != ' ') continue;
    json_t *word = json_stringn(line + bytes + 1, strcspn(line + bytes + 1, one_word ? " \n" : "\n"));
    return word == NULL ? json_null() : word;
  }
  return json_null();
}

/* Returns the positive number in the line KEY NUMBER; JSON null if there is no such line. */
static json_t *json_of_number(const char *text, const char *key) {
  json_t *word = json_of_line(text, key, true);
  const long long number = json_is_string(word) ? strtoll(json_string_value(word), NULL, 10) : 0;
  json_decref(word);
  return number > 0 ? json_integer(number) : json_null();
}

/* Adds the description of the study to the document. Returns the objective of the study. */
static tri_objective describe(const char *text, json_t *document) {
  static const char key[] = "\nobjective ";
  const char *line = strstr(text, key);
  const long number = line == NULL ? 0 : strtol(line + strlen(key), NULL, 10);
  json_object_set_new(document, "study", json_of_line(text, "study", false));
  json_object_set_new(document, "model", json_of_line(text, "model", true));
  json_object_set_new(document, "steps", json_of_number(text, "steps"));
  const tri_objective objective = (tri_objective)number;
  json_object_set_new(document, "unit", json_string(tri_objective_unit(objective)));
  json_object_set_new(document, "lower_is_better", json_boolean(tri_objective_shown(objective, 1) < 0));
  return objective;
}

static tri_status peek_study(peek *p, json_t *document, tri_objective *objective) {
  sqlite3_stmt *query = NULL;
  TRI_TRY(peek_prepare(p, "SELECT text FROM study WHERE id = 1", &query));
  int code = sqlite3_step(query);
  const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(query, 0) : NULL;
  *objective = describe(text == NULL ? "" : text, document);
  tri_status status = code == SQLITE_ROW || code == SQLITE_DONE ? TRI_OK : peek_failed(p);
  sqlite3_finalize(query);
  return status;
}

static tri_status peek_all(peek *p, json_t *document) {
  tri_objective objective = TRI_OBJECTIVE_TFLOPS;
  char sql[200];
  TRI_TRY(peek_study(p, document, &objective));
  snprintf(sql, sizeof sql,
           "SELECT number, point, state, %s AS value, memory, reason, seconds, node_s, layout, began FROM trials"
           " ORDER BY number",
           tri_objective_shown(objective, 1) < 0 ? "-value" : "value");
  TRI_TRY(peek_rows(p, sql, document, "trials"));
  return peek_rows(p,
                   "SELECT member, round, parent, state, params, loss, reason, seconds, began FROM members"
                   " ORDER BY round, member",
                   document, "members");
}

static tri_status peek_open(peek *p, bool at_rest) {
  char uri[URI_BYTES];
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOFOLLOW;
  int code = SQLITE_OK;
  uri_of(p->path, at_rest, uri);
  if (sqlite3_open_v2(uri, &p->db, flags, NULL) != SQLITE_OK) return peek_failed(p);
  tri_store_guard_begin(&p->guard, p->db, MOST_PEEK_S);
  sqlite3_busy_timeout(p->db, PEEK_BUSY_MS);
  if (sqlite3_exec(p->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL) != SQLITE_OK) return peek_failed(p);
  tri_status status = tri_store_check_schema(p->db, p->path, &code);
  return code == SQLITE_OK ? status : peek_failed(p);
}

tri_status tri_store_peek(const char *root, const char *relative, json_t **out) {
  peek p = {0};
  bool at_rest = false;
  TRI_TRY(tri_path_join(p.path, root, relative));
  TRI_TRY(check_store(root, relative, &at_rest));
  json_t *document = json_object();
  tri_status status = peek_open(&p, at_rest);
  if (status == TRI_OK) status = peek_all(&p, document);
  sqlite3_close(p.db);
  if (status == TRI_OK)
    *out = document;
  else
    json_decref(document);
  return status;
}
