/* Population-based training (Jaderberg et al. 2017). Several runs of one model are trained in parallel, each with its
 * own parameters. After every round, each member of the worst share continues from the weights of one of the best
 * members. It also takes that member's parameters, each multiplied or divided by a factor. In this way the study finds
 * a schedule for parameters such as the learning rate. Members do not wait for each other: a member is compared with
 * the members that have ended the same round so far. */
#include "tune/population.h"

#include "base/random.h"
#include "files/file.h"
#include "tune/trial_schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOR_POPULATIONS = 1 << 20 };

/* ---- exploit and explore ----------------------------------------------------------------------------------------- */

/* Returns a random number in [0, 1). It depends only on the seed, the member, the round and the purpose `what`. */
static double uniform(const tri_study *study, int64_t member, int64_t round, int64_t what) {
  tri_random_key key = tri_random_stream(study->search.seed, TRI_RANDOM_TUNE,
                                         (uint64_t)FOR_POPULATIONS + (uint64_t)(round * TRI_MOST_MEMBERS + member));
  return tri_random_u32(key, (uint64_t)what) / 4294967296.0;
}

/* Draws new parameters. Their logarithms are uniform between those of `low` and `high`. */
static void begin_anew(const tri_study *study, tri_member *out) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    out->values[k] = knob->low * pow(knob->high / knob->low, uniform(study, out->member, out->round, k));
  }
}

/* Multiplies or divides each parameter by the factor, within its limits. */
static void explore(const tri_study *study, tri_member *out) {
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    const tri_knob *knob = &study->space.knobs[k];
    bool up = uniform(study, out->member, out->round, 1 + k) < 0.5;
    double value = out->values[k] * (up ? study->population.factor : 1 / study->population.factor);
    out->values[k] = fmin(fmax(value, knob->low), knob->high);
  }
}

static int population_compare(const void *left, const void *right) {
  const tri_member *const *a = left, *const *b = right;
  return (tri_rounds_loss(*a) > tri_rounds_loss(*b)) - (tri_rounds_loss(*a) < tri_rounds_loss(*b));
}

static void population_decide(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t member, int64_t round,
                              tri_member *out) {
  const tri_study *study = r->study;
  const tri_member *ranked[TRI_MOST_MEMBERS], *own = tri_rounds_find(rows, count, member, round - 1);
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
  while (good < some && isfinite(tri_rounds_loss(ranked[good]))) good++;
  bool lost = !isfinite(tri_rounds_loss(own)) || (place >= n - some && n > some);
  const tri_member *parent = own;
  if (lost && good > 0) parent = ranked[(int64_t)(uniform(study, member, round, 0) * (double)good)];
  memcpy(out->values, parent->values, sizeof out->values);
  out->parent = parent->member;
  if (parent != own) explore(study, out);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static tri_status population_prepare(tri_rounds *r) {
  r->members = r->study->population.members;
  r->rounds = r->study->population.rounds;
  return TRI_OK;
}

static void population_folder(const tri_member *row, char name[64]) {
  snprintf(name, 64, "member-%ld-round-%ld", (long)row->member, (long)row->round);
}

static int64_t population_last_step(const tri_study *study, int64_t round) { return round * study->population.steps; }

static tri_status population_command(const tri_rounds *r, const tri_member *row, const char *root, const char *folder,
                                     tri_short_run **out) {
  const tri_study *study = r->study;
  const int64_t last = population_last_step(study, row->round);
  char parent[TRI_PATH_BYTES], from[TRI_PATH_BYTES] = "never", name[48];
  tri_short_run *run = NULL;
  if (row->parent > 0) {
    TRI_TRY(tri_rounds_folder(r, &(tri_member){.member = row->parent, .round = row->round - 1}, root, parent));
    snprintf(name, sizeof name, "checkpoints/step-%08ld", (long)population_last_step(study, row->round - 1));
    TRI_TRY(tri_path_join(from, parent, name));
  }
  if (tri_path_exists(folder))
    TRI_TRY(tri_directory_remove(folder)); /* a process that was killed has left the folder */
  TRI_TRY(tri_short_run_create(study, study->devices, folder, from, &run));
  for (int64_t k = 0; k < study->space.num_knobs; k++) {
    char key[64];
    snprintf(key, sizeof key, "optimizer.%s", study->space.knobs[k].name);
    tri_short_run_set(run, key, "%.17g", row->values[k]);
  }
  tri_short_run_set(run, "optimizer.steps", "%ld", (long)tri_trial_schedule_steps(study));
  tri_short_run_set(run, "optimizer.decay", "constant");
  tri_short_run_set(run, "evaluation.every", "%ld", (long)last);
  tri_short_run_set(run, "checkpoint.every", "0");
  if (row->round < r->rounds) {
    snprintf(name, sizeof name, "%ld", (long)last);
    tri_short_run_add(run, "--stop-at", name);
  }
  *out = run;
  return TRI_OK;
}

/* Removes the folders of rounds that all members have ended. Keeps those of the newest of these rounds, because members
 * still begin from them. At the end keeps only the last folder of the best member. */
static tri_status population_clear(const tri_rounds *r, const tri_member *rows, int64_t count, const char *root) {
  int64_t behind = r->rounds;
  char path[TRI_PATH_BYTES];
  for (int64_t m = 1; m <= r->members; m++) {
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].member == m && rows[i].state != TRI_TRIAL_RUNNING && rows[i].round > last) last = rows[i].round;
    }
    behind = last < behind ? last : behind;
  }
  const tri_member *best = behind == r->rounds ? tri_rounds_best(rows, count) : NULL;
  for (int64_t i = 0; i < count; i++) {
    if (&rows[i] == best || (rows[i].round >= behind && best == NULL)) continue;
    TRI_TRY(tri_rounds_folder(r, &rows[i], root, path));
    if (tri_path_exists(path) && tri_directory_remove(path) != TRI_OK)
      continue; /* another tuner may be removing the folder, too */
  }
  return TRI_OK;
}

