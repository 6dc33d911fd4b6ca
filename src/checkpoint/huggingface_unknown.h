/* Of a config.json of an architecture that is not known: what it is nearest to, and what stands in the way. */
#ifndef TRI_CHECKPOINT_HUGGINGFACE_UNKNOWN_H
#define TRI_CHECKPOINT_HUGGINGFACE_UNKNOWN_H

#include "base/json_reader.h"
#include "model/hf_keys.h"

/* The failure; `dialects` [count] are all that there are. */
tri_status tri_huggingface_unknown(const tri_json_reader *from, const char *model_type,
                                   const tri_hf_keys *const *dialects, int64_t count);

#endif
