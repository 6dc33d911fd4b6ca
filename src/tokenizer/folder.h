/* Reads the other files in the folder of a tokenizer.json that describe its tokens, for all commands.
 *
 *   generation_config.json     eos_token_id: a token's number, a list of them, or a token's name
 *   config.json                the same
 *   special_tokens_map.json    named tokens of older folders (tokenizer_config.json without added_tokens_decoder)
 *   tokenizer_config.json      eos_token and other named tokens, additional_special_tokens, added_tokens_decoder
 *   added_tokens.json          {"token": id}, in older folders
 *
 * transformers reads all of them (from_pretrained), in this order for the ends of texts. */
#ifndef TRI_TOKENIZER_FOLDER_H
#define TRI_TOKENIZER_FOLDER_H

#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* Called for each named token of a folder: "bos_token" and its text. */
typedef void tri_named_token_visit(void *context, const char *key, const char *token);

/* LOCAL. Visits the named tokens of a folder, "bos_token" and so on, each key once: from special_tokens_map.json, if it
 * is read, then from tokenizer_config.json, then the defaults of transformers' class. Fails with TRI_BAD_FILE for a
 * file that is not a JSON object. */
tri_status tri_folder_named_tokens(const char *folder, tri_named_token_visit *visit, void *context);

/* LOCAL. Adds the tokens that only the other files of the folder have to the "added_tokens" of the tokenizer.json in
 * `root` (`file` is its name for messages). Tokens with a number keep it, the others get the next numbers, as in
 * transformers. Fails with TRI_BAD_FILE if two files contradict each other, with two exceptions, as in transformers:
 * flags of a token (lstrip, rstrip, single_word, normalized) come from added_tokens_decoder, and a space before texts
 * comes from the class GPT2Tokenizer. Sets *changed to whether the document was changed. */
tri_status tri_folder_add_tokens(const char *folder, const char *file, json_t *root, bool *changed);

/* LOCAL. Finds the name of the class with which transformers tokenizes differently from tokenizer.json
 * (tokenizer_class.h); NULL if it does not. Fails with TRI_BAD_FILE if a file is not a JSON object. */
tri_status tri_folder_other_class(const char *folder, const json_t *root, const char **out);

/* LOCAL. Makes the text of a tokenizer_config.json. It is made from the folder's file; if `folder` is NULL or has no
 * such file, from one that names transformers' class for a tokenizer.json. Adds the named tokens of
 * special_tokens_map.json in an older folder, and the default bos_token of transformers' class if no file has one. Sets
 * eos_token to the token `end` (-1: none) unless the file names an eos_token, and sets chat_template unless the
 * argument is NULL. Release *out with tri_free. */
tri_status tri_folder_config_text(const char *folder, const tri_tokenizer *tokenizer, int32_t end,
                                  const json_t *chat_template, char **out);

#endif
