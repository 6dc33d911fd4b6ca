#include "tune/store_guard.h"

#include "base/clock.h"

#include <math.h>
#include <stddef.h>

/* Limits. A store of a million trials is within them. */
enum { MOST_VALUE_BYTES = 1 << 20, MOST_SQL_BYTES = 1 << 16, MOST_HEAP_BYTES = 64 << 20, ASK_EVERY = 2000 };

static const struct {
  int what, most;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES},
    {SQLITE_LIMIT_SQL_LENGTH, MOST_SQL_BYTES},
    {SQLITE_LIMIT_COLUMN, 64},
    {SQLITE_LIMIT_EXPR_DEPTH, 64},
    {SQLITE_LIMIT_COMPOUND_SELECT, 4},
    {SQLITE_LIMIT_VDBE_OP, 10000},
    {SQLITE_LIMIT_FUNCTION_ARG, 8},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 32},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
  int what, on;
} switches[] = {
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
};

static int is_late(void *context) {
  const tri_store_guard *guard = context;
  return tri_clock_s() > guard->until_s;
}

void tri_store_guard_renew(tri_store_guard *guard) { guard->until_s = tri_clock_s() + guard->most_s; }

void tri_store_guard_begin(tri_store_guard *guard, sqlite3 *db, double most_s) {
  guard->most_s = most_s;
  tri_store_guard_renew(guard);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) sqlite3_limit(db, limits[i].what, limits[i].most);
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    /* If this SQLite does not know a switch, the call fails, and the switch is not needed. */
    (void)sqlite3_db_config(db, switches[i].what, switches[i].on, NULL);
  }
  sqlite3_hard_heap_limit64(MOST_HEAP_BYTES);
  sqlite3_progress_handler(db, ASK_EVERY, is_late, guard);
}

/* Fails with TRI_BAD_FILE if the schema has more than plain tables and indexes, judged by both their types and their
 * texts. SQLite uses the text: a row of sqlite_schema may have the type `table` and define a view. */
tri_status tri_store_check_schema(sqlite3 *db, const char *path, int *code) {
  static const char sql[] =
      "SELECT CASE WHEN type IN ('table', 'index') THEN 'view or virtual table' ELSE type END, name"
      " FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR (sql IS NOT NULL AND"
      " sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %' AND sql NOT LIKE 'CREATE UNIQUE INDEX %')";
  sqlite3_stmt *query = NULL;
  tri_status status = TRI_OK;
  *code = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
  if (*code == SQLITE_OK) *code = sqlite3_step(query);
  if (*code == SQLITE_ROW) {
    const char *type = (const char *)sqlite3_column_text(query, 0), *name = (const char *)sqlite3_column_text(query, 1);
    status = tri_fail(TRI_BAD_FILE,
                      "%s: `%.64s` is a %.32s: stores of trireme tune have plain tables only, so another program has "
                      "written this one; name another file",
                      path, name == NULL ? "" : name, type == NULL ? "?" : type);
  }
  if (*code == SQLITE_ROW || *code == SQLITE_DONE) *code = SQLITE_OK;
  sqlite3_finalize(query);
  return status;
}

bool tri_store_is_damage(int code) {
  return code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_TOOBIG || code == SQLITE_INTERRUPT;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

tri_status tri_store_check_number(const char *path, const char *what, int64_t number, int64_t most) {
  if (number >= 1 && number <= most) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: %s %lld is not a valid number; %ss are numbered from 1 to %lld at most; another program has "
                  "written this store, or it is damaged; name another file",
                  path, what, (long long)number, what, (long long)most);
}

tri_status tri_store_check_state(const char *path, const char *what, int64_t number, int64_t state, int64_t most) {
  if (state >= 0 && state <= most) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: %s %lld: its state is %lld, and states are 0 to %lld; name another file", path,
                  what, (long long)number, (long long)state, (long long)most);
}

tri_status tri_store_check_real(const char *path, const char *what, int64_t number, const char *column, double value) {
  const double most = 1e30; /* the square of this number is finite */
  if (fabs(value) <= most) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: %s %lld: its `%s` is %g, but %g is the maximum; name another file", path, what,
                  (long long)number, column, value, most);
}
