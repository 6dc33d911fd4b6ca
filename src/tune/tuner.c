#include "tune/tuner.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/stop.h"
#include "base/system.h"
#include "data/corpus_writer.h"
#include "files/file.h"
#include "schedule/layout_config.h"
#include "tune/process.h"
#include "tune/short_run.h"
#include "tune/study_objective.h"
#include "tune/trial.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKED = 20000, FEW = 2, MOST_AT_ONCE = 256, RUNGS = 2, USUAL_TRIALS = 64, FOR_TOKENS = 1 << 24 };

/* Pauses between two checks of running trials, in seconds. The longer one is used if no further trial can begin. */
static const double PAUSE_S = 0.1, LONG_PAUSE_S = 0.5;

/* A trial in progress. A *rung* is one of the RUNGS numbers of steps after which a trial is compared with others
 * (is_hopeless). */
typedef struct trial_slot {
  tri_attempt *attempt; /* NULL: the slot is not in use */
  tri_trial trial;
  tri_trial_plan plan;
  int64_t rung; /* index of the next rung that the trial reaches */
} trial_slot;

typedef struct tuner {
  tri_study *study;
  tri_store *store;
  const char *folder;
  tri_suggester suggester;
  trial_slot slots[MOST_AT_ONCE];
  double begin_s, best; /* begin_s: time in seconds (tri_clock_s) at which the study began in this process; best: the
                           best value that this tuner knows */
} tuner;

/* ---- beginning and ending trials --------------------------------------------------------------------------------- */

static void tell(const tri_study *study, const tri_trial *trial, double best) {
  char text[TRI_POINT_TEXT_BYTES];
  tri_point_text(&study->space, &trial->point, text, sizeof text);
  if (trial->state == TRI_TRIAL_DONE) {
    tri_log("trial %ld: %.4f%s  %s%s%s", (long)trial->number, tri_objective_shown(study->objective, trial->value),
            !trial->early && trial->value > best ? " (the best)" : "", text, trial->reason[0] == '\0' ? "" : "; ",
            trial->reason);
  } else {
    tri_log("trial %ld: %s  %s", (long)trial->number, trial->reason, text);
  }
}

/* Stores and logs the result of a trial, and frees its slot. Fails with TRI_BAD_FILE if the trial lacks a file and no
 * trial has succeeded yet, because the other trials lack the file, too. */
static tri_status finish(tuner *t, trial_slot *s) {
  char layout[TRI_LAYOUT_TEXT_BYTES];
  const bool lacks_file = tri_attempt_lacks_file(s->attempt);
  tri_attempt_destroy(s->attempt);
  s->attempt = NULL;
  tell(t->study, &s->trial, t->best);
  if (s->trial.state == TRI_TRIAL_DONE && !s->trial.early) t->best = fmax(t->best, s->trial.value);
  TRI_TRY(tri_store_end(t->store, &s->trial, tri_layout_text_of_all(&s->plan.layout, layout, sizeof layout)));
  if (s->trial.state != TRI_TRIAL_FAILED || !lacks_file || isfinite(t->best)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "trial %ld was %s; the same command tries it again", (long)s->trial.number,
                  s->trial.reason);
}

/* Returns whether the budget allows another trial. */
static bool may_go_on(const tuner *t, const tri_trial *trials, int64_t count) {
  const tri_study *study = t->study;
  double node_s = 0;
  for (int64_t i = 0; i < count; i++) node_s += trials[i].node_s;
  if (study->minutes > 0 && tri_clock_s() - t->begin_s > 60 * study->minutes) return false;
  if (study->node_hours > 0 && node_s >= 3600 * study->node_hours) return false;
  return count < study->search.trials;
}

