/* The key `allow_change` of a run file: keys in which a checkpoint may differ from the run that loads it. They are the
 * rows of the run file with TRI_CHANGE_FUNCTION, whose change every resume refuses; the rows with TRI_CHANGE_LEARNING,
 * whose change a finished run refuses; and `run`, the id of the run. */
#ifndef TRI_RUN_ALLOWED_CHANGES_H
#define TRI_RUN_ALLOWED_CHANGES_H

#include "config/config.h"

/* Returns whether the list `allow_change` has the key. */
bool tri_change_is_allowed(const char *allow_change, const char *key);

/* Checks that each word of `allow_change` is one of these keys. Fails with TRI_BAD_CONFIG; the error message begins
 * with `allow_change` in backquotes, and suggests the nearest key. */
tri_status tri_allowed_changes_check(const tri_config_table *table, const char *allow_change);

#endif
