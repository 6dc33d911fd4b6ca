/* Guards for databases that other programs may have written. SQL is a program: a view in place of a table may never
 * end, a trigger may change what is written, and a single value may have gigabytes. So a store is read with views and
 * triggers switched off, with limits on sizes, and with a deadline for every statement. A store is only read if it
 * contains nothing but plain tables. */
#ifndef TRI_TUNE_STORE_GUARD_H
#define TRI_TUNE_STORE_GUARD_H

#include "base/status.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Maximum rows of a table (a space has no more points), and maximum number of a row. The second is larger, because
 * numbers of forgotten trials are not reused. */
enum { TRI_STORE_MOST_ROWS = 1000000, TRI_STORE_MOST_NUMBER = 1000000000 };

/* Guard of one connection; it must outlive the connection. */
typedef struct tri_store_guard {
  double most_s;  /* maximum duration of a statement */
  double until_s; /* deadline of the current statement, on tri_clock_s */
} tri_store_guard;

/* Sets the limits of a connection that was just opened, and the limit of SQLite's memory in this process. Starts the
 * deadline of the first statement. */
void tri_store_guard_begin(tri_store_guard *guard, sqlite3 *db, double most_s);
/* Restarts the deadline for the next statement. */
void tri_store_guard_renew(tri_store_guard *guard);

/* Fails with TRI_BAD_FILE if the schema has anything other than tables and indexes, by type or by text; the message
 * names it. If the schema cannot be read, sets *code to SQLite's error, which the caller reports; otherwise sets *code
 * to SQLITE_OK. */
tri_status tri_store_check_schema(sqlite3 *db, const char *path, int *code);

/* Returns whether SQLite failed because of the contents of the file, so that a retry cannot succeed. */
bool tri_store_is_damage(int code);

/* These functions fail with TRI_BAD_FILE if the number, the state or a value of the row `number` is out of range.
 * `what` names the kind of row in messages: "trial" or "member". */
tri_status tri_store_check_number(const char *path, const char *what, int64_t number, int64_t most);
tri_status tri_store_check_state(const char *path, const char *what, int64_t number, int64_t state, int64_t most);
tri_status tri_store_check_real(const char *path, const char *what, int64_t number, const char *column, double value);

#endif
