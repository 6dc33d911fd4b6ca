/* The record of data.train in a checkpoint: a list of sources, each with `path`, `fingerprint`, `weight` and
 * `label_weight`, or for a single source an object with `path` and `fingerprint`. */
#ifndef TRI_RUN_SAVED_SOURCES_H
#define TRI_RUN_SAVED_SOURCES_H

#include "run/run_config.h"

#include <jansson.h>

enum { TRI_SAVED_SOURCE_BYTES = 300 }; /* size of a description of a source or mixture */

/* Returns the number of sources of a record; 0 for a record that is neither a list nor an object. */
int64_t tri_saved_num_sources(const json_t *train);

/* Returns source k; NULL after the last. */
const json_t *tri_saved_source(const json_t *train, int64_t k);

/* Returns the weight of a source's labels; 1 for checkpoints of versions without this key. */
double tri_saved_label_weight(const json_t *source);

/* Returns whether the sources of a record are mixed in other shares than this run's data.train, which must have the
 * same sources. If so, sets `there` and `here` to descriptions of the two mixtures. */
bool tri_saved_mixture_differs(const json_t *train, const tri_run_config *config, char there[TRI_SAVED_SOURCE_BYTES],
                               char here[TRI_SAVED_SOURCE_BYTES]);

#endif
