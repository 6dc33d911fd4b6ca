/* The loop of a study: suggest a point, claim it, try it, store the result. */
#ifndef TRI_TUNE_TUNER_H
#define TRI_TUNE_TUNER_H

#include "tune/store.h"

/* Runs trials until the study's budget is spent or no point is left. Real trials write below `folder`. Logs the
 * progress. If this process is asked to stop (base/stop.h), ends and removes the running trials and fails with
 * TRI_INTERRUPTED. */
tri_status tri_tune(tri_study *study, tri_store *store, const char *folder);

#endif
