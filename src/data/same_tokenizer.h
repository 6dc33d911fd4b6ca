/* Compares --tokenizer with the tokenizer of the model's training. */
#ifndef TRI_DATA_SAME_TOKENIZER_H
#define TRI_DATA_SAME_TOKENIZER_H

#include "tokenizer/tokenizer.h"

/* Compares the tokenizer that --tokenizer names with the checkpoint's own, FOLDER/tokenizer.json. Fails with
 * TRI_BAD_FILE if they differ; the message names both. Does nothing without a name, or if the checkpoint has no
 * tokenizer; logs a line if the checkpoint's tokenizer cannot be read. */
tri_status tri_same_tokenizer(const char *folder, const char *given, const tri_tokenizer *tokenizer);

/* Fails with TRI_BAD_CONFIG if the tokenizer has more tokens than the model's vocabulary. */
tri_status tri_tokenizer_fits_model(const tri_tokenizer *tokenizer, int64_t vocab_size);

#endif
