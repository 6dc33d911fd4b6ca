/* The message for a config.json of an unknown architecture: the most similar known one, and the differences. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_UNKNOWN_H
#define TRI_CHECKPOINT_HUGGINGFACE_UNKNOWN_H

#include "files/json_reader.h"
#include "model/hf_keys.h"

/* Fails with TRI_UNSUPPORTED for a config.json with an unknown `model_type`; all[count]: the key tables of all
 * families. */
tri_status tri_huggingface_unknown(const tri_json_reader *from, const char *model_type, const tri_hf_keys *const *all,
                                   int64_t count);

#endif
