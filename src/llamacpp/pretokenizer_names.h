/* The reverse of pretokenizers.h: from llama.cpp's name of a pre-tokenizer to the "pre_tokenizer" of a tokenizer.json.
 */
#ifndef TRI_LLAMACPP_PRETOKENIZER_NAMES_H
#define TRI_LLAMACPP_PRETOKENIZER_NAMES_H

#include "llamacpp/pretokenizers.h"

#include <jansson.h>
#include <stdbool.h>

/* Finds a pre-tokenizer by any of its names in llama.cpp. *adds_bos: whether llama.cpp puts bos before texts unless a
 * file has the key tokenizer.ggml.add_bos_token. Returns NULL for an unknown name. */
const tri_llamacpp_pretokenizer *tri_llamacpp_pretokenizer_named(const char *name, bool *adds_bos);

/* Makes the "pre_tokenizer" from the normal form. Models on the hub have the same steps, so
 * tri_llamacpp_find_pretokenizer finds it again. Returns NULL if memory is exhausted. */
json_t *tri_llamacpp_pretokenizer_json(const tri_llamacpp_pretokenizer *one);

#endif
