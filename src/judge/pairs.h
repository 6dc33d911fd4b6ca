/* A context and what follows it, as tokens: encoded together and cut where the context's own tokens end, as
 * lm-evaluation-harness does it, so that words at the seam get the tokens that they have in running text. */
#ifndef TRI_JUDGE_PAIRS_H
#define TRI_JUDGE_PAIRS_H

#include "judge/lines.h"
#include "tokenizer/tokenizer.h"

typedef struct tri_pair_encoder tri_pair_encoder;

/* LOCAL. Texts begin with what the tokenizer's post_processor says. The tokenizer outlives the encoder; release with
 * tri_pair_encoder_destroy. */
tri_status tri_pair_encoder_create(const tri_tokenizer *tokenizer, tri_pair_encoder **out);
void tri_pair_encoder_destroy(tri_pair_encoder *encoder);

/* Contexts from now on are rendered by a chat template, which prints the tokens that a text begins with where the model
 * is to see them, and ends where the answer begins. */
void tri_pair_encoder_take_rendered(tri_pair_encoder *encoder);
/* What stands between a context and a choice: a space, or nothing behind a rendered context. */
const char *tri_pair_delimiter(const tri_pair_encoder *encoder);

/* Appends the tokens of context and continuation to *out; those of the continuation are the last *count. Spaces that
 * the context ends in count as the continuation's. A context without any token is the token that texts begin with, or
 * that stands between texts. */
tri_status tri_pair_encode(tri_pair_encoder *encoder, const tri_judge_text *context, const tri_judge_text *continuation,
                           tri_token_list *out, int64_t *count);

/* Code points of UTF-8. */
int64_t tri_judge_characters(const tri_judge_text *text);

#endif
