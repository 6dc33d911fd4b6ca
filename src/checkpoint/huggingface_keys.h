/* The keys of a config.json: those that its model_type reads, those that only other model types read, and those that
 * say the same thing twice. A `dialect` is the table of keys of one model_type (model/hf_keys.h). */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_KEYS_H
#define TRI_CHECKPOINT_HUGGINGFACE_KEYS_H

#include "base/json_reader.h"
#include "model/hf_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the dialect reads a key, by a row or by a function. */
bool tri_huggingface_reads(const tri_hf_keys *dialect, const char *key);

/* Whether a key has no effect on what a model computes, or values by which architectures cannot be told apart. */
bool tri_huggingface_is_bookkeeping(const char *key);

/* Whether a value turns off what its key is for: false or null. */
bool tri_huggingface_is_off(const json_t *value);

/* Logs one line each for: keys of the file that other dialects of all[count] read and this one does not, which
 * transformers ignores for this model_type (tests/oracle/config_keys.json; a key that it does not ignore is a row of
 * the dialect, and has been read or refused); pairs of keys for one thing that differ, and which of them is used; and,
 * if `training`, the dropout of attention weights, which is not supported. */
void tri_huggingface_note_keys(const tri_json_reader *from, const tri_hf_keys *dialect, const tri_hf_keys *const *all,
                               int64_t count, bool training);

#endif
