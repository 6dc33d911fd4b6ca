/* Successive halving (Jamieson and Talwalkar 2016) of a loss (tri_objective_loss_name). All trials are trained for
 * an eighth of their steps. Then, three times, the better half of the remaining trials goes on: to a quarter of the
 * steps, to a half, and to the end. All trials follow the learning-rate schedule of the whole run, and each round
 * resumes the trial's own checkpoint. So a trial that is trained to the end is equal, to the bit, to a plain run
 * with its settings. */
#include "tune/halving.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "files/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOR_HALVING = 1 << 23 };

/* Returns the maximum number of trials that continue after a round. Failed trials never continue. */
static int64_t better_half(int64_t members) { return (members + 1) / 2; }

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* Moves a random sample of `some` points to the beginning of points[count]. A larger sample with the same seed contains
 * the smaller one. */
static void draw_points(const tri_study *study, tri_point *points, int64_t count, int64_t some) {
  const tri_random_key key = tri_random_stream(study->search.seed, TRI_RANDOM_TUNE, FOR_HALVING);
  for (int64_t i = 0; i < some && i + 1 < count; i++) {
    const int64_t j = i + (int64_t)(tri_random_uniform(key, (uint64_t)i) * (double)(count - i));
    const tri_point kept = points[i];
    points[i] = points[j];
    points[j] = kept;
  }
}

static tri_status halving_prepare(tri_rounds *r) {
  const int64_t wanted = r->study->search.trials;
  int64_t count = 0;
  TRI_TRY(tri_study_points(r->study, &r->points, &count));
  r->rounds = TRI_HALVING_ROUNDS;
  r->members = wanted > 0 && wanted < count ? wanted : count;
  if (r->members < count) draw_points(r->study, r->points, count, r->members);
  if (r->members <= TRI_MOST_MEMBERS) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the space of %s has %lld points, and `method: halving` begins with %d at most; set `trials`, for "
                  "example `trials: 64`: that many are drawn at random",
                  r->study->name, (long long)count, TRI_MOST_MEMBERS);
}

static void halving_announce(const tri_rounds *r) {
  char course[160] = "";
  int64_t members = r->members, before = 0, all = 0;
  for (int64_t round = 1; round <= r->rounds; round++) {
    const int64_t step = tri_halving_last_step(r->study, round);
    const size_t held = strlen(course);
    snprintf(course + held, sizeof course - held, "%s%ld to step %ld", round == 1 ? "" : ", ", (long)members,
             (long)step);
    all += members * (step - before);
    before = step;
    members = better_half(members);
  }
  tri_log("halving: %ld trial%s and %ld steps in all (each to its end would be %ld): %s", (long)r->members,
          TRI_PLURAL(r->members), (long)all, (long)(r->members * r->study->trial.steps), course);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

typedef struct contestant {
  int64_t member;
  double loss;
} contestant;

/* The trials of a round. */
typedef struct field {
  int64_t round, count;
  bool ended; /* whether all trials have ended the round */
  contestant of[TRI_MOST_MEMBERS];
} field;

static int compare_contestants(const void *left, const void *right) {
  const contestant *a = left, *b = right;
  const int by_loss = (a->loss > b->loss) - (a->loss < b->loss);
  return by_loss != 0 ? by_loss : (a->member > b->member) - (a->member < b->member);
}

static void read_round(field *f, const tri_member *rows, int64_t count) {
  f->ended = true;
  for (int64_t i = 0; i < f->count; i++) {
    const tri_member *row = tri_rounds_find(rows, count, f->of[i].member, f->round);
    f->of[i].loss = row == NULL ? INFINITY : tri_rounds_loss(row);
    f->ended = f->ended && row != NULL && row->state != TRI_TRIAL_RUNNING;
  }
}

/* Finds the first round that has not ended, or the last round if all have ended, and the trials that take part in it,
 * f->of[f->count]. Sets f->count to 0 if all trials of the previous round have failed. */
static void find_round(const tri_rounds *r, const tri_member *rows, int64_t count, field *f) {
  f->count = r->members;
  for (int64_t i = 0; i < f->count; i++) f->of[i].member = i + 1;
  for (f->round = 1;; f->round++) {
    read_round(f, rows, count);
    if (!f->ended || f->round == r->rounds) return;
    const int64_t most = better_half(f->count);
    qsort(f->of, (size_t)f->count, sizeof *f->of, compare_contestants);
    for (f->count = 0; f->count < most && isfinite(f->of[f->count].loss);) f->count++;
    if (f->count == 0) return;
  }
}

static tri_status halving_next(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t *member,
                               int64_t *round, int64_t *left) {
  field *f = NULL;
  TRI_TRY(tri_alloc("the trials of a round", 1, sizeof *f, &f));
  find_round(r, rows, count, f);
  *member = *left = 0;
  *round = f->round;
  for (int64_t i = 0; i < f->count; i++) {
    const tri_member *row = tri_rounds_find(rows, count, f->of[i].member, f->round);
    *left += row == NULL || row->state == TRI_TRIAL_RUNNING;
    if (row == NULL && *member == 0) *member = f->of[i].member;
  }
  const bool none = f->count == 0 || (f->ended && !isfinite(f->of[0].loss));
  tri_free(f);
  if (!none) return TRI_OK;
  const char *reason = "";
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].state == TRI_TRIAL_FAILED) reason = rows[i].reason;
  }
  return tri_fail(TRI_BAD_CONFIG, "all trials of round %ld failed, the last one: %s", (long)*round, reason);
}

