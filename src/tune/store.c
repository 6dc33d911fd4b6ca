#include "tune/store_file.h"
#include "tune/study_objective.h"

#include "base/clock.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"
#include "model/model_config.h"
#include "tune/short_run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BUSY_MS = 10000, MOST_STATEMENT_S = 20, FORMAT = 2, BEAT_S = 10, MOST_SILENT_S = 300 };

tri_status tri_store_failed(const tri_store *s, const char *what) {
  int code = sqlite3_errcode(s->db);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return tri_fail(TRI_IO_FAILED, "%s is locked by another program for more than %d s: cannot %s", s->path,
                    BUSY_MS / 1000, what);
  }
  if (code == SQLITE_INTERRUPT) {
    return tri_fail(TRI_BAD_FILE, "%s: cannot %s in %g s; it is damaged or not a study; name another file", s->path,
                    what, s->guard.most_s);
  }
  bool damaged = tri_store_is_damage(code);
  if (code == SQLITE_FULL || code == SQLITE_IOERR) { /* the reason of a failed write is not the contents of the file */
    int error = code == SQLITE_FULL ? ENOSPC : sqlite3_system_errno(s->db);
    if (error != 0) return tri_fail(TRI_IO_FAILED, "%s: cannot %s: %s", s->path, what, tri_write_fault(error));
  }
  return tri_fail(damaged ? TRI_BAD_FILE : TRI_IO_FAILED, "%s: cannot %s: %s%s", s->path, what, sqlite3_errmsg(s->db),
                  damaged ? "; it is damaged or not a study; name another file" : "");
}

static tri_status execute(tri_store *s, const char *sql, const char *what) {
  tri_store_guard_renew(&s->guard);
  return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TRI_OK : tri_store_failed(s, what);
}

tri_status tri_store_prepare(tri_store *s, const char *sql, sqlite3_stmt **out) {
  tri_store_guard_renew(&s->guard);
  return sqlite3_prepare_v2(s->db, sql, -1, out, NULL) == SQLITE_OK ? TRI_OK : tri_store_failed(s, "read it");
}

/* ---- the study --------------------------------------------------------------------------------------------------- */

static uint64_t sum_of(const char *text) { return tri_fnv1a(TRI_FNV1A_BEGIN, text); }

/* Removes a comment, and the blanks before it, from a line of printed values. */
static void cut_comment(char *line) {
  bool quoted = false;
  char *end = line;
  for (char *at = line; *at != '\0' && (quoted || *at != '#'); at++) {
    if (*at == '"') quoted = !quoted;
    if (*at != ' ') end = at + 1;
  }
  *end = '\0';
}

/* Returns whether a line of printed values is empty, or sets a key to an empty value. A later version may add such a
 * key, whose default is empty, to a table. */
static bool is_nothing(const char *line) {
  static const char *const nothing[] = {": 0", ": 0.0", ": false", ": \"\"", ": auto", ": []"};
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
    const size_t length = strlen(line), end = strlen(nothing[i]);
    if (length > end && strcmp(line + length - end, nothing[i]) == 0) return true;
  }
  return line[0] == '\0';
}

/* Returns a hash of the part of a study that was read from the file `name`; 0 if `name` is empty. Skips comments and
 * keys with empty values, so that the tables of other versions give the same hash. */
static uint64_t sum_of_values(const char *name, const tri_config_table *table, const void *values) {
  char *text = NULL, *rest = NULL;
  uint64_t sum = TRI_FNV1A_BEGIN;
  if (name[0] == '\0' || tri_config_print(table, values, "", &text) != TRI_OK) return 0;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    cut_comment(line);
    if (!is_nothing(line)) sum = tri_fnv1a(tri_fnv1a(sum, line), "\n");
  }
  tri_free(text);
  return sum;
}

static uint64_t sum_of_file(const char *path) {
  enum { MOST_BYTES = 1 << 20 };
  char *text = NULL;
  if (path[0] == '\0' || tri_file_read(path, MOST_BYTES, &text, NULL) != TRI_OK) return 0;
  uint64_t sum = sum_of(text);
  tri_free(text);
  return sum;
}

/* Prefix of the line with the steps of a study of validation losses or accuracies. The study's file may leave these
 * steps to the run file. */
#define STEPS_LINE "steps "

