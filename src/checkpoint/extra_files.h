/* Extra files of a Hugging Face folder that are copied with a model's weights: the tokenizer's other files, the chat
 * template, the generation config, and the ids of special tokens in config.json. */
#ifndef TRI_CHECKPOINT_EXTRA_FILES_H
#define TRI_CHECKPOINT_EXTRA_FILES_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* LOCAL. Calls `visit` for each extra file of a folder, with its name in the folder ("tokenizer_config.json",
 * "additional_chat_templates/tool_use.jinja"); tokenizer.json and config.json are not extra files. If `visit` fails,
 * returns its failure without visiting the other files. */
typedef tri_status tri_extra_file_visit(void *context, const char *name);
tri_status tri_extra_files_walk(const char *folder, tri_extra_file_visit *visit, void *context);

/* Files with the tokens that end a text, for a saved model whose extra files do not include them. */
typedef struct tri_extra_texts {
  char *tokenizer_config, *generation_config; /* texts of these files; NULL: not needed or unknown */
  int32_t end_of_text;                        /* id for config.json; -1: none */
} tri_extra_texts;

/* LOCAL. Makes the texts from the extra files in `folder` (may be NULL) and the tokenizer.json at `tokenizer` (NULL or
 * "": no text is made). Fails if the tokenizer cannot be read. These tokens end a text: the one that ends a turn of the
 * chat template; `document_end` (-1: none), which separated the documents of the training corpus; and those that the
 * folder names. Release with tri_extra_texts_release. */
tri_status tri_extra_texts_make(const char *folder, const char *tokenizer, int32_t document_end, tri_extra_texts *out);
void tri_extra_texts_release(tri_extra_texts *texts);

/* LOCAL. Copies the extra files and the config.json of a folder to a new folder `to`. `template`: source of a chat
 * template that replaces those in the folder's files; NULL: the folder's templates are copied. Does nothing if `to`
 * exists, or if the folder has none of these files. */
tri_status tri_extra_files_keep(const char *from, const char *to, const char *template);

/* LOCAL. Copies the ids of special tokens from FOLDER/config.json, if there is one, to another config.json. */
tri_status tri_extra_files_copy_ids(const char *folder, json_t *config);

#endif