static void halving_decide(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                           tri_member *out) {
  const tri_member *before = tri_rounds_find(rows, count, member, round - 1);
  *out = (tri_member){.member = member, .round = round, .point = r->points[member - 1]};
  if (before == NULL) return;
  out->parent = member;
  out->point = before->point;
}

static void halving_folder(const tri_member *row, char name[64]) { snprintf(name, 64, "trial-%ld", (long)row->member); }

static tri_status halving_command(const tri_rounds *r, const tri_member *row, const char *root, const char *folder,
                                  tri_short_run **out) {
  (void)root;
  const tri_study *study = r->study;
  char step[32];
  tri_trial_plan plan;
  tri_short_run *run = NULL;
  TRI_TRY(tri_point_plan(study, &row->point, &plan));
  if (row->round == 1 && tri_path_exists(folder))
    TRI_TRY(tri_directory_remove(folder)); /* a killed process has left the folder */
  TRI_TRY(tri_short_run_create(study, plan.devices, folder, row->round == 1 ? "never" : "auto", &run));
  tri_short_run_plan(run, study, &plan);
  tri_short_run_learn(run, &plan);
  tri_short_run_set(run, "checkpoint.every", "0");
  tri_short_run_set(run, "checkpoint.at_end", "true");
  tri_short_run_set(run, "checkpoint.keep", "1");
  snprintf(step, sizeof step, "%ld", (long)tri_halving_last_step(study, row->round));
  tri_short_run_set(run, "evaluation.every", "%s", step);
  if (row->round < r->rounds) tri_short_run_add(run, "--stop-at", step);
  *out = run;
  return TRI_OK;
}

/* Returns whether the folder of a trial is needed: the trial may still be trained, or, at the end, is the best one. */
static bool is_needed(const field *f, const tri_member *rows, int64_t count, int64_t member) {
  const tri_member *best = f->ended ? tri_rounds_best(rows, count) : NULL;
  if (best != NULL) return best->member == member;
  for (int64_t i = 0; i < f->count; i++) {
    if (f->of[i].member == member) return true;
  }
  return false;
}

static tri_status halving_clear(const tri_rounds *r, const tri_member *rows, int64_t count, const char *root) {
  field *f = NULL;
  TRI_TRY(tri_alloc("the trials of a round", 1, sizeof *f, &f));
  find_round(r, rows, count, f);
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    char path[TRI_PATH_BYTES];
    if (is_needed(f, rows, count, rows[i].member)) continue;
    status = tri_rounds_folder(r, &rows[i], root, path);
    /* A failure is ignored, because another tuner may have removed the folder. */
    if (status == TRI_OK && tri_path_exists(path)) (void)tri_directory_remove(path);
  }
  tri_free(f);
  return status;
}

const tri_rounds_method tri_method_halving = {
    .member = "trial",
    .of_points = true,
    .prepare = halving_prepare,
    .announce = halving_announce,
    .next = halving_next,
    .decide = halving_decide,
    .folder = halving_folder,
    .command = halving_command,
    .last_step = tri_halving_last_step,
    .clear = halving_clear,
    .text = tri_halving_text,
    .json = tri_halving_json,
    .html = tri_halving_html,
};
