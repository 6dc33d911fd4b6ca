/* The loop of a study: suggest a point, claim it, try it, store the result. */
#ifndef TRI_TUNE_TUNER_H
#define TRI_TUNE_TUNER_H

#include "tune/store.h"

/* Runs trials until the study's budget is spent or no point is left. Real trials write below `folder`. Logs the
 * progress. TRI_INTERRUPTED if it is asked to stop (base/stop.h); running trials are then ended and removed. */
tri_status tri_tune(tri_study *study, tri_store *store, const char *folder);

#endif
