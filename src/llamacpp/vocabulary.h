/* The tokenizer's part of a GGUF file for llama.cpp: its keys "tokenizer.*". */
#ifndef TRI_LLAMACPP_VOCABULARY_H
#define TRI_LLAMACPP_VOCABULARY_H

#include "base/status.h"
#include "gguf/writer.h"

#include <stdint.h>

/* LOCAL. Adds the tokenizer's keys to a header. `path`: a tokenizer.json; `folder`: the folder of its other files
 * (tokenizer_config.json, generation_config.json, chat_template.jinja, ...), may be NULL; `rows`: rows of the model's
 * embedding, to which tokens are padded. Logs a line for texts that llama.cpp tokenizes differently. Fails with
 * TRI_UNSUPPORTED, naming the file, if llama.cpp has no place for a part of the tokenizer, or if it has more tokens
 * than `rows`; fails as tri_tokenizer_create does if it cannot be read. */
tri_status tri_llamacpp_add_vocabulary(tri_gguf_header *header, const char *path, const char *folder, int64_t rows);

#endif
