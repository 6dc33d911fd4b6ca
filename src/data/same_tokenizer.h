/* Whether --tokenizer names the tokenizer that the model was trained with. */
#ifndef TRI_DATA_SAME_TOKENIZER_H
#define TRI_DATA_SAME_TOKENIZER_H

#include "tokenizer/tokenizer.h"

/* Compares a tokenizer that was given by name with FOLDER/tokenizer.json, the checkpoint's own: another one is
 * TRI_BAD_FILE, and the message names both. Without a name, or where the checkpoint has none, there is nothing to
 * compare; where its own cannot be read, that is logged. */
tri_status tri_same_tokenizer(const char *folder, const char *given, const tri_tokenizer *tokenizer);

/* TRI_BAD_CONFIG for a tokenizer with more tokens than the model's vocabulary. */
tri_status tri_tokenizer_fits_model(const tri_tokenizer *tokenizer, int64_t vocab_size);

#endif
