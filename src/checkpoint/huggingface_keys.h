/* Which keys a config.json may have: those that its dialect reads, those of other dialects, and those that say the same
 * thing twice. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_KEYS_H
#define TRI_CHECKPOINT_HUGGINGFACE_KEYS_H

#include "base/json_reader.h"
#include "model/hf_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the dialect has rows or functions for a key. */
bool tri_huggingface_reads(const tri_hf_keys *dialect, const char *key);

/* Keys that say nothing of what a model computes, or whose values do not tell one architecture from another. */
bool tri_huggingface_is_bookkeeping(const char *key);

/* Whether a value says that what its key is for is not there. */
bool tri_huggingface_is_off(const json_t *value);

/* Says in a line each (tri_log): the keys of the file that other dialects of `all` [count] read and this one does not,
 * which transformers ignores for its model_type (tests/oracle/config_keys.json; what it does not ignore is a row of the
 * dialect and has been read or refused); pairs of keys for one thing that differ, and which of them counts; and, if
 * `training`, the dropout of attention weights, which is not done here. */
void tri_huggingface_note_keys(const tri_json_reader *from, const tri_hf_keys *dialect, const tri_hf_keys *const *all,
                               int64_t count, bool training);

#endif
