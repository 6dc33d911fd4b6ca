/* Classes of tokenizers that transformers (5) makes by themselves: of a tokenizer.json they take vocabulary and merges,
 * and how a text is cut and what a space is they know. Which class it is say tokenizer_config.json and config.json. */
#ifndef TRI_TOKENIZER_TOKENIZER_CLASS_H
#define TRI_TOKENIZER_TOKENIZER_CLASS_H

#include <jansson.h>
#include <stdbool.h>

/* "LlamaTokenizer", or NULL: transformers takes tokenizer.json (`root`) as it stands. `config` is
 * tokenizer_config.json, `model` config.json; any may be NULL. */
const char *tri_tokenizer_class_of(const json_t *config, const json_t *model, const json_t *root);

/* Whether that class makes another normalizer or pre-tokenizer than the file has. */
bool tri_tokenizer_class_differs(const char *class, const json_t *config, const json_t *root);

/* The tokens that a class names where no file does: the first, the second, ...; NULL behind the last, and for NULL.
 * *key: "bos_token" and so on. */
const char *tri_tokenizer_class_token(const char *class, int number, const char **key);

#endif
