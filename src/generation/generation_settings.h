/* Sampling settings of a folder's generation_config.json. The end-of-text tokens in that file are read by
 * tri_tokenizer_find_ends. */
#ifndef TRI_GENERATION_GENERATION_SETTINGS_H
#define TRI_GENERATION_GENERATION_SETTINGS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A negative number means that the file does not have the value. */
typedef struct tri_generation_settings {
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k;
  int64_t max_new_tokens; /* largest number of tokens to sample */
  int64_t max_length;     /* largest number of tokens of prompt and text together; unused if max_new_tokens is given */
  bool draws;       /* do_sample: whether temperature, top_p, min_p and top_k apply; the other numbers always apply */
  bool usual_top_k; /* whether top_k is transformers' default, because `draws` is set and the file has no top_k */
} tri_generation_settings;

/* Reads the file. All numbers are negative if the folder does not have the file. Fails with TRI_BAD_FILE if the file is
 * not a JSON object, or if a number is outside its range. Warns of settings that this program does not obey. */
tri_status tri_generation_settings_read(const char *folder, tri_generation_settings *out);

#endif
