#include "tune/population.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/stop.h"
#include "tune/process.h"
#include "tune/short_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MOST_AT_ONCE = 256, FOR_POPULATIONS = 1 << 20 };

const tri_member *tri_population_find(const tri_member *rows, int64_t count, int64_t member, int64_t round) {
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].member == member && rows[i].round == round) return &rows[i];
  }
  return NULL;
}

const tri_member *tri_population_best(const tri_member *rows, int64_t count) {
  const tri_member *best = NULL;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state != TRI_TRIAL_DONE) continue;
    bool later = best == NULL || rows[i].round > best->round;
    if (later || (rows[i].round == best->round && rows[i].loss < best->loss)) best = &rows[i];
  }
  return best;
}

/* ---- exploit and explore ----------------------------------------------------------------------------------------- */

/* In [0, 1), by what it is for. */
static double uniform(const tri_study *study, int64_t member, int64_t round, int64_t what) {
  tri_random_key key = tri_random_stream(study->search.seed, TRI_RANDOM_TUNE,
                                         (uint64_t)FOR_POPULATIONS + (uint64_t)(round * TRI_MOST_MEMBERS + member));
  return tri_random_u32(key, (uint64_t)what) / 4294967296.0;
}

/* Even in the logarithm between low and high. */
static void begin_anew(const tri_study *study, tri_member *out) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    out->values[k] = knob->low * pow(knob->high / knob->low, uniform(study, out->member, out->round, k));
  }
}

/* Up or down by the factor, inside its limits. */
static void explore(const tri_study *study, tri_member *out) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    bool up = uniform(study, out->member, out->round, 1 + k) < 0.5;
    double value = out->values[k] * (up ? study->population.factor : 1 / study->population.factor);
    out->values[k] = fmin(fmax(value, knob->low), knob->high);
  }
}

/* What it is compared by: nothing counts before it is there. */
static double loss_of(const tri_member *row) {
  switch (row->state) {
    case TRI_TRIAL_DONE: return row->loss;
    case TRI_TRIAL_RUNNING:
    case TRI_TRIAL_FAILED: break;
  }
  return INFINITY;
}

static int population_compare(const void *left, const void *right) {
  const tri_member *const *a = left, *const *b = right;
  return (loss_of(*a) > loss_of(*b)) - (loss_of(*a) < loss_of(*b));
}

void tri_population_decide(const tri_study *study, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                           tri_member *out) {
  const tri_member *ranked[TRI_MOST_MEMBERS], *own = tri_population_find(rows, count, member, round - 1);
  int64_t n = 0, place = 0;
  *out = (tri_member){.member = member, .round = round};
  for (int64_t i = 0; i < count && n < TRI_MOST_MEMBERS; i++) {
    if (rows[i].round == round - 1 && rows[i].state != TRI_TRIAL_RUNNING) ranked[n++] = &rows[i];
  }
  if (own == NULL || n == 0) {
    begin_anew(study, out);
    return;
  }
  qsort(ranked, (size_t)n, sizeof(const tri_member *), population_compare);
  while (ranked[place] != own) place++;
  int64_t some = (int64_t)ceil(study->population.share * (double)n), good = 0;
  while (good < some && isfinite(loss_of(ranked[good]))) good++;
  bool lost = !isfinite(loss_of(own)) || (place >= n - some && n > some);
  const tri_member *parent = own;
  if (lost && good > 0) parent = ranked[(int64_t)(uniform(study, member, round, 0) * (double)good)];
  memcpy(out->values, parent->values, sizeof out->values);
  out->parent = parent->member;
  if (parent != own) explore(study, out);
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

/* Between two looks at what runs. */
static const double PAUSE_S = 0.1;

typedef struct seat {
  tri_process process; /* id 0: free */
  tri_member row;
  char folder[TRI_PATH_BYTES], log[TRI_PATH_BYTES];
  double begin_s;
} seat;

typedef struct trainer {
  const tri_study *study;
  tri_store *store;
  const char *folder;
  seat seats[MOST_AT_ONCE];
} trainer;

static tri_status folder_of(const trainer *t, int64_t member, int64_t round, char path[TRI_PATH_BYTES]) {
  char name[64];
  snprintf(name, sizeof name, "member-%ld-round-%ld", (long)member, (long)round);
  return tri_path_join(path, t->folder, name);
}

static tri_status population_start(trainer *t, seat *s, int part) {
  const tri_study *study = t->study;
  char parent[TRI_PATH_BYTES], from[TRI_PATH_BYTES] = "never", name[48];
  tri_short_run *run = NULL;
  TRI_TRY(folder_of(t, s->row.member, s->row.round, s->folder));
  if (s->row.parent > 0) {
    TRI_TRY(folder_of(t, s->row.parent, s->row.round - 1, parent));
    snprintf(name, sizeof name, "checkpoints/step-%08ld", (long)((s->row.round - 1) * study->population.steps));
    TRI_TRY(tri_path_join(from, parent, name));
  }
  if (tri_path_exists(s->folder)) TRI_TRY(tri_directory_remove(s->folder)); /* of one that was killed */
  TRI_TRY(tri_directory_create(s->folder));
  TRI_TRY(tri_path_join(s->log, s->folder, "log.txt"));
  TRI_TRY(tri_short_run_create(study, study->devices, s->folder, from, &run));
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    char key[64];
    snprintf(key, sizeof key, "optimizer.%s", study->space.knobs[k].name);
    tri_short_run_set(run, key, "%.17g", s->row.values[k]);
  }
  tri_short_run_set(run, "optimizer.steps", "%ld", (long)(s->row.round * study->population.steps));
  tri_short_run_set(run, "optimizer.warmup", "%ld",
                    (long)(study->warmup < study->population.steps ? study->warmup : study->population.steps));
  tri_short_run_set(run, "optimizer.decay", "constant");
  tri_short_run_set(run, "evaluation.every", "%ld", (long)(s->row.round * study->population.steps));
  tri_short_run_set(run, "checkpoint.every", "0");
  tri_process_limits limits = tri_short_run_limits(study, part);
  s->begin_s = tri_clock_s();
  tri_status status = tri_process_start(run->line, s->log, &limits, &s->process);
  tri_free(run);
  return status;
}