/* Chooses, claims and begins a trial. Sets *none if there is nothing left to begin. */
static tri_status tuner_begin(tuner *t, int at, bool *none) {
  trial_slot *s = &t->slots[at];
  const tri_trial *trials = NULL;
  int64_t count = 0;
  bool found = false;
  char own[TRI_PATH_BYTES], name[64];
  *s = (trial_slot){0};
  TRI_TRY(tri_store_trials(t->store, &trials, &count));
  const tri_trial *best = tri_trial_best(trials, count);
  t->best = best == NULL ? -INFINITY : best->value;
  tri_status status = TRI_OK;
  if (may_go_on(t, trials, count)) status = tri_suggest(&t->suggester, trials, count, &s->trial.point, &found);
  *none = !found;
  if (status != TRI_OK || !found) return status;
  TRI_TRY(tri_point_plan(t->study, &s->trial.point, &s->plan));
  TRI_TRY(tri_store_begin(t->store, &s->trial.point, &s->trial.number));
  if (s->trial.number < 0) return TRI_OK; /* another tuner has claimed the point; the next call reads that trial */
  snprintf(name, sizeof name, "trial-%ld", (long)s->trial.number);
  status = tri_path_join(own, t->folder, name);
  if (status == TRI_OK) status = tri_attempt_start(t->study, &s->plan, own, at, &s->attempt);
  if (status != TRI_OK) (void)tri_store_forget(t->store, s->trial.number);
  return status;
}

/* ---- checking trials --------------------------------------------------------------------------------------------- */

/* Applies successive halving (Jamieson and Talwalkar 2016) without waiting for a whole round. At a quarter and at half
 * of its measured steps a trial is compared with all trials that got as far, if these are more than FEW. The trial is
 * hopeless if it is in the worse half and `worse` times slower than the best. */
static tri_status is_hopeless(const tuner *t, trial_slot *s, bool *hopeless) {
  int64_t steps = 0, place = 0, count = 0, wanted = (t->study->trial.steps << s->rung) / (1 << RUNGS);
  double best = 0;
  *hopeless = false;
  if (!tri_study_is_real(t->study) || s->rung >= RUNGS) return TRI_OK;
  if (tri_objective_is_of_loss(t->study->objective)) return TRI_OK; /* a trial of a loss always has its whole budget */
  double value = tri_attempt_value(s->attempt, &steps);
  if (steps < wanted || steps == 0 || steps >= t->study->trial.steps) return TRI_OK;
  TRI_TRY(tri_store_rung(t->store, s->trial.number, s->rung, value, &place, &count, &best));
  s->rung++;
  *hopeless = count > FEW && 2 * place >= count && value * t->study->trial.worse < best;
  return TRI_OK;
}

static tri_status check_trial(tuner *t, trial_slot *s) {
  bool ended = tri_attempt_ended(s->attempt, &s->trial), hopeless = false;
  if (!ended) TRI_TRY(is_hopeless(t, s, &hopeless));
  if (hopeless) tri_attempt_stop_early(s->attempt, &s->trial);
  return ended || hopeless ? finish(t, s) : TRI_OK;
}

static void give_up(tuner *t) {
  for (int at = 0; at < MOST_AT_ONCE; at++) {
    if (t->slots[at].attempt == NULL) continue;
    tri_attempt_destroy(t->slots[at].attempt);
    (void)tri_store_forget(t->store, t->slots[at].trial.number);
  }
}

