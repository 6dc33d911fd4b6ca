/* Reads a store that tuners may be writing, and changes nothing in it: it holds no lock between statements, removes no
 * trial, and creates no file next to the store. One exception: if the store has a write-ahead log, SQLite creates a
 * missing -shm file. */
#ifndef TRI_TUNE_STORE_PEEK_H
#define TRI_TUNE_STORE_PEEK_H

#include "base/status.h"

#include <jansson.h>

/* Reads a store's study and all its trials: {"study", "model", "steps", "unit", "lower_is_better", "trials":
 * [{"number", "point", "state", "value", "memory", "reason", "seconds", "node_s", "layout", "began"}], "members":
 * [{"member", "round", "parent", "state", "params", "loss", "reason", "seconds", "began"}]}. "steps" is the number of
 * steps of a whole run, and null if trials are not judged by a loss at their end. States are "running", "done" and
 * "failed"; a missing value is null. The file is `relative` below the folder `root`, in which other users may write
 * (files/file.h); the path `root` contains no links (realpath). Fails with TRI_BAD_FILE if the file is not a store, or
 * is too large, and with TRI_IO_FAILED if the file cannot be read at present. Release with json_decref. */
tri_status tri_store_peek(const char *root, const char *relative, json_t **out);

/* LOCAL. Call it once, before any thread calls tri_store_peek. After the call SQLite opens only plain files in this
 * process, and follows no links on the way to them. Fails with TRI_UNSUPPORTED if this SQLite does not allow that. */
tri_status tri_store_peek_prepare(void);

#endif
