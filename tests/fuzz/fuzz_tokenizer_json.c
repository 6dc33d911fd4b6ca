/* A tokenizer.json of any content: it is refused with a message, or it encodes any text and decodes any ids. */
#include "base/memory.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decodes the ids, with every sixteenth replaced by its index, which may be no id of the vocabulary. */
static void decode(const tri_tokenizer *tokenizer, const tri_token_list *list) {
  tri_decoder *decoder = NULL;
  const char *text = NULL;
  size_t bytes = 0;
  if (tri_decoder_create(tokenizer, true, &decoder) != TRI_OK) abort();
  for (int64_t i = 0; i < list->count; i++) {
    if (tri_decoder_next(decoder, i % 16 == 15 ? (int32_t)i : list->ids[i], &text, &bytes) != TRI_OK) abort();
    if (text == NULL) abort();
  }
  tri_decoder_end(decoder, &text, &bytes);
  if (bytes > 3) abort();
  tri_decoder_destroy(decoder);
}

/* As encode_with_ends, which may refuse; where tokens end rises up to the end of the text. */
static void find_ends(tri_encoder *encoder, const char *text, size_t bytes) {
  tri_token_list list = {0};
  tri_token_ends ends = {0};
  size_t before = 0;
  if (tri_encoder_encode_with_ends(encoder, text, bytes, &list, &ends) == TRI_OK) {
    if (ends.count != list.count) abort();
    for (int64_t i = 0; i < ends.count; i++) {
      if (ends.ends[i] < before || ends.ends[i] > bytes) abort();
      before = ends.ends[i];
    }
  }
  tri_free(list.ids);
  tri_free(ends.ends);
}

/* Guarded as a whole, a text gets no special token, except for letters that have no other token; without a range it has
 * its usual ids. */
static void guard(const tri_tokenizer *tokenizer, tri_encoder *encoder, const char *text, size_t bytes) {
  const tri_text_range ranges[] = {{0, bytes / 3}, {bytes / 3, bytes}};
  tri_token_list list = {0}, plain = {0};
  if (tri_encoder_encode_guarded(encoder, text, bytes, ranges, bytes > 0 ? 2 : 0, &list) == TRI_OK) {
    for (int64_t i = 0; i < list.count; i++) {
      const tri_token *token = &tokenizer->vocabulary.tokens[list.ids[i]];
      const bool letter = token->byte || token->bytes <= 4 || list.ids[i] == tokenizer->unknown;
      if (token->special && !letter) abort();
    }
  }
  list.count = 0;
  if (tri_encoder_encode_guarded(encoder, text, bytes, ranges, 0, &list) == TRI_OK) {
    if (tri_encoder_encode(encoder, text, bytes, 1, &plain) != TRI_OK || plain.count != list.count) abort();
    if (list.count > 0 && memcmp(plain.ids, list.ids, (size_t)list.count * sizeof *list.ids) != 0) abort();
  }
  tri_free(list.ids);
  tri_free(plain.ids);
}

/* Encodes some text, the input itself among it, and looks at every id. */
static void use(const tri_tokenizer *tokenizer, const char *text, size_t bytes) {
  static const char words[] =
      " Hello,  w\xc3\xb6rld's 1234\r\n\n e\xcc\x81 \xff\xfe<|endoftext|>\xe4\xb8\xad\xe6\x96\x87 "
      "aaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  tri_encoder *encoder = NULL;
  tri_token_list list = {0};
  if (tri_encoder_create(tokenizer, &encoder) != TRI_OK) abort();
  for (int specials = 0; specials < 2; specials++) {
    if (tri_encoder_encode(encoder, words, sizeof words - 1, specials, &list) != TRI_OK) break;
    if (tri_encoder_encode_rest(encoder, words, 40, specials, &list) != TRI_OK) break;
    if (tri_encoder_encode(encoder, text, bytes < 4096 ? bytes : 4096, specials, &list) != TRI_OK) break;
  }
  for (int64_t i = 0; i < list.count; i++) {
    size_t length = 0;
    if (list.ids[i] < 0 || list.ids[i] >= tri_tokenizer_vocab_size(tokenizer)) abort();
    if (tri_tokenizer_token(tokenizer, list.ids[i], &length) == NULL) abort();
    if (length == 0 && !tokenizer->vocabulary.characters) abort(); /* a decoder may make nothing of a token */
  }
  decode(tokenizer, &list);
  find_ends(encoder, words, sizeof words - 1);
  find_ends(encoder, text, bytes < 4096 ? bytes : 4096);
  guard(tokenizer, encoder, words, sizeof words - 1);
  guard(tokenizer, encoder, text, bytes < 4096 ? bytes : 4096);
  tri_free(list.ids);
  tri_encoder_destroy(encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* A copy of the exact size, so that a read behind the end is seen. */
  char *text = malloc(size > 0 ? size : 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  tri_tokenizer *tokenizer = NULL;
  tri_status status = tri_tokenizer_parse_json("fuzz.json", text, size, &tokenizer);
  if (status == TRI_OK) {
    use(tokenizer, text, size);
  } else if (tokenizer != NULL || strstr(tri_status_message(), "fuzz.json") == NULL) {
    abort();
  }
  tri_tokenizer_destroy(tokenizer);
  free(text);
  return 0;
}
