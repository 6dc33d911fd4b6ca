/* A study's trials in an SQLite file. A trial is written when it begins and when it ends, so that a tuner may be killed
 * at any moment, and several tuners may share the file. */
#ifndef TRI_TUNE_STORE_H
#define TRI_TUNE_STORE_H

#include "tune/study.h"

typedef struct tri_store tri_store;

/* Number of a state in the file, after those of tri_trial_state: the trial is done, but was stopped early. */
enum { TRI_STORE_STOPPED_EARLY = 3 };

/* Opens the file, or creates it. `text` is the text of the study's file, which is stored. Removes the running trials of
 * dead tuners (as tri_store_forget_dead) and refused trials (TRI_TRIAL_REFUSED), so that they are repeated. Fails with
 * TRI_BAD_CONFIG if the file is the store of another study (another name, space, objective, model, cluster, run file or
 * batch), and with TRI_BAD_FILE if it is not a store; never overwrites such a file. If `text` is NULL, the study is not
 * compared, and nothing is removed: for reports. Release with tri_store_close. */
tri_status tri_store_open(const char *path, const char *text, const tri_study *study, tri_store **out);
void tri_store_close(tri_store *store);

/* Both functions return whether a file is an SQLite database, by its first bytes. */
bool tri_store_is_one(const char *path);
bool tri_store_begins(int file);
/* Reads the study of a store from the study file that the store contains (tri_study_read). Fails with TRI_BAD_FILE if
 * it contains none. */
tri_status tri_store_study(const char *path, tri_study *out);
/* Fails with TRI_BAD_FILE if the store is that of a study of validation losses or accuracies, because such a study
 * varies no layout. */
tri_status tri_store_check_layouts(const char *path);
/* Reads the layout of the best trial, in the format of tri_layout_text. Fails with TRI_BAD_FILE if no trial has
 * succeeded. */
tri_status tri_store_best_layout(const char *path, char *text, size_t bytes);

/* Removes running trials and rounds of dead tuners. A tuner on this machine is dead if its process is gone; a tuner on
 * another machine is dead if it has had no heartbeat for five minutes. */
tri_status tri_store_forget_dead(tri_store *store);
/* Writes a heartbeat for the running trials and rounds of this process, at most every ten seconds. */
tri_status tri_store_beat(tri_store *store);

/* Reads all trials in the order of their numbers. The store owns (*out)[*count], which are valid until the next call.
 * Fails with TRI_BAD_FILE if a trial has numbers that no tuner writes, and with TRI_BAD_CONFIG if its point is not in
 * the space. */
tri_status tri_store_trials(tri_store *store, const tri_trial **out, int64_t *count);

/* Claims a point, and sets *number to the number of its trial. Sets *number to -1 if the point has a trial, or if other
 * tuners have spent the budget. */
tri_status tri_store_begin(tri_store *store, const tri_point *point, int64_t *number);
/* Stores the result of a claimed trial, with its layout as text ("" if the trial has none). */
tri_status tri_store_end(tri_store *store, const tri_trial *trial, const char *layout);
/* Removes a claimed trial that has not ended. */
tri_status tri_store_forget(tri_store *store, int64_t number);

/* Reads the result of a known recipe. Sets *found to false if the recipe was not tried. */
tri_status tri_store_known(tri_store *store, const tri_recipe *recipe, tri_trial *out, bool *found);
/* Stores the result of a known recipe. */
tri_status tri_store_note_known(tri_store *store, const tri_recipe *recipe, const tri_trial *trial);

/* Stores the value that a trial has at a rung. Sets *place to the number of trials that were better at this rung,
 * *count to the number of trials at this rung, this one included, and *best to the best value at this rung. */
tri_status tri_store_rung(tri_store *store, int64_t number, int64_t rung, double value, int64_t *place, int64_t *count,
                          double *best);

#endif
