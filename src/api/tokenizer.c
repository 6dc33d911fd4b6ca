/* The public functions of tokenizers. */
#include "tokenizer/tokenizer.h"

#include "api/api.h"
#include "base/memory.h"

#include "trireme/tokenizer.h"

#include <string.h>

/* A tokenizer with an encoder. Only one thread at a time may use the encoder. */
struct trireme_tokenizer {
  tri_tokenizer *tokenizer;
  tri_encoder *encoder;
};

trireme_status trireme_tokenizer_create(const char *source, trireme_tokenizer **out) {
  TRI_API_PLAIN_NUMBERS;
  TRI_API_WANTS(source);
  TRI_API_WANTS(out);
  trireme_tokenizer *made = NULL;
  TRI_API_TRY(tri_alloc("a tokenizer", 1, sizeof *made, &made));
  tri_status status = tri_tokenizer_create(source, &made->tokenizer);
  if (status == TRI_OK) status = tri_encoder_create(made->tokenizer, &made->encoder);
  if (status == TRI_OK) {
    *out = made;
  } else {
    trireme_tokenizer_destroy(made);
  }
  return tri_api_status(status);
}

void trireme_tokenizer_destroy(trireme_tokenizer *tokenizer) {
  if (tokenizer == NULL) return;
  tri_encoder_destroy(tokenizer->encoder);
  tri_tokenizer_destroy(tokenizer->tokenizer);
  tri_free(tokenizer);
}

int64_t trireme_tokenizer_vocab_size(const trireme_tokenizer *tokenizer) {
  return tokenizer == NULL ? 0 : tri_tokenizer_vocab_size(tokenizer->tokenizer);
}

int32_t trireme_tokenizer_end_of_text(const trireme_tokenizer *tokenizer) {
  return tokenizer == NULL ? -1 : tri_tokenizer_end_of_text(tokenizer->tokenizer);
}

trireme_status trireme_tokenizer_encode(trireme_tokenizer *tokenizer, const char *text, size_t bytes, int specials,
                                        int32_t **ids, int64_t *count) {
  TRI_API_WANTS(tokenizer);
  TRI_API_WANTS(text);
  TRI_API_WANTS(ids);
  TRI_API_WANTS(count);
  tri_token_list list = {0};
  tri_status status = tri_encoder_encode(tokenizer->encoder, text, bytes, specials, &list);
  if (status == TRI_OK && list.ids == NULL) status = tri_alloc("ids", 0, sizeof *list.ids, &list.ids);
  if (status != TRI_OK) {
    tri_free(list.ids);
    return tri_api_status(status);
  }
  *ids = list.ids;
  *count = list.count;
  return TRIREME_OK;
}

/* A text that grows. */
typedef struct text {
  char *bytes;
  size_t length, room;
} text;

static tri_status text_add(text *to, const char *piece, size_t bytes) {
  TRI_TRY(tri_reserve("a text", 1, to->length + bytes + 1, &to->room, &to->bytes));
  if (bytes > 0) memcpy(to->bytes + to->length, piece, bytes);
  to->length += bytes;
  to->bytes[to->length] = '\0';
  return TRI_OK;
}

static tri_status decode(const tri_tokenizer *tokenizer, tri_decoder *decoder, const int32_t *ids, int64_t count,
                         text *to) {
  const char *piece = NULL;
  size_t bytes = 0;
  int64_t size = tri_tokenizer_vocab_size(tokenizer);
  for (int64_t i = 0; i < count; i++) {
    if (ids[i] < 0 || ids[i] >= size) {
      return tri_fail(TRI_BAD_USAGE, "id %d at %lld is outside the vocabulary of %lld tokens", ids[i], (long long)i,
                      (long long)size);
    }
    TRI_TRY(tri_decoder_next(decoder, ids[i], &piece, &bytes));
    TRI_TRY(text_add(to, piece, bytes));
  }
  tri_decoder_end(decoder, &piece, &bytes);
  return text_add(to, piece, bytes);
}

trireme_status trireme_tokenizer_decode(trireme_tokenizer *tokenizer, const int32_t *ids, int64_t count, char **out,
                                        size_t *bytes) {
  TRI_API_WANTS(tokenizer);
  TRI_API_WANTS(ids);
  TRI_API_WANTS(out);
  TRI_API_WANTS(bytes);
  text made = {.room = 64};
  tri_decoder *decoder = NULL;
  tri_status status = tri_alloc("a text", made.room, 1, &made.bytes);
  if (status == TRI_OK) status = tri_decoder_create(tokenizer->tokenizer, true, &decoder);
  if (status == TRI_OK) status = decode(tokenizer->tokenizer, decoder, ids, count, &made);
  tri_decoder_destroy(decoder);
  if (status != TRI_OK) {
    tri_free(made.bytes);
    return tri_api_status(status);
  }
  *out = made.bytes;
  *bytes = made.length;
  return TRIREME_OK;
}

trireme_status trireme_tokenizer_save(const trireme_tokenizer *tokenizer, const char *path) {
  TRI_API_PLAIN_NUMBERS;
  TRI_API_WANTS(tokenizer);
  TRI_API_WANTS(path);
  return tri_api_status(tri_tokenizer_save(tokenizer->tokenizer, path));
}
