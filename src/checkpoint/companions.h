/* What lies beside a model's weights in a Hugging Face folder and travels with it: the tokenizer's other files, its
 * chat template, how text is generated, and the ids of its special tokens in config.json. */
#ifndef TRI_CHECKPOINT_COMPANIONS_H
#define TRI_CHECKPOINT_COMPANIONS_H

#include "base/status.h"

#include <jansson.h>

/* Names of files, tokenizer.json and config.json not among them; NULL ends them. */
extern const char *const tri_companion_names[];

/* LOCAL. Copies those of a folder that are there, and its config.json, to a new folder `to`; where that is there
 * already it stays as it is. A folder without any makes none. */
tri_status tri_companions_keep(const char *from, const char *to);

/* LOCAL. Takes the ids of special tokens from FOLDER/config.json, where there is one, into another config.json. */
tri_status tri_companions_take_ids(const char *folder, json_t *config);

#endif
