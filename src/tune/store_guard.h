/* Databases that somebody else may have written. SQL is a program: a view in a table's place may run for ever, a
 * trigger may do what it likes with what is written, one value may take gigabytes. So a store is read with views and
 * triggers switched off, sizes limited, a deadline for every statement, and only where all in it are plain tables. */
#ifndef TRI_TUNE_STORE_GUARD_H
#define TRI_TUNE_STORE_GUARD_H

#include "base/status.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Rows of a table (a space has no more points), and numbers of them: those of forgotten trials are not given again. */
enum { TRI_STORE_MOST_ROWS = 1000000, TRI_STORE_MOST_NUMBER = 1000000000 };

/* Of one connection, which it outlives. */
typedef struct tri_store_guard {
  double most_s;  /* that a statement may take */
  double until_s; /* by tri_clock_s */
} tri_store_guard;

/* Of a connection that was opened just now. */
void tri_store_guard_begin(tri_store_guard *guard, sqlite3 *db, double most_s);
/* The next statement begins: it has the whole time. */
void tri_store_guard_renew(tri_store_guard *guard);

/* TRI_BAD_FILE names what is neither a table nor an index, whatever it calls itself. *code is SQLite's where it could
 * not be asked, for the caller to say (SQLITE_OK else). */
tri_status tri_store_check_schema(sqlite3 *db, const char *path, int *code);

/* Whether SQLite failed over what the file holds, which no second try mends. */
bool tri_store_is_damage(int code);

/* Numbers of a row. `what` is what they are called in a message: "trial", "member". TRI_BAD_FILE. */
tri_status tri_store_check_number(const char *path, const char *what, int64_t number, int64_t most);
tri_status tri_store_check_state(const char *path, const char *what, int64_t number, int64_t state, int64_t most);
tri_status tri_store_check_real(const char *path, const char *what, int64_t number, const char *column, double value);

#endif
