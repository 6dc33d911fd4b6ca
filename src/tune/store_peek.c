#include "tune/store_peek.h"

#include "base/file.h"
#include "base/json_kind.h"
#include "tune/explain.h"
#include "tune/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEEK_BUSY_MS = 300, URI_BYTES = 3 * TRI_PATH_BYTES + 64, JOURNAL_KIND_AT = 18, JOURNAL_IS_WAL = 2 };

/* SQLite itself would make a log beside a store that has one when somebody writes, and remove it afterwards. Where
 * there is none now, nobody writes, and the file alone is all there is to read. */
static bool is_at_rest(const char *path) {
  char log[TRI_PATH_BYTES], kind = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  bool read_it = file >= 0 && pread(file, &kind, 1, JOURNAL_KIND_AT) == 1;
  if (file >= 0) close(file);
  return read_it && kind == JOURNAL_IS_WAL && tri_path_with(log, path, "-wal") == TRI_OK && !tri_path_exists(log);
}

/* A path may hold what means something in a URI. */
static void uri_of(const char *path, bool at_rest, char uri[URI_BYTES]) {
  size_t at = (size_t)snprintf(uri, URI_BYTES, "file:");
  for (const char *c = path; *c != '\0' && at + 40 < URI_BYTES; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '/' ||
                 *c == '.' || *c == '-' || *c == '_';
    at += (size_t)snprintf(uri + at, URI_BYTES - at, plain ? "%c" : "%%%02X", (unsigned char)*c);
  }
  snprintf(uri + at, URI_BYTES - at, "?mode=ro%s", at_rest ? "&immutable=1" : "");
}

static tri_status peek_failed(sqlite3 *db, const char *path) {
  int code = sqlite3_errcode(db);
  bool other = code == SQLITE_ERROR || code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  return tri_fail(other ? TRI_BAD_FILE : TRI_IO_FAILED, "%s: cannot read it: %s%s", path, sqlite3_errmsg(db),
                  other ? "; it is damaged or no store of trireme tune" : "");
}

/* What a column holds; states in words. */
static json_t *json_of_value(sqlite3_stmt *row, int column) {
  if (strcmp(sqlite3_column_name(row, column), "state") == 0) {
    return json_string(tri_trial_state_name((tri_trial_state)sqlite3_column_int(row, column)));
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

static tri_status peek_rows(sqlite3 *db, const char *path, const char *sql, json_t *document, const char *key) {
  sqlite3_stmt *query = NULL;
  json_t *rows = json_array();
  json_object_set_new(document, key, rows);
  if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) != SQLITE_OK) return peek_failed(db, path);
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(query)) == SQLITE_ROW) {
    json_t *row = json_object();
    for (int c = 0; c < sqlite3_column_count(query); c++) {
      json_object_set_new(row, sqlite3_column_name(query, c), json_of_value(query, c));
    }
    json_array_append_new(rows, row);
  }
  tri_status status = code == SQLITE_DONE ? TRI_OK : peek_failed(db, path);
  sqlite3_finalize(query);
  return status;
}

/* The rest of the line "KEY ..." of what a store says of its study, up to the first space if that is wanted. */
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

static void describe(const char *text, json_t *document) {
  static const char key[] = "\nobjective ";
  const char *line = strstr(text, key);
  const long number = line == NULL ? 0 : strtol(line + strlen(key), NULL, 10);
  json_object_set_new(document, "study", json_of_line(text, "study", false));
  json_object_set_new(document, "model", json_of_line(text, "model", true));
  json_object_set_new(document, "unit", json_string(tri_explain_objective_unit((tri_objective)number)));
}

static tri_status peek_study(sqlite3 *db, const char *path, json_t *document) {
  sqlite3_stmt *query = NULL;
  if (sqlite3_prepare_v2(db, "SELECT text FROM study WHERE id = 1", -1, &query, NULL) != SQLITE_OK) {
    return peek_failed(db, path);
  }
  int code = sqlite3_step(query);
  const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(query, 0) : NULL;
  describe(text == NULL ? "" : text, document);
  tri_status status = code == SQLITE_ROW || code == SQLITE_DONE ? TRI_OK : peek_failed(db, path);
  sqlite3_finalize(query);
  return status;
}

static tri_status peek_all(sqlite3 *db, const char *path, json_t *document) {
  TRI_TRY(peek_study(db, path, document));
  TRI_TRY(peek_rows(db, path,
                    "SELECT number, point, state, value, memory, reason, seconds, node_s, layout, began FROM trials"
                    " ORDER BY number",
                    document, "trials"));
  return peek_rows(db, path,
                   "SELECT member, round, parent, state, params, loss, reason, seconds, began FROM members"
                   " ORDER BY round, member",
                   document, "members");
}

tri_status tri_store_peek(const char *path, json_t **out) {
  char uri[URI_BYTES];
  sqlite3 *db = NULL;
  if (!tri_store_is_one(path)) return tri_fail(TRI_BAD_FILE, "%s is no store of trireme tune", path);
  uri_of(path, is_at_rest(path), uri);
  json_t *document = json_object();
  tri_status status = TRI_OK;
  if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
    status = peek_failed(db, path);
  }
  if (status == TRI_OK) sqlite3_busy_timeout(db, PEEK_BUSY_MS);
  if (status == TRI_OK) status = peek_all(db, path, document);
  sqlite3_close(db);
  if (status == TRI_OK)
    *out = document;
  else
    json_decref(document);
  return status;
}
