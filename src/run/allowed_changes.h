/* The key `allow_change` of a run file: keys in which a checkpoint may differ from the run that loads it. They are the
 * rows of the run file with TRI_CHANGE_FUNCTION, and `run`, the id of the run. */
#ifndef TRI_RUN_ALLOWED_CHANGES_H
#define TRI_RUN_ALLOWED_CHANGES_H

#include "config/config.h"

/* Returns whether `allow_change` names a key. */
bool tri_change_is_allowed(const char *allow_change, const char *key);

/* Checks that each key in `allow_change` is a key whose change a resume refuses (TRI_CHANGE_FUNCTION), or `run`. The
 * error message begins with the key. */
tri_status tri_allowed_changes_check(const tri_config_table *table, const char *allow_change);

#endif
