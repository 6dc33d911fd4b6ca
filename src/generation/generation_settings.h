/* What a folder's generation_config.json says of how its model is drawn from. What ends a text the tokenizer knows
 * (tri_tokenizer_ends). */
#ifndef TRI_GENERATION_GENERATION_SETTINGS_H
#define TRI_GENERATION_GENERATION_SETTINGS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers are negative where it says nothing. */
typedef struct tri_generation_settings {
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k;
  int64_t max_new_tokens;
  bool draws;       /* do_sample: the numbers above are meant; repetition_penalty is in any case */
  bool usual_top_k; /* `draws` without a top_k: top_k is transformers' default */
} tri_generation_settings;

/* A folder without the file says nothing. A number that cannot be one is TRI_BAD_FILE. What the file asks for and no
 * generation here does is told in a warning. */
tri_status tri_generation_settings_read(const char *folder, tri_generation_settings *out);

#endif
