/* Converts text to token ids and back, like Hugging Face `tokenizers`. */
#ifndef TRIREME_TOKENIZER_H
#define TRIREME_TOKENIZER_H

#include "trireme/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trireme_tokenizer trireme_tokenizer;

/* Creates a tokenizer. `source` is the path of a tokenizer.json, "gpt2:DIR" (encoder.json and vocab.bpe in DIR) or
 * "bytes". */
TRIREME_API trireme_status trireme_tokenizer_create(const char *source, trireme_tokenizer **out);
TRIREME_API void trireme_tokenizer_destroy(trireme_tokenizer *tokenizer);

/* Returns the size of the vocabulary; ids are 0 .. vocab_size - 1. */
TRIREME_API int64_t trireme_tokenizer_vocab_size(const trireme_tokenizer *tokenizer);
/* Returns the id that separates documents; -1: none. */
TRIREME_API int32_t trireme_tokenizer_end_of_text(const trireme_tokenizer *tokenizer);

/* Converts a text of any bytes to ids. If `specials` is not 0, special tokens that are written in the text become their
 * ids. Release *ids with trireme_free. */
TRIREME_API trireme_status trireme_tokenizer_encode(trireme_tokenizer *tokenizer, const char *text, size_t bytes,
                                                    int specials, int32_t **ids, int64_t *count);

/* Converts ids to a text, which ends with a NUL that *bytes does not count. Release *text with trireme_free. */
TRIREME_API trireme_status trireme_tokenizer_decode(trireme_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                                    char **text, size_t *bytes);

/* Writes the tokenizer as a tokenizer.json. */
TRIREME_API trireme_status trireme_tokenizer_save(const trireme_tokenizer *tokenizer, const char *path);

#ifdef __cplusplus
}
#endif

#endif
