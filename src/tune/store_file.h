/* Shared by the parts of the store: the open file, and the error messages of SQLite. */
#ifndef TRI_TUNE_STORE_FILE_H
#define TRI_TUNE_STORE_FILE_H

#include "files/file.h"
#include "tune/rounds.h"
#include "tune/store.h"
#include "tune/store_guard.h"

struct tri_store {
  sqlite3 *db;
  tri_store_guard guard;
  const tri_study *study;
  char path[TRI_PATH_BYTES];
  tri_trial *trials; /* trials as they were last read; the first num_ended trials have ended */
  int64_t num_trials, num_ended, room;
  tri_member *members; /* members as they were last read */
  double beat_s;       /* time of the last write by tri_store_beat */
};

/* Fails with SQLite's message about the last call: with TRI_BAD_FILE if the file is damaged or a statement took too
 * long, otherwise with TRI_IO_FAILED. `what` is the action that failed, for the message. */
tri_status tri_store_failed(const tri_store *s, const char *what);
/* Prepares a statement, and starts its deadline. Release *out with sqlite3_finalize. */
tri_status tri_store_prepare(tri_store *s, const char *sql, sqlite3_stmt **out);

enum { TRI_HOST_BYTES = 64 };
/* Sets `host` to the name of this machine; to "" if it is not known. */
void tri_store_host(char host[TRI_HOST_BYTES]);

#endif
