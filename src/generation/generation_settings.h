/* Sampling settings of a folder's generation_config.json. Its end-of-text tokens are read by tri_tokenizer_ends. */
#ifndef TRI_GENERATION_GENERATION_SETTINGS_H
#define TRI_GENERATION_GENERATION_SETTINGS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Negative numbers mean: not in the file. */
typedef struct tri_generation_settings {
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k;
  int64_t max_new_tokens; /* most tokens to write */
  int64_t max_length;     /* most tokens of prompt and text together; unused beside max_new_tokens */
  bool draws;       /* do_sample: temperature, top_p, min_p and top_k apply; the other numbers apply in any case */
  bool usual_top_k; /* `draws` without top_k in the file: top_k is transformers' default */
} tri_generation_settings;

/* Reads the file. All numbers are negative if the folder does not have one. A number outside of its range is
 * TRI_BAD_FILE. Settings that ask for something that this program does not do are named in a warning. */
tri_status tri_generation_settings_read(const char *folder, tri_generation_settings *out);

#endif
