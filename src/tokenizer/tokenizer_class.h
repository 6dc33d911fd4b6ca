/* Classes of tokenizers in transformers 5 that only read vocabulary and merges from a tokenizer.json, and have their
 * own normalizer and pre-tokenizer. tokenizer_config.json and config.json determine the class. */
#ifndef TRI_TOKENIZER_TOKENIZER_CLASS_H
#define TRI_TOKENIZER_TOKENIZER_CLASS_H

#include <jansson.h>
#include <stdbool.h>

/* Returns "LlamaTokenizer", ...; NULL if transformers uses tokenizer.json (`root`) unchanged. `config` is
 * tokenizer_config.json, `model` config.json; any may be NULL. */
const char *tri_tokenizer_class_of(const json_t *config, const json_t *model, const json_t *root);

/* Returns whether the normalizer or pre-tokenizer of the class differs from the file's. */
bool tri_tokenizer_class_differs(const char *class, const json_t *config, const json_t *root);

/* Returns default token number `number` of a class, and sets *key to its key, "bos_token" and so on; NULL after the
 * last token, or if `class` is NULL. */
const char *tri_tokenizer_class_token(const char *class, int number, const char **key);

#endif
