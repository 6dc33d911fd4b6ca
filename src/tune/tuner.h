/* The loop of a study: suggest, claim, try, note. */
#ifndef TRI_TUNE_TUNER_H
#define TRI_TUNE_TUNER_H

#include "tune/store.h"

/* Goes on until the study's budget is spent or nothing is left to try, or somebody asks to stop (base/stop.h). Real
 * trials write below `folder`. Progress is logged. */
tri_status tri_tune(const tri_study *study, tri_store *store, const char *folder);

#endif
