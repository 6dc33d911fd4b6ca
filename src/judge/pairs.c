#include "judge/pairs.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

struct tri_pair_encoder {
  const tri_tokenizer *tokenizer;
  tri_encoder *encoder;
  const int32_t *beginning; /* tokens that the tokenizer puts at the beginning of every text */
  int num_beginning;
  bool rendered;          /* whether contexts are rendered by a chat template */
  tri_token_list context; /* scratch memory for the tokens of a context alone */
};

tri_status tri_pair_encoder_create(const tri_tokenizer *tokenizer, tri_pair_encoder **out) {
  tri_pair_encoder *encoder = NULL;
  TRI_TRY(tri_alloc("an encoder of questions", 1, sizeof *encoder, &encoder));
  encoder->tokenizer = tokenizer;
  encoder->beginning = tri_tokenizer_beginning(tokenizer, &encoder->num_beginning);
  const tri_status status = tri_encoder_create(tokenizer, &encoder->encoder);
  if (status == TRI_OK) *out = encoder;
  if (status != TRI_OK) tri_pair_encoder_destroy(encoder);
  return status;
}

void tri_pair_encoder_destroy(tri_pair_encoder *encoder) {
  if (encoder == NULL) return;
  tri_free(encoder->context.ids);
  tri_encoder_destroy(encoder->encoder);
  tri_free(encoder);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

void tri_pair_encoder_expect_rendered(tri_pair_encoder *encoder) {
  encoder->rendered = true;
  encoder->num_beginning = 0;
}

const char *tri_pair_delimiter(const tri_pair_encoder *encoder) { return encoder->rendered ? "" : " "; }

static tri_status encode(tri_pair_encoder *encoder, const char *text, size_t bytes, tri_token_list *out) {
  return encoder->rendered ? tri_encoder_encode(encoder->encoder, text, bytes, 1, out)
                           : tri_encoder_encode_text(encoder->encoder, text, bytes, 1, out);
}

/* Returns whether Python's rstrip removes a character. */
static bool is_space(uint32_t code) {
  if ((code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0) return true;
  return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

/* Returns the number of bytes of the text without the spaces at its end. */
static size_t without_spaces(const tri_judge_text *text) {
  size_t end = 0;
  for (size_t at = 0, length; at < text->bytes; at += length) {
    uint32_t code = 0;
    length = tri_utf8_decode(text->text + at, text->bytes - at, &code);
    if (length == 0) length = 1;
    if (!is_space(code)) end = at + length;
  }
  return end;
}

int64_t tri_judge_characters(const tri_judge_text *text) {
  int64_t count = 0;
  for (size_t i = 0; i < text->bytes; i++) count += ((unsigned char)text->text[i] & 0xC0) != 0x80;
  return count;
}

/* Finds the token that replaces an empty context: the last token that texts begin with, or else the token that
 * separates texts. Fails with TRI_BAD_FILE if the tokenizer has neither. */
static tri_status find_start(const tri_pair_encoder *encoder, int32_t *out) {
  *out = encoder->num_beginning > 0 ? encoder->beginning[encoder->num_beginning - 1]
                                    : tri_tokenizer_end_of_text(encoder->tokenizer);
  if (*out >= 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "the context is empty, and the tokenizer has no token that texts begin with: give a text");
}

/* Encodes a continuation without a context, after the tokens that texts begin with. If the tokenizer has no such
 * tokens, the continuation follows the token of find_start. If the continuation itself begins with that token, it is
 * not repeated. Sets *count as tri_pair_encode does. */
static tri_status encode_alone(tri_pair_encoder *encoder, const tri_judge_text *text, tri_token_list *out,
                               int64_t *count) {
  int32_t start = -1;
  const int64_t first = out->count, before = encoder->num_beginning > 0 ? encoder->num_beginning : 1;
  TRI_TRY(find_start(encoder, &start));
  if (encoder->num_beginning == 0) TRI_TRY(tri_token_list_append(out, start));
  TRI_TRY(encode(encoder, text->text, text->bytes, out));
  if (encoder->num_beginning == 0 && out->count > first + 1 && out->ids[first + 1] == start) {
    out->count--;
    memmove(out->ids + first, out->ids + first + 1, (size_t)(out->count - first) * sizeof *out->ids);
  }
  *count = out->count - first - before;
  return TRI_OK;
}

tri_status tri_pair_encode(tri_pair_encoder *encoder, const tri_judge_text *context, const tri_judge_text *continuation,
                           tri_token_list *out, int64_t *count) {
  const size_t stem = without_spaces(context), bytes = context->bytes + continuation->bytes;
  const int64_t first = out->count;
  tri_judge_text whole = {.bytes = bytes};
  TRI_TRY(tri_alloc("a question", bytes + 1, 1, &whole.text));
  memcpy(whole.text, context->text, context->bytes);
  memcpy(whole.text + context->bytes, continuation->text, continuation->bytes);
  encoder->context.count = 0;
  tri_status status = TRI_OK;
  if (stem == 0) {
    status = encode_alone(encoder, &whole, out, count);
  } else {
    status = encode(encoder, whole.text, stem, &encoder->context);
    if (status == TRI_OK) status = encode(encoder, whole.text, whole.bytes, out);
    *count = out->count - first - encoder->context.count;
  }
  tri_judge_text_release(&whole);
  return status;
}
