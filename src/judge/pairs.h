/* A context and its continuation as tokens. The two texts are encoded together and split where the tokens of the
 * context alone would end, as in lm-evaluation-harness, so that words at the boundary have the same tokens as in
 * running text. */
#ifndef TRI_JUDGE_PAIRS_H
#define TRI_JUDGE_PAIRS_H

#include "judge/lines.h"
#include "tokenizer/tokenizer.h"

typedef struct tri_pair_encoder tri_pair_encoder;

/* LOCAL. Creates an encoder that begins each text with the tokens of the tokenizer's post_processor. The tokenizer must
 * outlive the encoder. Release with tri_pair_encoder_destroy. */
tri_status tri_pair_encoder_create(const tri_tokenizer *tokenizer, tri_pair_encoder **out);
void tri_pair_encoder_destroy(tri_pair_encoder *encoder);

/* Declares that a chat template renders all further contexts. Such a template prints the tokens at the beginning of a
 * text itself, and its text ends where the answer begins. */
void tri_pair_encoder_expect_rendered(tri_pair_encoder *encoder);
/* Returns the text between a context and a choice: " ", or "" after a context that a chat template rendered. */
const char *tri_pair_delimiter(const tri_pair_encoder *encoder);

/* Appends the tokens of a context and its continuation to *out. Sets *count to the number of tokens of the
 * continuation, which are the last ones. Spaces at the end of the context belong to the continuation. If the context
 * has no token, the token that texts begin with replaces it, or else the token that separates texts. */
tri_status tri_pair_encode(tri_pair_encoder *encoder, const tri_judge_text *context, const tri_judge_text *continuation,
                           tri_token_list *out, int64_t *count);

/* Returns the number of code points of UTF-8. */
int64_t tri_judge_characters(const tri_judge_text *text);

#endif
