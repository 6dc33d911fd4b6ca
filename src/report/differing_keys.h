/* The keys of config.yaml whose values differ among several runs. */
#ifndef TRI_REPORT_DIFFERING_KEYS_H
#define TRI_REPORT_DIFFERING_KEYS_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* LOCAL. Compares config.yaml of the folders. Returns in *out an object with the differing keys by their full names
 * ("optimizer.lr"), in the order of the files; each value is a list with one text per folder, or null if that folder's
 * file does not have the key or cannot be read. A list is one value, in YAML's flow form. Left out are `output` and the
 * model's name. Also left out are keys that are equal in all files that have them, because files of other versions may
 * lack a key. The caller releases *out with json_decref. Fails only with TRI_OUT_OF_MEMORY. */
tri_status tri_differing_keys(const char *const *folders, int64_t num_folders, json_t **out);

#endif
