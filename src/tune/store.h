/* A study's trials in an SQLite file, written before and after each trial, so that a tuner may be killed at any moment
 * and several tuners may share it. */
#ifndef TRI_TUNE_STORE_H
#define TRI_TUNE_STORE_H

#include "tune/study.h"

typedef struct tri_store tri_store;

/* State of a trial in the file, in addition to those of tri_trial_state: done, but stopped early. */
enum { TRI_STORE_STOPPED_EARLY = 3 };

/* Opens the file or creates it. TRI_BAD_CONFIG if it is the store of another study (another name, space, objective,
 * model, cluster, run file or batch), TRI_BAD_FILE if it is not a store; nothing is overwritten. Removes running trials
 * of dead tuners (as tri_store_forget_dead) and refused trials (TRI_TRIAL_REFUSED), so that they are repeated. `text`:
 * the study's file, which is stored; NULL: only for reading, the study is not compared and nothing is removed. Release
 * with tri_store_close. */
tri_status tri_store_open(const char *path, const char *text, const tri_study *study, tri_store **out);
void tri_store_close(tri_store *store);

/* Return whether a file is an SQLite database, by its first bytes. */
bool tri_store_is_one(const char *path);
bool tri_store_begins(int file);
/* Reads the study of a store from the stored study file (tri_study_read). TRI_BAD_FILE if there is none. */
tri_status tri_store_study(const char *path, tri_study *out);
/* Returns TRI_BAD_FILE for a study of validation losses, which varies no layout. */
tri_status tri_store_check_layouts(const char *path);
/* Reads the layout of the best trial, in the format of tri_layout_text. TRI_BAD_FILE if no trial has succeeded. */
tri_status tri_store_best_layout(const char *path, char *text, size_t bytes);

/* Removes running trials and rounds of dead tuners: on this machine those whose process is gone, on others those
 * without a heartbeat for five minutes. */
tri_status tri_store_forget_dead(tri_store *store);
/* Writes a heartbeat for the running trials and rounds of this process, at most every ten seconds. */
tri_status tri_store_beat(tri_store *store);

/* Reads all trials in the order of their numbers. The store owns (*out)[*count]; valid until the next call. */
tri_status tri_store_trials(tri_store *store, const tri_trial **out, int64_t *count);

/* Claims a point and sets *number to that of its trial; -1 if the point has a trial, or other tuners have spent the
 * budget. */
tri_status tri_store_begin(tri_store *store, const tri_point *point, int64_t *number);
/* Stores the result of a claimed trial, with its layout as text ("" if it has none). */
tri_status tri_store_end(tri_store *store, const tri_trial *trial, const char *layout);
/* Removes a claimed trial that has not ended. */
tri_status tri_store_forget(tri_store *store, int64_t number);

/* Reads the result of a known recipe. *found is false if it was not tried. */
tri_status tri_store_known(tri_store *store, const tri_recipe *recipe, tri_trial *out, bool *found);
tri_status tri_store_note_known(tri_store *store, const tri_recipe *recipe, const tri_trial *trial);

/* Stores the value that a trial has at a rung. *place: number of trials that were better at this rung; *count: number
 * of trials at this rung, this one included; *best: the best value. */
tri_status tri_store_rung(tri_store *store, int64_t number, int64_t rung, double value, int64_t *place, int64_t *count,
                          double *best);

#endif