/* Writes the facts of a study that must be equal for trials to be comparable. */
static void store_describe(const tri_study *study, char *text, size_t bytes) {
  const char *cluster = tri_study_calibrates(study) ? "" : study->cluster_name;
  size_t held = (size_t)snprintf(text, bytes,
                                 "study %s\nmodel %s v2:%016" PRIx64 "\ncluster %s v2:%016" PRIx64
                                 "\nsystem %s v2:%016" PRIx64 "\nprecision %s\nrun %s %016" PRIx64
                                 "\n"
                                 "devices %lld\nglobal_batch %lld\nsequence %lld\nobjective %d\n",
                                 study->name, study->model_name,
                                 sum_of_values(study->model_name, &tri_model_table, &study->model), study->cluster_name,
                                 sum_of_values(cluster, &tri_cluster_table, &study->cluster), study->system_name,
                                 sum_of_values(study->system_name, &tri_system_table, &study->system),
                                 study->precision_name, study->run, sum_of_file(study->run), (long long)study->devices,
                                 (long long)study->global_batch, (long long)study->sequence, (int)study->objective);
  if (study->objective == TRI_OBJECTIVE_TIME_TO_LOSS && held < bytes) {
    held += (size_t)snprintf(text + held, bytes - held, "target %g in %lld steps and %g minutes\n",
                             study->trial.target_loss, (long long)study->trial.warmup + (long long)study->trial.steps,
                             study->trial.minutes);
  }
  if (tri_objective_is_last_loss(study->objective) && held < bytes)
    held += (size_t)snprintf(text + held, bytes - held, STEPS_LINE "%lld\n", (long long)study->trial.steps);
  for (int64_t k = 0; k < study->space.num_knobs && held < bytes; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    held += (size_t)snprintf(text + held, bytes - held, "%s", knob->name);
    if (knob->count == 0 && held < bytes) {
      held += (size_t)snprintf(text + held, bytes - held, " %g to %g", knob->low, knob->high);
    }
    for (int64_t v = 0; v < knob->count && held < bytes; v++) {
      held += (size_t)snprintf(text + held, bytes - held, " %s", knob->words[v]);
    }
    if (held < bytes) held += (size_t)snprintf(text + held, bytes - held, "\n");
  }
}

/* Returns whether two descriptions are equal, apart from hashes of an earlier version, which included help texts. */
static bool is_same_but_for_sums(const char *theirs, const char *mine) {
  while (*theirs != '\0' && *mine != '\0') {
    const bool sum = strncmp(mine, " v2:", 4) == 0 && strncmp(theirs, " v2:", 4) != 0 && *theirs == ' ';
    if (!sum && *theirs != *mine) return false;
    theirs += sum ? 1 + strspn(theirs + 1, "0123456789abcdef") : 1;
    mine += sum ? strcspn(mine, "\n") : 1;
  }
  return *theirs == *mine;
}

static tri_status accept_sums(tri_store *s, const char *mine) {
  sqlite3_stmt *query = NULL;
  tri_warn(
      "%s was written by an earlier version, so it is not checked whether its model, cluster and system are unchanged",
      s->path);
  TRI_TRY(tri_store_prepare(s, "UPDATE study SET text = ? WHERE id = 1", &query));
  sqlite3_bind_text(query, 1, mine, -1, SQLITE_TRANSIENT);
  tri_status status = sqlite3_step(query) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write the study");
  sqlite3_finalize(query);
  return status;
}

/* Reads the description in the store; "" if it has none. */
static tri_status read_description(tri_store *s, char *text, size_t bytes) {
  sqlite3_stmt *query = NULL;
  TRI_TRY(tri_store_prepare(s, "SELECT text FROM study WHERE id = 1", &query));
  const char *found = sqlite3_step(query) == SQLITE_ROW ? (const char *)sqlite3_column_text(query, 0) : NULL;
  snprintf(text, bytes, "%s", found == NULL ? "" : found);
  sqlite3_finalize(query);
  return TRI_OK;
}

static tri_status compare_descriptions(const tri_store *s, const char *mine, const char *theirs) {
  size_t same = 0, line = 0;
  while (mine[same] != '\0' && mine[same] == theirs[same]) {
    same++;
    if (mine[same - 1] == '\n') line = same;
  }
  if (strcmp(theirs, mine) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "%s belongs to another study: the file has `%.*s`, the store `%.*s`; use another store (--store), or "
                  "give the study another name",
                  s->path, (int)strcspn(mine + line, "\n"), mine + line, (int)strcspn(theirs + line, "\n"),
                  theirs + line);
}