/* Folders of rounds that all members have behind them, and the next too, so that no member begins from them any more.
 * At the end only the best member's last one is kept. */
static tri_status clear_away(const trainer *t) {
  const tri_member *rows = NULL;
  int64_t count = 0, rounds = t->study->population.rounds, behind = rounds;
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  for (int64_t m = 1; m <= t->study->population.members; m++) {
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].member == m && rows[i].state != TRI_TRIAL_RUNNING && rows[i].round > last) last = rows[i].round;
    }
    behind = last < behind ? last : behind;
  }
  const tri_member *best = behind == rounds ? tri_population_best(rows, count) : NULL;
  for (int64_t i = 0; i < count; i++) {
    if (&rows[i] == best || (rows[i].round >= behind && best == NULL)) continue;
    TRI_TRY(folder_of(t, rows[i].member, rows[i].round, path));
    if (tri_path_exists(path) && tri_directory_remove(path) != TRI_OK) continue; /* another tuner was at it, too */
  }
  return TRI_OK;
}

static tri_status finish(trainer *t, seat *s, const char *reason) {
  tri_member *row = &s->row;
  bool good = reason == NULL && WIFEXITED(s->process.result) && WEXITSTATUS(s->process.result) == 0;
  row->loss = good ? tri_short_run_loss(s->folder) : NAN;
  row->seconds = tri_clock_s() - s->begin_s;
  row->state = isfinite(row->loss) ? TRI_TRIAL_DONE : TRI_TRIAL_FAILED;
  if (row->state == TRI_TRIAL_DONE) {
    tri_log("member %ld, round %ld: loss %.4f%s", (long)row->member, (long)row->round, row->loss,
            row->parent != row->member && row->parent > 0 ? " (took another's weights)" : "");
  } else {
    if (reason != NULL) {
      snprintf(row->reason, sizeof row->reason, "%s", reason);
    } else if (good) {
      snprintf(row->reason, sizeof row->reason, "the loss is not a number");
    } else {
      tri_short_run_reason(&s->process, s->log, row->reason, sizeof row->reason);
    }
    tri_log("member %ld, round %ld: %s", (long)row->member, (long)row->round, row->reason);
  }
  s->process.id = 0;
  TRI_TRY(tri_store_end_member(t->store, row));
  return clear_away(t);
}

