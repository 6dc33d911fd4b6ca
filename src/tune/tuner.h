/* The loop of a study: suggest a point, claim it, try it, store the result. */
#ifndef TRI_TUNE_TUNER_H
#define TRI_TUNE_TUNER_H

#include "tune/store.h"

/* Tries the known recipes, then runs trials until the study's budget is spent or no point is left. Real trials write
 * below `folder`. Sets the method and the number of trials of *study if the study leaves them open. Measures the
 * cluster first if the study asks for this. Logs the progress. Fails with TRI_BAD_FILE if a trial lacks a file and no
 * trial has succeeded. If this process is asked to stop (base/stop.h), ends and removes the running trials and fails
 * with TRI_INTERRUPTED. */
tri_status tri_tune(tri_study *study, tri_store *store, const char *folder);

#endif
