/* The study's trials in one SQLite file: written before and after each, so that a tuner may be killed at any moment and
 * several may share it. */
#ifndef TRI_TUNE_STORE_H
#define TRI_TUNE_STORE_H

#include "tune/study.h"

typedef struct tri_store tri_store;

/* Opens the file or makes it. A store of another study (its name, space, model or objective) is TRI_BAD_CONFIG; what is
 * no such file TRI_BAD_FILE; nothing is overwritten. Trials that a dead process of this machine has left running are
 * forgotten, to be made again. Release with tri_store_close. */
tri_status tri_store_open(const char *path, const tri_study *study, tri_store **out);
void tri_store_close(tri_store *store);

/* All trials in the order of their numbers; *out of *count is released with tri_free. */
tri_status tri_store_trials(tri_store *store, tri_trial **out, int64_t *count);

/* Claims a point: *number is its trial's, or -1 where somebody has it already. */
tri_status tri_store_begin(tri_store *store, const tri_point *point, int64_t *number);
/* The end of a claimed trial. */
tri_status tri_store_end(tri_store *store, const tri_trial *trial);

#endif