static tri_status look_after(trainer *t, seat *s) {
  if (tri_process_ended(&s->process)) return finish(t, s, NULL);
  if (tri_clock_s() - s->begin_s < 60 * t->study->trial.minutes) return TRI_OK;
  tri_process_stop(&s->process);
  return finish(t, s, "out of time");
}

/* Whether it has failed in a round that no member has finished yet, whose weights it could take. */
static bool must_wait(const tri_member *rows, int64_t count, int64_t member, int64_t round) {
  const tri_member *own = tri_population_find(rows, count, member, round);
  if (own == NULL || own->state != TRI_TRIAL_FAILED) return false;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].round == round && rows[i].state == TRI_TRIAL_DONE) return false;
  }
  return true;
}

/* The member with the least progress that is not being trained; *left counts stretches that are not done yet. */
static int64_t next_member(const tri_study *study, const tri_member *rows, int64_t count, int64_t *round,
                           int64_t *left) {
  int64_t chosen = 0;
  *left = 0;
  *round = study->population.rounds + 1;
  for (int64_t m = 1; m <= study->population.members; m++) {
    int64_t next = 1;
    bool busy = false;
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].member != m) continue;
      busy = busy || rows[i].state == TRI_TRIAL_RUNNING;
      if (rows[i].round >= next) next = rows[i].round + 1;
    }
    *left += study->population.rounds + 1 - next + busy;
    if (busy || next >= *round || must_wait(rows, count, m, next - 1)) continue;
    *round = next;
    chosen = m;
  }
  return chosen;
}

/* A round that no member has finished would be followed by others. */
static tri_status check_rounds(const tri_study *study, const tri_member *rows, int64_t count) {
  for (int64_t round = 1; round <= study->population.rounds; round++) {
    int64_t failed = 0;
    const char *reason = "";
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].round != round || rows[i].state != TRI_TRIAL_FAILED) continue;
      failed++;
      reason = rows[i].reason;
    }
    if (failed < study->population.members) continue;
    return tri_fail(TRI_BAD_CONFIG, "all %ld members failed in round %ld, the last one: %s", (long)failed, (long)round,
                    reason);
  }
  return TRI_OK;
}

static tri_status population_begin(trainer *t, int at, int64_t *left) {
  seat *s = &t->seats[at];
  const tri_member *rows = NULL;
  int64_t count = 0, round = 0;
  bool claimed = false;
  TRI_TRY(tri_store_members(t->store, &rows, &count));
  TRI_TRY(check_rounds(t->study, rows, count));
  int64_t member = next_member(t->study, rows, count, &round, left);
  if (member == 0) return tri_store_forget_dead(t->store); /* others train the rest, if they still live */
  tri_population_decide(t->study, rows, count, member, round, &s->row);
  TRI_TRY(tri_store_begin_member(t->store, &s->row, &claimed));
  if (!claimed) return TRI_OK;
  tri_status status = population_start(t, s, at);
  if (status != TRI_OK) (void)tri_store_forget_member(t->store, &s->row);
  return status;
}

static tri_status go_on(trainer *t) {
  for (;;) {
    int64_t left = 0;
    if (tri_stop_asked()) return tri_fail(TRI_INTERRUPTED, "interrupted; the same command continues");
    TRI_TRY(tri_store_beat(t->store));
    for (int at = 0; at < t->study->parallel; at++) {
      if (t->seats[at].process.id > 0) TRI_TRY(look_after(t, &t->seats[at]));
      if (t->seats[at].process.id == 0) TRI_TRY(population_begin(t, at, &left));
      if (t->seats[at].process.id > 0) left = 1;
    }
    if (left == 0) return clear_away(t);
    tri_pause_s(PAUSE_S);
  }
}

tri_status tri_population_train(const tri_study *study, tri_store *store, const char *folder) {
  trainer *t = NULL;
  TRI_TRY(tri_alloc("a population", 1, sizeof *t, &t));
  t->study = study;
  t->store = store;
  t->folder = folder;
  tri_stop_defer();
  tri_status status = tri_directory_create(folder);
  if (status == TRI_OK) status = go_on(t);
  for (int at = 0; status != TRI_OK && at < MOST_AT_ONCE; at++) {
    if (t->seats[at].process.id == 0) continue;
    tri_process_stop(&t->seats[at].process);
    (void)tri_store_forget_member(store, &t->seats[at].row);
  }
  tri_free(t);
  return status;
}
