/* The changes that a tokenizer.json makes to a text before BPE, as far as llama.cpp makes them, too. */
#ifndef TRI_LLAMACPP_SPACES_H
#define TRI_LLAMACPP_SPACES_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* The mark of a space, U+2581, in vocabularies of characters. */
#define TRI_LLAMACPP_MARK "\xe2\x96\x81"

/* How a vocabulary of characters treats spaces. */
typedef struct tri_llamacpp_spaces {
  bool prefix; /* whether a space is put before texts (tokenizer.ggml.add_space_prefix) */
  bool splits; /* whether texts are cut before each mark, so that tokens have no mark after their first character */
} tri_llamacpp_spaces;

/* LOCAL. Reads the normalizer and the pre_tokenizer of a vocabulary of characters; `file` is the name of its
 * tokenizer.json for messages. Logs a line if llama.cpp treats some texts differently. Fails with TRI_UNSUPPORTED for
 * steps that llama.cpp lacks. */
tri_status tri_llamacpp_read_spaces(const char *file, const json_t *root, tri_llamacpp_spaces *out);

/* LOCAL. Checks that a byte-level tokenizer.json has no normalizer, or only NFC, for which a line is logged. Fails with
 * TRI_UNSUPPORTED for another one. */
tri_status tri_llamacpp_check_normalizer(const char *file, const json_t *root);

#endif
