/* The rounds of members in the store; rounds.h has their functions. */
#include "base/memory.h"
#include "tune/rounds.h"
#include "tune/store_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARAMS_BYTES = TRI_POINT_TEXT_BYTES };

static bool has_points(const tri_study *study) {
  const tri_rounds_method *method = tri_rounds_method_of(study);
  return method != NULL && method->of_points;
}

/* Writes the parameters of a row, such as "lr=0.001,clip=1", with all significant digits. If the members of the method
 * are points of the space, writes the point. */
static void write_params(const tri_study *study, const tri_member *row, char text[PARAMS_BYTES]) {
  const double *values = row->values;
  size_t held = 0;
  text[0] = '\0';
  if (has_points(study)) {
    tri_point_text(&study->space, &row->point, text, PARAMS_BYTES);
    return;
  }
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    int added = snprintf(text + held, PARAMS_BYTES - held, "%s%s=%.17g", k == 0 ? "" : ",", study->space.knobs[k].name,
                         values[k]);
    held += added > 0 && held + (size_t)added < PARAMS_BYTES ? (size_t)added : 0;
  }
}

static tri_status read_params(const tri_study *study, const char *text, tri_member *row) {
  double *values = row->values;
  if (has_points(study)) return tri_point_parse(&study->space, text == NULL ? "" : text, &row->point);
  for (const char *at = text; at != NULL && *at != '\0';) {
    size_t length = strcspn(at, "=");
    int64_t knob = tri_space_find(&study->space, at, length);
    if (knob >= 0 && at[length] == '=') values[knob] = strtod(at + length + 1, NULL);
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  return TRI_OK;
}

/* Fails with TRI_BAD_FILE if a number of a row is not valid, or if it is the same row as `before`, the one before it;
 * NULL for the first row. */
static tri_status check_member(const tri_store *s, int64_t state, const tri_member *row, const tri_member *before) {
  TRI_TRY(tri_store_check_number(s->path, "member", row->member, TRI_MOST_MEMBERS));
  TRI_TRY(tri_store_check_number(s->path, "round", row->round, TRI_MOST_ROUNDS));
  TRI_TRY(tri_store_check_state(s->path, "member", row->member, state, TRI_TRIAL_FAILED));
  TRI_TRY(tri_store_check_real(s->path, "member", row->member, "loss", row->loss));
  TRI_TRY(tri_store_check_real(s->path, "member", row->member, "seconds", row->seconds));
  for (int64_t k = 0; k < s->study->space.num_knobs; k++) {
    TRI_TRY(tri_store_check_real(s->path, "member", row->member, "params", row->values[k]));
  }
  bool twice = before != NULL && before->member == row->member && before->round == row->round;
  if (row->parent >= 0 && row->parent <= TRI_MOST_MEMBERS && !twice) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: member %lld, round %lld: %s; name another file", s->path, (long long)row->member,
                  (long long)row->round, twice ? "it is there twice" : "its `parent` is not a member");
}