/* Returns whether a member has failed in a round that no other member has finished. Such a member must wait, because
 * there are no weights to continue from. */
static bool must_wait(const tri_member *rows, int64_t count, int64_t member, int64_t round) {
  const tri_member *own = tri_rounds_find(rows, count, member, round);
  if (own == NULL || own->state != TRI_TRIAL_FAILED) return false;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i].round == round && rows[i].state == TRI_TRIAL_DONE) return false;
  }
  return true;
}

/* Fails with TRI_BAD_CONFIG if all members have failed in the same round, because no member can continue. */
static tri_status check_rounds(const tri_rounds *r, const tri_member *rows, int64_t count) {
  for (int64_t round = 1; round <= r->rounds; round++) {
    int64_t failed = 0;
    const char *reason = "";
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].round != round || rows[i].state != TRI_TRIAL_FAILED) continue;
      failed++;
      reason = rows[i].reason;
    }
    if (failed < r->members) continue;
    return tri_fail(TRI_BAD_CONFIG, "all %ld members failed in round %ld, the last one: %s", (long)failed, (long)round,
                    reason);
  }
  return TRI_OK;
}

/* Chooses the member with the least progress among those that are not being trained and need not wait (must_wait), and
 * its next round; sets *member to 0 if there is none. Sets *left to the number of rounds that have not ended. Fails as
 * check_rounds does. */
static tri_status population_next(const tri_rounds *r, const tri_member *rows, int64_t count, int64_t *member,
                                  int64_t *round, int64_t *left) {
  TRI_TRY(check_rounds(r, rows, count));
  *left = *member = 0;
  *round = r->rounds + 1;
  for (int64_t m = 1; m <= r->members; m++) {
    int64_t next = 1;
    bool busy = false;
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].member != m) continue;
      busy = busy || rows[i].state == TRI_TRIAL_RUNNING;
      if (rows[i].round >= next) next = rows[i].round + 1;
    }
    *left += r->rounds + 1 - next + busy;
    if (busy || next >= *round || must_wait(rows, count, m, next - 1)) continue;
    *round = next;
    *member = m;
  }
  return TRI_OK;
}

const tri_rounds_method tri_method_population = {
    .member = "member",
    .prepare = population_prepare,
    .next = population_next,
    .decide = population_decide,
    .folder = population_folder,
    .command = population_command,
    .last_step = population_last_step,
    .clear = population_clear,
    .text = tri_population_text,
    .json = tri_population_json,
    .html = tri_population_html,
};
