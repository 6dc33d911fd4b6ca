/* The tokens of a tokenizer with a key of their own in a GGUF file. */
#ifndef TRI_LLAMACPP_SPECIAL_TOKENS_H
#define TRI_LLAMACPP_SPECIAL_TOKENS_H

#include "base/status.h"
#include "gguf/writer.h"
#include "llamacpp/token_list.h"
#include "tokenizer/tokenizer.h"

/* LOCAL. Adds tokenizer.ggml.bos_token_id and the like, add_bos_token and add_eos_token. `folder` (may be NULL) names
 * tokens (tokenizer/folder.h); the tokenizer has the tokens that end texts. Sets the type of an unknown token of
 * characters. Logs a line for each token that ends texts, but not in llama.cpp. Fails with TRI_UNSUPPORTED if texts
 * begin with more than one token. */
tri_status tri_llamacpp_add_special_tokens(tri_gguf_header *header, const tri_tokenizer *tokenizer, const char *folder,
                                           tri_llamacpp_tokens *tokens);

#endif
