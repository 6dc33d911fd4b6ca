#include "tune/rounds.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "files/file.h"
#include "tune/process.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>

enum { MOST_AT_ONCE = 256 };

/* Pause between two checks of running rounds. */
static const double PAUSE_S = 0.1;

typedef struct trial_slot {
  tri_child process; /* id 0: the slot is not in use */
  tri_member row;
  char folder[TRI_PATH_BYTES], log[TRI_PATH_BYTES];
  double begin_s;
} trial_slot;

typedef struct trainer {
  tri_rounds rounds;
  tri_store *store;
  const char *folder;
  trial_slot slots[MOST_AT_ONCE];
} trainer;

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static tri_status rounds_start(trainer *t, trial_slot *s, int part) {
  const tri_rounds *r = &t->rounds;
  tri_short_run *run = NULL;
  tri_process_limits limits = tri_short_run_limits(r->study, part);
  TRI_TRY(tri_rounds_folder(r, &s->row, t->folder, s->folder));
  TRI_TRY(r->method->command(r, &s->row, t->folder, s->folder, &run));
  tri_status status = tri_directory_create(s->folder);
  if (status == TRI_OK) status = tri_path_join(s->log, s->folder, "log.txt");
  s->begin_s = tri_clock_s();
  if (status == TRI_OK) status = tri_process_start(run->line, s->log, &limits, &s->process);
  tri_free(run);
  return status;
}

static void tell(const tri_rounds *r, const tri_member *row) {
  const tri_rounds_method *method = r->method;
  char point[TRI_POINT_TEXT_BYTES] = "";
  if (r->points != NULL) tri_point_text(&r->study->space, &row->point, point, sizeof point);
  if (row->state == TRI_TRIAL_DONE) {
    tri_log("%s %ld, round %ld, step %ld: loss %.4f%s%s%s", method->member, (long)row->member, (long)row->round,
            (long)method->last_step(r->study, row->round), row->loss, point[0] == '\0' ? "" : "  ", point,
            row->parent != row->member && row->parent > 0 ? " (took another's weights)" : "");
  } else {
    tri_log("%s %ld, round %ld: %s%s%s", method->member, (long)row->member, (long)row->round, row->reason,
            point[0] == '\0' ? "" : "  ", point);
  }
}

static tri_status clear_away(const trainer *t) {
  const tri_member *rows = NULL;
  int64_t count = 0;
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  return t->rounds.method->clear(&t->rounds, rows, count, t->folder);
}

/* Fails with TRI_BAD_FILE if no trial has succeeded. Call it after a trial that lacks a file: the other trials lack the
 * file, too. */
static tri_status check_any_done(const trainer *t, const tri_member *row) {
  const tri_member *rows = NULL;
  int64_t count = 0;
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  if (tri_rounds_count(rows, count, TRI_TRIAL_DONE) > 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s %ld was %s; the same command tries it again", t->rounds.method->member,
                  (long)row->member, row->reason);
}

static tri_status finish(trainer *t, trial_slot *s, const char *reason) {
  tri_member *row = &s->row;
  bool good = reason == NULL && WIFEXITED(s->process.result) && WEXITSTATUS(s->process.result) == 0;
  row->loss = good ? tri_short_run_loss(t->rounds.study->objective, s->folder,
                                        t->rounds.method->last_step(t->rounds.study, row->round))
                   : NAN;
  row->seconds = tri_clock_s() - s->begin_s;
  row->state = isfinite(row->loss) ? TRI_TRIAL_DONE : TRI_TRIAL_FAILED;
  if (row->state == TRI_TRIAL_FAILED) {
    if (reason != NULL) {
      snprintf(row->reason, sizeof row->reason, "%s", reason);
    } else if (good) {
      snprintf(row->reason, sizeof row->reason, "the loss is not a number");
    } else {
      tri_short_run_reason(&s->process, s->log, row->reason, sizeof row->reason);
    }
  }
  tell(&t->rounds, row);
  s->process.id = 0;
  TRI_TRY(tri_store_end_member(t->store, row));
  if (reason == NULL && row->state == TRI_TRIAL_FAILED && tri_short_run_lacks_file(&s->process))
    TRI_TRY(check_any_done(t, row));
  return clear_away(t);
}

static tri_status check_member(trainer *t, trial_slot *s) {
  if (tri_child_ended(&s->process)) return finish(t, s, NULL);
  if (tri_clock_s() - s->begin_s < 60 * t->rounds.study->trial.minutes) return TRI_OK;
  tri_child_stop(&s->process);
  return finish(t, s, "out of time");
}

static tri_status rounds_begin(trainer *t, int at, int64_t *left) {
  const tri_rounds *r = &t->rounds;
  trial_slot *s = &t->slots[at];
  const tri_member *rows = NULL;
  int64_t count = 0, member = 0, round = 0;
  bool claimed = false;
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  TRI_TRY(r->method->next(r, rows, count, &member, &round, left));
  if (member == 0)
    return tri_store_forget_dead(t->store); /* other tuners train the remaining rounds, if they are still alive */
  r->method->decide(r, rows, count, member, round, &s->row);
  TRI_TRY(tri_store_begin_member(t->store, &s->row, &claimed));
  if (!claimed) return TRI_OK;
  tri_status status = rounds_start(t, s, at);
  if (status != TRI_OK) (void)tri_store_forget_member(t->store, &s->row);
  return status;
}

static tri_status go_on(trainer *t) {
  for (;;) {
    int64_t left = 0;
    if (tri_stop_asked()) return tri_fail(TRI_INTERRUPTED, "interrupted; the same command continues");
    TRI_TRY(tri_store_beat(t->store));
    for (int at = 0; at < t->rounds.study->parallel; at++) {
      if (t->slots[at].process.id > 0) TRI_TRY(check_member(t, &t->slots[at]));
      if (t->slots[at].process.id == 0) TRI_TRY(rounds_begin(t, at, &left));
      if (t->slots[at].process.id > 0) left = 1;
    }
    if (left == 0) return clear_away(t);
    tri_pause_s(PAUSE_S);
  }
}

static tri_status train_all(trainer *t) {
  tri_rounds *r = &t->rounds;
  const tri_member *rows = NULL;
  int64_t count = 0, member = 0, round = 0, left = 0;
  TRI_TRY(r->method->prepare(r));
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  TRI_TRY(r->method->next(r, rows, count, &member, &round, &left));
  if (r->method->announce != NULL && left > 0) r->method->announce(r);
  TRI_TRY(tri_directory_create(t->folder));
  return go_on(t);
}

tri_status tri_rounds_train(const tri_rounds_method *method, const tri_study *study, tri_store *store,
                            const char *folder) {
  trainer *t = NULL;
  TRI_TRY(tri_alloc("a study's rounds", 1, sizeof *t, &t));
  t->rounds = (tri_rounds){.method = method, .study = study};
  t->store = store;
  t->folder = folder;
  tri_stop_defer("interrupted twice, so it ends at once; the same command resumes from the newest checkpoint");
  tri_status status = train_all(t);
  for (int at = 0; status != TRI_OK && at < MOST_AT_ONCE; at++) {
    if (t->slots[at].process.id == 0) continue;
    tri_child_stop(&t->slots[at].process);
    (void)tri_store_forget_member(store, &t->slots[at].row);
  }
  tri_free(t->rounds.points);
  tri_free(t);
  return status;
}