tri_status tri_store_members(tri_store *s, const tri_member **out, int64_t *count) {
  sqlite3_stmt *query = NULL;
  int64_t found = 0, room = 0;
  tri_free(s->members);
  s->members = NULL;
  TRI_TRY(tri_store_prepare(s,
                            "SELECT member, round, parent, state, params, loss, reason, seconds FROM members"
                            " ORDER BY round, member",
                            &query));
  tri_status status = TRI_OK;
  int code = SQLITE_ROW;
  while (status == TRI_OK && (code = sqlite3_step(query)) == SQLITE_ROW) {
    status = tri_grow("members", sizeof *s->members, found, &room, &s->members);
    if (status != TRI_OK) break;
    tri_member *row = &s->members[found++];
    const char *reason = (const char *)sqlite3_column_text(query, 6);
    *row = (tri_member){.member = sqlite3_column_int64(query, 0),
                        .round = sqlite3_column_int64(query, 1),
                        .parent = sqlite3_column_int64(query, 2),
                        .state = (tri_trial_state)sqlite3_column_int(query, 3),
                        .loss = sqlite3_column_double(query, 5),
                        .seconds = sqlite3_column_double(query, 7)};
    const char *params = (const char *)sqlite3_column_text(query, 4);
    if (sqlite3_column_bytes(query, 4) >= PARAMS_BYTES) {
      status = tri_fail(TRI_BAD_FILE, "%s: member %lld: its `params` have %d bytes, and may have %d; name another file",
                        s->path, (long long)row->member, sqlite3_column_bytes(query, 4), PARAMS_BYTES - 1);
      break;
    }
    status = read_params(s->study, params, row);
    if (status != TRI_OK) {
      char said[300];
      snprintf(said, sizeof said, "%s", tri_status_message());
      status = tri_fail(status, "%s: trial %lld: %s", s->path, (long long)row->member, said);
      break;
    }
    status = check_member(s, sqlite3_column_int64(query, 3), row, found > 1 ? row - 1 : NULL);
    snprintf(row->reason, sizeof row->reason, "%s", reason == NULL ? "" : reason);
  }
  if (status == TRI_OK && code != SQLITE_DONE) status = tri_store_failed(s, "read its members");
  sqlite3_finalize(query);
  TRI_TRY(status);
  *out = s->members;
  *count = found;
  return TRI_OK;
}

tri_status tri_store_begin_member(tri_store *s, const tri_member *row, bool *claimed) {
  char params[PARAMS_BYTES], host[TRI_HOST_BYTES];
  sqlite3_stmt *insert = NULL;
  tri_store_host(host);
  write_params(s->study, row, params);
  TRI_TRY(tri_store_prepare(s,
                            "INSERT OR IGNORE INTO members (member, round, parent, state, params, host, pid, version)"
                            " VALUES (?, ?, ?, 0, ?, ?, ?, ?)",
                            &insert));
  sqlite3_bind_int64(insert, 1, row->member);
  sqlite3_bind_int64(insert, 2, row->round);
  sqlite3_bind_int64(insert, 3, row->parent);
  sqlite3_bind_text(insert, 4, params, -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(insert, 5, host, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int64(insert, 6, getpid());
  sqlite3_bind_text(insert, 7, TRIREME_VERSION, -1, SQLITE_STATIC);
  tri_status status = sqlite3_step(insert) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a member");
  sqlite3_finalize(insert);
  TRI_TRY(status);
  *claimed = sqlite3_changes(s->db) == 1;
  return TRI_OK;
}

tri_status tri_store_end_member(tri_store *s, const tri_member *row) {
  sqlite3_stmt *update = NULL;
  TRI_TRY(tri_store_prepare(
      s, "UPDATE members SET state = ?, loss = ?, reason = ?, seconds = ? WHERE member = ? AND round = ?", &update));
  sqlite3_bind_int(update, 1, (int)row->state);
  if (row->state == TRI_TRIAL_DONE) sqlite3_bind_double(update, 2, row->loss);
  sqlite3_bind_text(update, 3, row->reason, -1, SQLITE_TRANSIENT);
  sqlite3_bind_double(update, 4, row->seconds);
  sqlite3_bind_int64(update, 5, row->member);
  sqlite3_bind_int64(update, 6, row->round);
  tri_status status = sqlite3_step(update) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "write a member's end");
  sqlite3_finalize(update);
  return status;
}

tri_status tri_store_forget_member(tri_store *s, const tri_member *row) {
  sqlite3_stmt *drop = NULL;
  TRI_TRY(tri_store_prepare(s, "DELETE FROM members WHERE member = ? AND round = ? AND state = 0", &drop));
  sqlite3_bind_int64(drop, 1, row->member);
  sqlite3_bind_int64(drop, 2, row->round);
  tri_status status = sqlite3_step(drop) == SQLITE_DONE ? TRI_OK : tri_store_failed(s, "forget a member");
  sqlite3_finalize(drop);
  return status;
}