static tri_status go_on(tuner *t) {
  for (;;) {
    int64_t busy = 0;
    bool none = false;
    if (tri_stop_asked()) return tri_fail(TRI_INTERRUPTED, "interrupted; the same command continues");
    TRI_TRY(tri_store_beat(t->store));
    for (int at = 0; at < t->study->parallel; at++) {
      if (t->slots[at].attempt != NULL) TRI_TRY(check_trial(t, &t->slots[at]));
      if (t->slots[at].attempt == NULL && !none) TRI_TRY(tuner_begin(t, at, &none));
      busy += t->slots[at].attempt != NULL;
    }
    if (none && busy == 0) return TRI_OK;
    if (tri_study_is_real(t->study)) tri_pause_s(none ? LONG_PAUSE_S : PAUSE_S);
  }
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

/* Measures this machine, unless the folder has its description, stores the description next to the trials, and loads it
 * as the study's cluster. Fails with TRI_INTERRUPTED if a stop is requested. */
static tri_status calibrate(tri_study *study, const char *folder) {
  char path[TRI_PATH_BYTES], log[TRI_PATH_BYTES], program[TRI_PATH_BYTES], ranks[32], reason[256];
  snprintf(ranks, sizeof ranks, "%lld", (long long)study->devices);
  TRI_TRY(tri_system_own_path(program, sizeof program));
  TRI_TRY(tri_path_join(path, folder, "cluster.yaml"));
  TRI_TRY(tri_path_join(log, folder, "calibrate.txt"));
  if (!tri_path_exists(path)) {
    char *line[] = {program, "calibrate", path, "-n", ranks, "--time", "10", NULL};
    tri_child process;
    tri_log("measuring this machine with %s ranks, once: %s", ranks, path);
    TRI_TRY(tri_process_start(line, log, &(tri_process_limits){0}, &process));
    while (!tri_child_ended(&process)) {
      if (tri_stop_asked()) {
        tri_child_stop(&process);
        return tri_fail(TRI_INTERRUPTED, "interrupted; the same command continues");
      }
      tri_pause_s(PAUSE_S);
    }
    if (!WIFEXITED(process.result) || WEXITSTATUS(process.result) != 0) {
      tri_short_run_reason(&process, log, reason, sizeof reason);
      return tri_fail(TRI_IO_FAILED, "cannot measure this machine: %s; leave `cluster` out to tune without one",
                      reason);
    }
  }
  return tri_cluster_load(path, &study->cluster);
}

enum { RANDOM_DOCUMENTS = 512, RANDOM_LENGTH = 2048 };

static tri_status draw_tokens(const tri_study *study, tri_corpus_writer *writer) {
  int32_t ids[RANDOM_LENGTH];
  for (uint64_t d = 0; d < RANDOM_DOCUMENTS; d++) {
    tri_random_key key = tri_random_stream(study->search.seed, TRI_RANDOM_TUNE, FOR_TOKENS + d);
    for (uint64_t i = 0; i < RANDOM_LENGTH; i++) {
      ids[i] = (int32_t)(tri_random_u32(key, i) % (uint64_t)study->model.vocab_size);
    }
    TRI_TRY(tri_corpus_writer_add(writer, ids, RANDOM_LENGTH));
    TRI_TRY(tri_corpus_writer_end_document(writer));
  }
  TRI_TRY(tri_corpus_writer_finish(writer));
  return tri_corpus_writer_commit(writer);
}

/* Writes a corpus of random tokens, unless it exists. A step takes the same time with any tokens. */
static tri_status write_tokens(const tri_study *study, const char *folder) {
  char prefix[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  tri_corpus_writer *writer = NULL;
  TRI_TRY(tri_path_join(prefix, folder, TRI_RANDOM_TOKENS));
  TRI_TRY(tri_path_join(path, folder, TRI_RANDOM_TOKENS ".idx"));
  if (tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_corpus_writer_create(prefix, study->model.vocab_size, &writer));
  tri_status status = draw_tokens(study, writer);
  tri_corpus_writer_destroy(writer);
  return status;
}

/* Creates the corpus of random tokens and the description of the cluster, if real trials need them. Holds a lock
 * meanwhile, so that other tuners of the study wait. */
static tri_status furnish(tri_study *study, const char *folder) {
  TRI_TRY(tri_directory_create(folder));
  int lock = open(folder, O_RDONLY | O_DIRECTORY);
  if (lock >= 0)
    (void)flock(lock, LOCK_EX); /* on a file system without locks, each tuner prepares these files by itself */
  tri_status status = study->trial.random_tokens ? write_tokens(study, folder) : TRI_OK;
  if (status == TRI_OK && tri_study_calibrates(study)) status = calibrate(study, folder);
  if (lock >= 0) close(lock);
  return status;
}

/* Decides the method if it is `auto`, and the number of trials if it is 0. Logs how long it takes to simulate all
 * points, if `auto` chooses this. */
static tri_status settle_method(tri_study *study, const tri_point *points, int64_t count) {
  tri_point_search *search = &study->search;
  double seconds = 0;
  if (search->method == TRI_METHOD_AUTO) {
    bool may = !tri_study_is_real(study) && search->trials == 0 && study->node_hours <= 0;
    search->method = TRI_METHOD_GAUSSIAN;
    if (may && study->exhaustive_seconds > 0) {
      TRI_TRY(tri_trial_seconds(study, points, count, &seconds));
      if (seconds <= study->exhaustive_seconds) search->method = TRI_METHOD_EXHAUSTIVE;
    }
  }
  bool all = search->method == TRI_METHOD_EXHAUSTIVE;
  if (search->trials == 0) search->trials = all ? INT32_MAX : USUAL_TRIALS;
  if (all && seconds > 0) {
    tri_log("all %ld points of the space are simulated, in some %.0f s (method: auto, exhaustive_seconds)", (long)count,
            ceil(seconds));
  }
  return TRI_OK;
}

/* Computes the prior. For real trials it is computed by simulation, if there are not too many points; otherwise from
 * the planner's bounds. */
static tri_status expect(const tri_study *study, const tri_point *points, int64_t count, double **out) {
  bool simulates = tri_study_is_real(study) && count <= MOST_RANKED;
  double *prior = NULL;
  TRI_TRY(tri_alloc("a prior", (size_t)count, sizeof *prior, &prior));
  tri_status status = (simulates ? tri_trial_expect : tri_trial_bound)(study, points, count, prior);
  if (status == TRI_OK) *out = prior;
  if (status != TRI_OK) tri_free(prior);
  return status;
}

static bool has_prior(const tri_study *study) {
  if (study->search.method != TRI_METHOD_GAUSSIAN || study->prior == TRI_PRIOR_NONE) return false;
  return study->cluster_name[0] != '\0' && !tri_objective_is_of_loss(study->objective);
}

static tri_status tuner_prepare(tuner *t) {
  tri_study *study = t->study;
  tri_point *points = NULL;
  double *prior = NULL;
  int64_t count = 0;
  if (tri_study_is_real(study)) TRI_TRY(furnish(study, t->folder));
  TRI_TRY(tri_study_points(study, &points, &count));
  tri_status status = settle_method(study, points, count);
  if (status == TRI_OK && has_prior(study)) status = expect(study, points, count, &prior);
  if (status != TRI_OK) {
    tri_free(points);
    return status;
  }
  t->suggester = tri_suggester_create(&study->space, &study->search, points, count, prior);
  return TRI_OK;
}

/* Tries a known recipe like a trial, unless the store has its result. The budget does not count it. Fails with
 * TRI_INTERRUPTED if a stop is requested, and if the recipe's layout is not possible. */
static tri_status try_recipe(tuner *t, int64_t place) {
  const tri_recipe *recipe = &t->study->known[place];
  tri_trial_plan plan;
  tri_trial trial = {0};
  tri_attempt *attempt = NULL;
  char own[TRI_PATH_BYTES], name[64];
  bool known = false;
  TRI_TRY(tri_store_known(t->store, recipe, &trial, &known));
  if (known) return TRI_OK;
  tri_status status = tri_recipe_plan(t->study, recipe, &plan);
  if (status == TRI_BAD_LAYOUT || status == TRI_BAD_CONFIG) {
    return tri_fail(status, "`known`: %s: %s", recipe->name, tri_status_message());
  }
  TRI_TRY(status);
  snprintf(name, sizeof name, "known-%ld", (long)place);
  TRI_TRY(tri_path_join(own, t->folder, name));
  TRI_TRY(tri_attempt_start(t->study, &plan, own, 0, &attempt));
  while (status == TRI_OK && !tri_attempt_ended(attempt, &trial)) {
    if (tri_stop_asked()) status = tri_fail(TRI_INTERRUPTED, "interrupted; the same command continues");
    tri_pause_s(PAUSE_S);
  }
  tri_attempt_destroy(attempt);
  return status == TRI_OK ? tri_store_note_known(t->store, recipe, &trial) : status;
}

tri_status tri_tune(tri_study *study, tri_store *store, const char *folder) {
  tuner *t = NULL;
  TRI_TRY(tri_alloc("a tuner", 1, sizeof *t, &t));
  t->study = study;
  t->store = store;
  t->folder = folder;
  t->begin_s = tri_clock_s();
  if (tri_study_is_real(study))
    tri_stop_defer("interrupted twice, so it ends at once; the same command resumes from the newest checkpoint");
  tri_status status = tuner_prepare(t);
  for (int64_t place = 0; status == TRI_OK && place < study->num_known; place++) status = try_recipe(t, place);
  if (status == TRI_OK) status = go_on(t);
  if (status != TRI_OK) give_up(t);
  tri_suggester_release(&t->suggester);
  tri_free(t);
  return status;
}