static tri_status check_study(tri_store *s, const char *text) {
  enum { ROOM = 32768 };
  char *mine = NULL, *theirs = NULL;
  sqlite3_stmt *query = NULL;
  TRI_TRY(tri_alloc("a study", 2 * ROOM, 1, &mine));
  theirs = mine + ROOM;
  store_describe(s->study, mine, ROOM);
  tri_status status = tri_store_prepare(s, "INSERT OR IGNORE INTO study (id, text, file) VALUES (1, ?, ?)", &query);
  if (status == TRI_OK) {
    sqlite3_bind_text(query, 1, mine, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(query, 2, text, -1, SQLITE_TRANSIENT);
    if (sqlite3_step(query) != SQLITE_DONE) status = tri_store_failed(s, "write the study");
    sqlite3_finalize(query);
  }
  if (status == TRI_OK) status = read_description(s, theirs, ROOM);
  if (status == TRI_OK && strcmp(mine, theirs) != 0 && is_same_but_for_sums(theirs, mine)) {
    status = accept_sums(s, mine);
    if (status == TRI_OK) status = read_description(s, theirs, ROOM);
  }
  /* The study is the same. Its stored file is replaced, so that reports use the other keys of the current file (budget,
   * recipes). */
  if (status == TRI_OK)
    status = tri_store_prepare(s, "UPDATE study SET file = ? WHERE id = 1 AND text = ? AND file <> ?", &query);
  if (status == TRI_OK) {
    sqlite3_bind_text(query, 1, text, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(query, 2, mine, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(query, 3, text, -1, SQLITE_TRANSIENT);
    if (sqlite3_step(query) != SQLITE_DONE) status = tri_store_failed(s, "write the study");
    sqlite3_finalize(query);
  }
  if (status == TRI_OK) status = compare_descriptions(s, mine, theirs);
  tri_free(mine);
  return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

void tri_store_host(char host[TRI_HOST_BYTES]) {
  if (gethostname(host, TRI_HOST_BYTES) != 0) host[0] = '\0';
  host[TRI_HOST_BYTES - 1] = '\0';
}

/* Removes running rows of dead processes. A process on this host is dead if it is gone; one on another host is dead if
 * it has had no heartbeat for MOST_SILENT_S. */
static tri_status forget_the_dead(tri_store *s, const char *table) {
  char host[TRI_HOST_BYTES], text[160];
  sqlite3_stmt *query = NULL, *drop = NULL;
  tri_store_host(host);
  snprintf(text, sizeof text, "SELECT rowid, pid, host, strftime('%%s', 'now') - beat FROM %s WHERE state = 0", table);
  TRI_TRY(tri_store_prepare(s, text, &query));
  snprintf(text, sizeof text, "DELETE FROM %s WHERE rowid = ?", table);
  tri_status status = tri_store_prepare(s, text, &drop);
  while (status == TRI_OK && sqlite3_step(query) == SQLITE_ROW) {
    pid_t pid = (pid_t)sqlite3_column_int64(query, 1);
    const char *theirs = (const char *)sqlite3_column_text(query, 2);
    bool here = theirs != NULL && strcmp(theirs, host) == 0;
    bool lives =
        here ? pid == getpid() || kill(pid, 0) == 0 || errno != ESRCH : sqlite3_column_int64(query, 3) < MOST_SILENT_S;
    if (lives) continue;
    sqlite3_bind_int64(drop, 1, sqlite3_column_int64(query, 0));
    if (sqlite3_step(drop) != SQLITE_DONE) status = tri_store_failed(s, "forget a trial");
    sqlite3_reset(drop);
  }
  sqlite3_finalize(drop);
  sqlite3_finalize(query);
  return status;
}

tri_status tri_store_forget_dead(tri_store *s) {
  TRI_TRY(forget_the_dead(s, "trials"));
  return forget_the_dead(s, "members");
}

tri_status tri_store_beat(tri_store *s) {
  char host[TRI_HOST_BYTES], text[200];
  static const char *const beating[] = {"trials", "members"};
  double now = tri_clock_s();
  if (now - s->beat_s < BEAT_S) return TRI_OK;
  s->beat_s = now;
  tri_store_host(host);
  for (int i = 0; i < 2; i++) {
    sqlite3_stmt *update = NULL;
    snprintf(text, sizeof text,
             "UPDATE %s SET beat = CAST(strftime('%%s', 'now') AS INTEGER) WHERE state = 0 AND host = ? AND pid = ?",
             beating[i]);
    TRI_TRY(tri_store_prepare(s, text, &update));
    sqlite3_bind_text(update, 1, host, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(update, 2, getpid());
    tri_status status =
        sqlite3_step(update) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "update the heartbeat of a trial");
    sqlite3_finalize(update);
    TRI_TRY(status);
  }
  return TRI_OK;
}

/* Returns whether a file is on a local file system. A write-ahead log is shared through memory, so all processes that
 * use it must be on one machine. On a file system that several machines may have mounted, the store uses SQLite's
 * rollback journal instead. */
static bool is_local(const char *path) {
  static const long local[] = {0xEF53 /* ext */,       0x58465342 /* XFS */,     0x9123683E /* btrfs */,
                               0x01021994 /* tmpfs */, 0x794C7630 /* overlay */, 0x2FC12FC1 /* ZFS */};
  struct statfs found;
  if (statfs(path, &found) != 0) return false;
  for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
    if ((long)found.f_type == local[i]) return true;
  }
  return false;
}

/* Fails with TRI_BAD_FILE if the file has tables and another number than FORMAT. A new file, which has no tables, gets
 * this number. */
static tri_status check_format(tri_store *s) {
  sqlite3_stmt *query = NULL;
  char mark[64];
  TRI_TRY(tri_store_prepare(s, "SELECT (SELECT count(*) FROM sqlite_schema), user_version FROM pragma_user_version",
                            &query));
  bool good = sqlite3_step(query) == SQLITE_ROW;
  int64_t tables = good ? sqlite3_column_int64(query, 0) : 0, format = good ? sqlite3_column_int64(query, 1) : 0;
  tri_status status = good ? TRI_OK : tri_store_failed(s, "read it");
  sqlite3_finalize(query);
  TRI_TRY(status);
  if (tables > 0 && format != FORMAT) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is another program's database, or another version's of this one; name another file", s->path);
  }
  snprintf(mark, sizeof mark, "PRAGMA user_version = %d", FORMAT);
  return format == FORMAT ? TRI_OK : execute(s, mark, "mark it");
}

static const struct {
  const char *name, *columns;
} tables[] = {
    {"study", "id INTEGER PRIMARY KEY, text TEXT NOT NULL, file TEXT NOT NULL"},
    {"known", "recipe TEXT PRIMARY KEY, state INTEGER, value REAL, reason TEXT"},
    {"rungs", "number INTEGER, rung INTEGER, value REAL, PRIMARY KEY (number, rung)"},
    {"trials",
     "number INTEGER PRIMARY KEY AUTOINCREMENT, point TEXT NOT NULL UNIQUE,"
     " state INTEGER NOT NULL, value REAL, memory REAL, reason TEXT, seconds REAL, node_s REAL, layout TEXT,"
     " host TEXT, pid INTEGER, beat INTEGER DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)), version TEXT,"
     " began TEXT DEFAULT CURRENT_TIMESTAMP"},
    {"members",
     "member INTEGER, round INTEGER, parent INTEGER, state INTEGER NOT NULL,"
     " params TEXT, loss REAL, reason TEXT, seconds REAL, host TEXT, pid INTEGER,"
     " beat INTEGER DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)), version TEXT,"
     " began TEXT DEFAULT CURRENT_TIMESTAMP, UNIQUE (member, round)"},
};

/* Creates a table if it is missing. Fails with TRI_BAD_FILE if an existing table has another definition: if a table had
 * other keys, a tuner would not find its own trials, and would never end. */
static tri_status make_table(tri_store *s, const char *name, const char *columns) {
  char sql[1024];
  sqlite3_stmt *query = NULL;
  snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS %s (%s)", name, columns);
  TRI_TRY(execute(s, sql, "make its tables"));
  TRI_TRY(tri_store_prepare(s, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql = ?", &query));
  snprintf(sql, sizeof sql, "CREATE TABLE %s (%s)", name, columns);
  sqlite3_bind_text(query, 1, name, -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(query, 2, sql, -1, SQLITE_TRANSIENT);
  int code = sqlite3_step(query);
  tri_status status = code == SQLITE_ROW || code == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "read it");
  sqlite3_finalize(query);
  if (code != SQLITE_DONE) return status;
  return tri_fail(TRI_BAD_FILE,
                  "%s: its table `%s` is not as this version writes it: another program or version has written this "
                  "store; name another file",
                  s->path, name);
}

/* Removes the trials in which a key or a file was refused, so that they are repeated: the file may exist now. A round
 * of a member stays if any member has a later round. */
static tri_status forget_the_refused(tri_store *s) {
  char sql[512];
  snprintf(sql, sizeof sql,
           "DELETE FROM trials WHERE state = %d AND reason LIKE '" TRI_TRIAL_REFUSED
           "%%';"
           "DELETE FROM members WHERE state = %d AND reason LIKE '" TRI_TRIAL_REFUSED
           "%%' AND NOT EXISTS (SELECT 1 FROM members AS later WHERE later.round > members.round)",
           TRI_TRIAL_FAILED, TRI_TRIAL_FAILED);
  return execute(s, sql, "forget refused trials");
}

static tri_status store_set_up(tri_store *s, const char *text) {
  TRI_TRY(check_format(s));
  if (is_local(s->path)) TRI_TRY(execute(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", "open it"));
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    TRI_TRY(make_table(s, tables[i].name, tables[i].columns));
  }
  TRI_TRY(check_study(s, text));
  TRI_TRY(forget_the_refused(s));
  return tri_store_forget_dead(s);
}

/* Opens the file, and checks its schema before anything is read from its tables. */
static tri_status open_guarded(tri_store *s, int flags) {
  const char *kind = tri_path_odd_kind(s->path);
  int code = SQLITE_OK;
  if (kind != NULL) return tri_fail(TRI_BAD_FILE, "%s is a %s; a store must be a regular file", s->path, kind);
  if (sqlite3_open_v2(s->path, &s->db, flags, NULL) != SQLITE_OK) {
    return tri_fail(TRI_IO_FAILED, "cannot open %s: %s", s->path, sqlite3_errmsg(s->db));
  }
  tri_store_guard_begin(&s->guard, s->db, MOST_STATEMENT_S);
  sqlite3_busy_timeout(s->db, BUSY_MS);
  tri_status status = tri_store_check_schema(s->db, s->path, &code);
  return code == SQLITE_OK ? status : tri_store_failed(s, "read it");
}

tri_status tri_store_open(const char *path, const char *text, const tri_study *study, tri_store **out) {
  tri_store *s = NULL;
  TRI_TRY(tri_alloc("a study's store", 1, sizeof *s, &s));
  s->study = study;
  snprintf(s->path, sizeof s->path, "%s", path);
  tri_status status = open_guarded(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (status == TRI_OK && text != NULL) status = store_set_up(s, text);
  if (status == TRI_OK) *out = s;
  if (status != TRI_OK) tri_store_close(s);
  return status;
}

void tri_store_close(tri_store *s) {
  if (s == NULL) return;
  sqlite3_close(s->db);
  tri_free(s->trials);
  tri_free(s->members);
  tri_free(s);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static tri_status check_trial(const tri_store *s, int64_t state, const tri_trial *t) {
  const struct {
    const char *column;
    double value;
  } reals[] = {{"value", t->value}, {"seconds", t->seconds}, {"memory", t->memory}, {"node_s", t->node_s}};
  TRI_TRY(tri_store_check_number(s->path, "trial", t->number, TRI_STORE_MOST_NUMBER));
  TRI_TRY(tri_store_check_state(s->path, "trial", t->number, state, TRI_STORE_STOPPED_EARLY));
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
    TRI_TRY(tri_store_check_real(s->path, "trial", t->number, reals[i].column, reals[i].value));
  }
  return TRI_OK;
}

static tri_status read_point(const tri_store *s, sqlite3_stmt *row, int column, tri_trial *out) {
  char said[300];
  const char *text = (const char *)sqlite3_column_text(row, column);
  if (text == NULL || sqlite3_column_bytes(row, column) >= TRI_POINT_TEXT_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s: trial %lld: its point has %d bytes, and points have 1 to %d; name another file",
                    s->path, (long long)out->number, sqlite3_column_bytes(row, column), TRI_POINT_TEXT_BYTES - 1);
  }
  tri_status status = tri_point_parse(&s->study->space, text, &out->point);
  if (status == TRI_OK) return TRI_OK;
  snprintf(said, sizeof said, "%s", tri_status_message());
  return tri_fail(status, "%s: trial %lld: %s", s->path, (long long)out->number, said);
}

static tri_status read_trial(const tri_store *s, sqlite3_stmt *row, tri_trial *out) {
  const char *reason = (const char *)sqlite3_column_text(row, 4);
  int64_t state = sqlite3_column_int64(row, 2);
  *out = (tri_trial){.number = sqlite3_column_int64(row, 0),
                     .state = state == TRI_STORE_STOPPED_EARLY ? TRI_TRIAL_DONE : (tri_trial_state)state,
                     .early = state == TRI_STORE_STOPPED_EARLY,
                     .value = sqlite3_column_double(row, 3),
                     .seconds = sqlite3_column_double(row, 5),
                     .memory = sqlite3_column_double(row, 6),
                     .node_s = sqlite3_column_double(row, 7)};
  snprintf(out->reason, sizeof out->reason, "%s", reason == NULL ? "" : reason);
  TRI_TRY(check_trial(s, state, out));
  return read_point(s, row, 1, out);
}

/* Reads the rows after the first num_ended trials, which are in memory, have ended and no longer change. */
static tri_status read_on(tri_store *s) {
  sqlite3_stmt *query = NULL;
  int64_t held = s->num_ended, last = held > 0 ? s->trials[held - 1].number : INT64_MIN;
  bool all_ended = true;
  TRI_TRY(tri_store_prepare(
      s,
      "SELECT number, point, state, value, reason, seconds, memory, node_s FROM trials WHERE number > ?"
      " ORDER BY number",
      &query));
  sqlite3_bind_int64(query, 1, last);
  tri_status status = TRI_OK;
  int code = SQLITE_ROW;
  while (status == TRI_OK && (code = sqlite3_step(query)) == SQLITE_ROW) {
    status = tri_grow("trials", sizeof *s->trials, held, &s->room, &s->trials);
    if (status == TRI_OK && held == TRI_STORE_MOST_ROWS) {
      status = tri_fail(TRI_BAD_FILE, "%s has more than %d trials, but no space has more points; name another file",
                        s->path, TRI_STORE_MOST_ROWS);
    }
    if (status == TRI_OK) status = read_trial(s, query, &s->trials[held]);
    held += status == TRI_OK;
    all_ended = all_ended && status == TRI_OK && s->trials[held - 1].state != TRI_TRIAL_RUNNING;
    if (all_ended) s->num_ended = held;
  }
  if (status == TRI_OK && code != SQLITE_DONE) status = tri_store_failed(s, "read its trials");
  sqlite3_finalize(query);
  s->num_trials = held;
  return status;
}

tri_status tri_store_trials(tri_store *s, const tri_trial **out, int64_t *count) {
  TRI_TRY(read_on(s));
  *out = s->trials;
  *count = s->num_trials;
  return TRI_OK;
}

tri_status tri_store_begin(tri_store *s, const tri_point *point, int64_t *number) {
  char text[TRI_POINT_TEXT_BYTES], host[TRI_HOST_BYTES];
  sqlite3_stmt *insert = NULL;
  tri_store_host(host);
  TRI_TRY(tri_store_prepare(s,
                            "INSERT OR IGNORE INTO trials (point, state, host, pid, version)"
                            " SELECT ?, 0, ?, ?, ? WHERE (SELECT count(*) FROM trials) < ?",
                            &insert));
  sqlite3_bind_text(insert, 1, tri_point_text(&s->study->space, point, text, sizeof text), -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(insert, 2, host, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int64(insert, 3, getpid());
  sqlite3_bind_text(insert, 4, TRIREME_VERSION, -1, SQLITE_STATIC);
  sqlite3_bind_int64(insert, 5, s->study->search.trials);
  tri_status status = sqlite3_step(insert) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a trial");
  sqlite3_finalize(insert);
  TRI_TRY(status);
  *number = sqlite3_changes(s->db) == 1 ? sqlite3_last_insert_rowid(s->db) : -1;
  return TRI_OK;
}

tri_status tri_store_end(tri_store *s, const tri_trial *trial, const char *layout) {
  sqlite3_stmt *update = NULL;
  TRI_TRY(tri_store_prepare(
      s,
      "UPDATE trials SET state = ?, value = ?, reason = ?, seconds = ?, memory = ?, node_s = ?, layout = ?"
      " WHERE number = ?",
      &update));
  sqlite3_bind_int(update, 1, trial->early ? TRI_STORE_STOPPED_EARLY : (int)trial->state);
  if (trial->state == TRI_TRIAL_DONE) sqlite3_bind_double(update, 2, trial->value);
  sqlite3_bind_text(update, 3, trial->reason, -1, SQLITE_TRANSIENT);
  sqlite3_bind_double(update, 4, trial->seconds);
  if (trial->memory > 0) sqlite3_bind_double(update, 5, trial->memory);
  sqlite3_bind_double(update, 6, trial->node_s);
  sqlite3_bind_text(update, 7, layout, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int64(update, 8, trial->number);
  tri_status status = sqlite3_step(update) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a trial's end");
  sqlite3_finalize(update);
  return status;
}

tri_status tri_store_forget(tri_store *s, int64_t number) {
  sqlite3_stmt *drop = NULL;
  TRI_TRY(tri_store_prepare(s, "DELETE FROM trials WHERE number = ? AND state = 0", &drop));
  sqlite3_bind_int64(drop, 1, number);
  tri_status status = sqlite3_step(drop) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "forget a trial");
  sqlite3_finalize(drop);
  return status;
}

tri_status tri_store_rung(tri_store *s, int64_t number, int64_t rung, double value, int64_t *place, int64_t *count,
                          double *best) {
  sqlite3_stmt *query = NULL;
  TRI_TRY(tri_store_prepare(s, "INSERT OR REPLACE INTO rungs (number, rung, value) VALUES (?, ?, ?)", &query));
  sqlite3_bind_int64(query, 1, number);
  sqlite3_bind_int64(query, 2, rung);
  sqlite3_bind_double(query, 3, value);
  tri_status status = sqlite3_step(query) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a trial's progress");
  sqlite3_finalize(query);
  TRI_TRY(status);
  TRI_TRY(tri_store_prepare(s, "SELECT sum(value > ?), count(*), max(value) FROM rungs WHERE rung = ?", &query));
  sqlite3_bind_double(query, 1, value);
  sqlite3_bind_int64(query, 2, rung);
  if (sqlite3_step(query) == SQLITE_ROW) {
    *place = sqlite3_column_int64(query, 0);
    *count = sqlite3_column_int64(query, 1);
    *best = sqlite3_column_double(query, 2);
  } else {
    status = tri_store_failed(s, "read the trials' progress");
  }
  sqlite3_finalize(query);
  return status;
}

/* Binds the text of a recipe to a query. The text identifies the recipe, whatever its place in the study's file. */
static void bind_recipe(sqlite3_stmt *query, const tri_recipe *recipe) {
  char text[sizeof recipe->layout + 64];
  snprintf(text, sizeof text, "%s devices=%lld global_batch=%lld", recipe->layout, (long long)recipe->devices,
           (long long)recipe->global_batch);
  sqlite3_bind_text(query, 1, text, -1, SQLITE_TRANSIENT);
}

tri_status tri_store_known(tri_store *s, const tri_recipe *recipe, tri_trial *out, bool *found) {
  sqlite3_stmt *query = NULL;
  TRI_TRY(tri_store_prepare(s, "SELECT state, value, reason FROM known WHERE recipe = ?", &query));
  bind_recipe(query, recipe);
  int code = sqlite3_step(query);
  tri_status status = code == SQLITE_ROW || code == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "read its recipes");
  *found = code == SQLITE_ROW;
  if (*found) {
    *out =
        (tri_trial){.state = (tri_trial_state)sqlite3_column_int(query, 0), .value = sqlite3_column_double(query, 1)};
    const char *reason = (const char *)sqlite3_column_text(query, 2);
    snprintf(out->reason, sizeof out->reason, "%s", reason == NULL ? "" : reason);
    int64_t state = sqlite3_column_int64(query, 0);
    if (state < 0 || state > TRI_TRIAL_FAILED || !isfinite(out->value)) {
      status = tri_fail(TRI_BAD_FILE, "%s: its entry for the recipe `%s` is not a valid result; name another file",
                        s->path, recipe->layout);
    }
  }
  sqlite3_finalize(query);
  return status;
}

tri_status tri_store_note_known(tri_store *s, const tri_recipe *recipe, const tri_trial *trial) {
  sqlite3_stmt *insert = NULL;
  TRI_TRY(
      tri_store_prepare(s, "INSERT OR REPLACE INTO known (recipe, state, value, reason) VALUES (?, ?, ?, ?)", &insert));
  bind_recipe(insert, recipe);
  sqlite3_bind_int(insert, 2, (int)trial->state);
  sqlite3_bind_double(insert, 3, trial->value);
  sqlite3_bind_text(insert, 4, trial->reason, -1, SQLITE_TRANSIENT);
  tri_status status = sqlite3_step(insert) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a recipe");
  sqlite3_finalize(insert);
  return status;
}

/* ---- reading a store without its study file ---------------------------------------------------------------------- */

bool tri_store_begins(int file) {
  char first[16] = "";
  return pread(file, first, sizeof first, 0) == (ssize_t)sizeof first &&
         memcmp(first, "SQLite format 3", sizeof first) == 0;
}

bool tri_store_is_one(const char *path) {
  int file = -1;
  if (tri_file_open_plain(path, &file) != TRI_OK) return false;
  bool is_one = tri_store_begins(file);
  close(file);
  return is_one;
}

/* Reads the text in the first row of a query; "" if there is no row. Fails with TRI_BAD_FILE if `path` is not a
 * store. */
static tri_status text_of(const char *path, const char *sql, char *text, size_t bytes) {
  tri_store s = {0};
  sqlite3_stmt *query = NULL;
  snprintf(s.path, sizeof s.path, "%s", path);
  text[0] = '\0';
  if (!tri_path_exists(path)) return tri_fail(TRI_BAD_FILE, "the store %s does not exist", path);
  tri_status status = open_guarded(&s, SQLITE_OPEN_READWRITE);
  if (status == TRI_OK && sqlite3_prepare_v2(s.db, sql, -1, &query, NULL) != SQLITE_OK) {
    bool other = sqlite3_errcode(s.db) == SQLITE_ERROR; /* the database does not have our tables */
    status = other ? tri_fail(TRI_BAD_FILE, "%s is not a store of trireme tune: %s", path, sqlite3_errmsg(s.db))
                   : tri_store_failed(&s, "read it");
  }
  if (status == TRI_OK) {
    int code = sqlite3_step(query);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(query, 0) : NULL;
    if (code != SQLITE_ROW && code != SQLITE_DONE) status = tri_store_failed(&s, "read it");
    if (found != NULL) snprintf(text, bytes, "%s", found);
  }
  sqlite3_finalize(query);
  sqlite3_close(s.db);
  return status;
}

/* Reads the steps of a trial from the store's description of its study. `text` is scratch of TRI_STUDY_TEXT_BYTES
 * bytes. Fails with TRI_BAD_FILE if the description lacks them. */
static tri_status read_steps(const char *path, char *text, tri_study *out) {
  TRI_TRY(text_of(path, "SELECT text FROM study WHERE id = 1", text, TRI_STUDY_TEXT_BYTES));
  const char *line = strstr(text, "\n" STEPS_LINE);
  const long long steps = line == NULL ? 0 : strtoll(line + 1 + strlen(STEPS_LINE), NULL, 10);
  if (steps < 1 || steps > TRI_STORE_MOST_NUMBER)
    return tri_fail(TRI_BAD_FILE, "%s does not contain the number of steps of its trials; name another file", path);
  out->trial.steps = steps;
  return TRI_OK;
}

tri_status tri_store_study(const char *path, tri_study *out) {
  char *text = NULL;
  TRI_TRY(tri_alloc("a study's text", TRI_STUDY_TEXT_BYTES, 1, &text));
  tri_status status = text_of(path, "SELECT file FROM study WHERE id = 1", text, TRI_STUDY_TEXT_BYTES);
  if (status == TRI_OK && text[0] == '\0') status = tri_fail(TRI_BAD_FILE, "%s has no study yet", path);
  if (status == TRI_OK) status = tri_study_read(path, text, strlen(text), out);
  if (status == TRI_OK && out->trial.steps == 0) status = read_steps(path, text, out);
  tri_free(text);
  return status;
}

tri_status tri_store_check_layouts(const char *path) {
  tri_study *study = NULL;
  TRI_TRY(tri_alloc("a study", 1, sizeof *study, &study));
  tri_status status = tri_store_study(path, study);
  if (status == TRI_OK && tri_objective_is_last_loss(study->objective)) {
    status = tri_fail(
        TRI_BAD_FILE,
        "%s is a study of optimizers or rates, and all its trials have the same layout; name a study of layouts", path);
  }
  tri_free(study);
  return status;
}

tri_status tri_store_best_layout(const char *path, char *text, size_t bytes) {
  TRI_TRY(text_of(path, "SELECT layout FROM trials WHERE state = 1 ORDER BY value DESC, number LIMIT 1", text, bytes));
  return text[0] != '\0' ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s: no trial has succeeded yet", path);
}
