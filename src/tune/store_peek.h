/* Reads a store that tuners may be writing, and changes nothing in it: no lock is held between statements, no trial is
 * removed, and no file is created next to it. (One exception: SQLite creates a missing -shm file if the store has a
 * write-ahead log.) */
#ifndef TRI_TUNE_STORE_PEEK_H
#define TRI_TUNE_STORE_PEEK_H

#include "base/status.h"

#include <jansson.h>

/* Reads a store's study and all its trials: {"study", "model", "unit", "lower_is_better", "trials": [{"number",
 * "point", "state", "value", "memory", "reason", "seconds", "node_s", "layout", "began"}], "members": [{"member",
 * "round", "parent", "state", "params", "loss", "reason", "seconds", "began"}]}. States are "running", "done" and
 * "failed"; a missing value is null. TRI_BAD_FILE if it is not a store, or is too large; TRI_IO_FAILED if it cannot be
 * read at present. The file is `relative` below the folder `root`, in which others may write (files/file.h); the path
 * of `root` contains no links (realpath). Release with json_decref. */
tri_status tri_store_peek(const char *root, const char *relative, json_t **out);

/* LOCAL, once, before any thread peeks. After it SQLite opens only plain files in this process, and follows no links on
 * the way to them. */
tri_status tri_store_peek_prepare(void);

#endif
