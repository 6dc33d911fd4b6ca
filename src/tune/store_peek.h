/* Reads a store that tuners may be writing, without any writes: no lock is held, no trial is removed, and no file is
 * made beside it. */
#ifndef TRI_TUNE_STORE_PEEK_H
#define TRI_TUNE_STORE_PEEK_H

#include "base/status.h"

#include <jansson.h>

/* Its study and all its trials: {"study", "model", "unit", "trials": [{"number", "point", "state", "value",
 * "memory", "reason", "seconds", "node_s", "layout", "began"}], "members": [{"member", "round", "parent", "state",
 * "params", "loss", "reason", "seconds", "began"}]}; states are "running", "done" and "failed", and what a row has not
 * is null. TRI_BAD_FILE if it is not a store, or more than can be shown; TRI_IO_FAILED if it cannot be read just
 * now. The file lies below a folder in which others may write (base/file.h), whose own path has no link in it
 * (realpath). Release with json_decref. */
tri_status tri_store_peek(const char *root, const char *relative, json_t **out);

/* LOCAL, once, before any thread peeks. From then on SQLite opens plain files alone in this process, and follows no
 * link on the way to one. */
tri_status tri_store_peek_prepare(void);

#endif
