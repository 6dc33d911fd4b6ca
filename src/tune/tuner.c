#include "tune/tuner.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "tune/trial.h"

#include <stdio.h>

static double best_of(const tri_trial *trials, int64_t count) {
  double best = 0;
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state == TRI_TRIAL_DONE && trials[i].value > best) best = trials[i].value;
  }
  return best;
}

static void tell(const tri_study *study, const tri_trial *trial, double best) {
  char text[TRI_POINT_TEXT_BYTES];
  tri_point_text(&study->space, &trial->point, text, sizeof text);
  if (trial->state == TRI_TRIAL_DONE) {
    tri_log("trial %ld: %.4f%s  %s%s%s", (long)trial->number, trial->value, trial->value > best ? " (the best)" : "",
            text, trial->reason[0] == '\0' ? "" : "; ", trial->reason);
  } else {
    tri_log("trial %ld: failed: %s  %s", (long)trial->number, trial->reason, text);
  }
}

/* Chooses, claims and makes one trial; *more is false where there is nothing left to do. */
static tri_status one_trial(const tri_study *study, tri_suggester *suggester, tri_store *store, const char *folder,
                            bool *more) {
  tri_trial *trials = NULL, trial = {0};
  int64_t count = 0;
  char own[TRI_PATH_BYTES], name[64];
  TRI_TRY(tri_store_trials(store, &trials, &count));
  double best = best_of(trials, count);
  tri_status status = TRI_OK;
  *more = count < study->search.trials;
  if (*more) status = tri_suggest(suggester, trials, count, &trial.point, more);
  tri_free(trials);
  if (status != TRI_OK || !*more) return status;
  TRI_TRY(tri_store_begin(store, &trial.point, &trial.number));
  if (trial.number < 0) return TRI_OK; /* another tuner was quicker */
  snprintf(name, sizeof name, "trial-%ld", (long)trial.number);
  TRI_TRY(tri_path_join(own, folder, name));
  TRI_TRY(tri_trial_run(study, own, best, &trial));
  tell(study, &trial, best);
  return tri_store_end(store, &trial);
}

tri_status tri_tune(const tri_study *study, tri_store *store, const char *folder) {
  tri_suggester suggester;
  tri_point *points = NULL;
  int64_t num_points = 0;
  double begin_s = tri_clock_s();
  bool more = true;
  TRI_TRY(tri_study_points(study, &points, &num_points));
  suggester = tri_suggester_create(&study->space, &study->search, points, num_points, NULL);
  tri_status status = TRI_OK;
  if (study->run[0] != '\0') {
    status = tri_directory_create(folder);
    if (status == TRI_OK && study->cluster_name[0] != '\0') {
      status = tri_alloc("a prior", (size_t)suggester.num_points, sizeof *suggester.prior, &suggester.prior);
      if (status == TRI_OK) status = tri_trial_expect(study, suggester.points, suggester.num_points, suggester.prior);
    }
  }
  while (status == TRI_OK && more && !tri_stop_asked()) {
    if (study->minutes > 0 && tri_clock_s() - begin_s > 60 * study->minutes) break;
    status = one_trial(study, &suggester, store, folder, &more);
  }
  tri_suggester_release(&suggester);
  if (status == TRI_OK && tri_stop_asked()) return tri_fail(TRI_INTERRUPTED, "interrupted; the same command goes on");
  return status;
}
