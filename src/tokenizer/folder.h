/* What lies beside a tokenizer.json and says more of its tokens: the one reader of these files for all commands.
 *
 *   generation_config.json     eos_token_id: a token's number, a list of them, or a token's name
 *   config.json                the same
 *   special_tokens_map.json    named tokens of older folders: those whose tokenizer_config.json has no
 * added_tokens_decoder tokenizer_config.json      eos_token and other named tokens, additional_special_tokens,
 * added_tokens_decoder added_tokens.json          {"token": id}, of older folders
 *
 * transformers reads all of them (from_pretrained), in this order as far as the end of a text goes. */
#ifndef TRI_TOKENIZER_FOLDER_H
#define TRI_TOKENIZER_FOLDER_H

#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* What tokens a folder names, beside what they do: "bos_token" and its text. */
typedef void tri_named_token_visit(void *context, const char *key, const char *token);

/* LOCAL. Visits the named tokens of a folder, "bos_token" and so on, each key once: special_tokens_map.json's, where it
 * is read, then those that only tokenizer_config.json has, then those that transformers' class names itself. A file
 * that is not a JSON object is TRI_BAD_FILE. */
tri_status tri_folder_named_tokens(const char *folder, tri_named_token_visit *visit, void *context);

/* LOCAL. Adds the tokens that only the other files of the folder have to the "added_tokens" of a tokenizer.json
 * (`file`, for messages). Those with a number keep it, the others get the next ones, as transformers has it.
 * TRI_BAD_FILE where two files contradict each other; but how a token is found (lstrip, rstrip, single_word,
 * normalized) is as added_tokens_decoder says it, and a space before texts as GPT2Tokenizer has it, as in transformers.
 * *changed: whether there was anything. */
tri_status tri_folder_add_tokens(const char *folder, const char *file, json_t *root, bool *changed);

/* LOCAL. The class with which transformers cuts texts otherwise than a tokenizer.json has it (tokenizer_class.h), or
 * NULL. */
tri_status tri_folder_other_class(const char *folder, const json_t *root, const char **out);

/* LOCAL. The text of a tokenizer_config.json: that of a folder (NULL, or without one: transformers' class for a
 * tokenizer.json), with `end` as its eos_token if it names none, and with a chat template if that is not NULL. Release
 * *out with tri_free. */
tri_status tri_folder_config_text(const char *folder, const tri_tokenizer *tokenizer, int32_t end,
                                  const json_t *chat_template, char **out);

#endif
