/* What lies beside a model's weights in a Hugging Face folder and travels with it: the tokenizer's other files, its
 * chat template, how text is generated, and the ids of its special tokens in config.json. */
#ifndef TRI_CHECKPOINT_EXTRA_FILES_H
#define TRI_CHECKPOINT_EXTRA_FILES_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* LOCAL. Calls `visit` for each companion that a folder has, by its name in it ("tokenizer_config.json",
 * "additional_chat_templates/tool_use.jinja"), tokenizer.json and config.json not among them; ends with the first
 * failure. */
typedef tri_status tri_extra_file_visit(void *context, const char *name);
tri_status tri_extra_files_walk(const char *folder, tri_extra_file_visit *visit, void *context);

/* What a saved model lacks that says what ends a text. */
typedef struct tri_extra_texts {
  char *tokenizer_config,
      *generation_config; /* texts of files, or NULL if the folder has them; released with tri_free */
  int32_t end_of_text;    /* for config.json; -1: there is none */
} tri_extra_texts;

/* LOCAL. Makes them: of the companions in `folder` (or NULL) and the tokenizer.json at `tokenizer` (or NULL: all is
 * empty). A text ends with the token that ends a turn of the chat template, with `document_end` (-1: none), which stood
 * between the documents that the model learnt from, and with what the folder says. Release with
 * tri_extra_texts_release. */
tri_status tri_extra_texts_make(const char *folder, const char *tokenizer, int32_t document_end, tri_extra_texts *out);
void tri_extra_texts_release(tri_extra_texts *texts);

/* LOCAL. Copies those of a folder that are there, and its config.json, to a new folder `to`; where that is there
 * already it stays as it is. A folder without any makes none. */
tri_status tri_extra_files_keep(const char *from, const char *to);

/* LOCAL. Takes the ids of special tokens from FOLDER/config.json, where there is one, into another config.json. */
tri_status tri_extra_files_take_ids(const char *folder, json_t *config);

#endif
