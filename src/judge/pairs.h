/* A context and its continuation as tokens. They are encoded together and split where the context's own tokens end, as
 * in lm-evaluation-harness, so that words at the boundary have the same tokens as in running text. */
#ifndef TRI_JUDGE_PAIRS_H
#define TRI_JUDGE_PAIRS_H

#include "judge/lines.h"
#include "tokenizer/tokenizer.h"

typedef struct tri_pair_encoder tri_pair_encoder;

/* LOCAL. Creates an encoder whose texts begin with the tokens of the tokenizer's post_processor. The tokenizer outlives
 * the encoder; release with tri_pair_encoder_destroy. */
tri_status tri_pair_encoder_create(const tri_tokenizer *tokenizer, tri_pair_encoder **out);
void tri_pair_encoder_destroy(tri_pair_encoder *encoder);

/* Declares that all further contexts are rendered by a chat template, which prints any tokens at the beginning of a
 * text itself and ends where the answer begins. */
void tri_pair_encoder_expect_rendered(tri_pair_encoder *encoder);
/* Returns the text between a context and a choice: a space, or "" after a rendered context. */
const char *tri_pair_delimiter(const tri_pair_encoder *encoder);

/* Appends the tokens of context and continuation to *out; those of the continuation are the last *count. Spaces at the
 * end of the context belong to the continuation. A context without any token is replaced by the token that texts begin
 * with, or that separates texts. */
tri_status tri_pair_encode(tri_pair_encoder *encoder, const tri_judge_text *context, const tri_judge_text *continuation,
                           tri_token_list *out, int64_t *count);

/* Returns the number of code points of UTF-8. */
int64_t tri_judge_characters(const tri_judge_text *text);

#endif
