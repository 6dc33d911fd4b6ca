/* The keys of a config.json: keys that its model_type reads, keys that only other model types read, and keys with the
 * same meaning. A tri_hf_keys is the table of keys of one model_type (model/hf_keys.h). */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_KEYS_H
#define TRI_CHECKPOINT_HUGGINGFACE_KEYS_H

#include "files/json_reader.h"
#include "model/hf_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the table reads a key: by a row, or as one of its keys of rotary embeddings and windows. */
bool tri_huggingface_reads(const tri_hf_keys *hf_keys, const char *key);

/* Returns whether a key has no effect on a model's function, or does not distinguish architectures. */
bool tri_huggingface_is_bookkeeping(const char *key);

/* Returns whether a value switches its key off: false or null. */
bool tri_huggingface_is_off(const json_t *value);

/* Logs keys of the file that a user may expect to have an effect:
 * - keys that other tables of all[count] read and this one does not. transformers ignores them for this model_type
 *   (tests/oracle/config_keys.json). Every key that it does not ignore is a row of the table, and has been read or
 *   refused;
 * - pairs of keys with the same meaning and different values, with the one that is used;
 * - if `training`, dropout that is not supported, and keys of dropout with different rates. */
void tri_huggingface_note_keys(const tri_json_reader *from, const tri_hf_keys *hf_keys, const tri_hf_keys *const *all,
                               int64_t count, bool training);

#endif
