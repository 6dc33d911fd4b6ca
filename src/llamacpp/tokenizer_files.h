/* The tokenizer of a GGUF file as Hugging Face's files; vocabulary.h is the reverse. */
#ifndef TRI_LLAMACPP_TOKENIZER_FILES_H
#define TRI_LLAMACPP_TOKENIZER_FILES_H

#include "base/status.h"
#include "gguf/gguf.h"

/* LOCAL. Makes the texts of tokenizer.json and tokenizer_config.json, with the ids of llama.cpp for any text. The
 * second has the tokens that begin and end texts, those with other roles (pad_token, ...), and the chat template. Fails
 * as tri_llamacpp_read_vocabulary does, and with TRI_BAD_FILE for a damaged chat template. Release both with free. */
tri_status tri_llamacpp_tokenizer_json(const tri_gguf_file *file, char **json, char **config);

/* LOCAL. Writes both files into an existing folder. Fails as tri_llamacpp_tokenizer_json does, and then writes
 * nothing. */
tri_status tri_llamacpp_write_tokenizer(const tri_gguf_file *file, const char *folder);

#endif
