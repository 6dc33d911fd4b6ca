/* The loop of a study: suggest, claim, try, note. */
#ifndef TRI_TUNE_TUNER_H
#define TRI_TUNE_TUNER_H

#include "tune/store.h"

/* Goes on until the study's budget is spent or nothing is left to try. Real trials write below `folder`. Progress is
 * logged. TRI_INTERRUPTED where somebody asks to stop (base/stop.h): what runs is ended and forgotten. */
tri_status tri_tune(tri_study *study, tri_store *store, const char *folder);

#endif
