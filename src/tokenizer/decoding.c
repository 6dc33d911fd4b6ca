/* Decodes ids to text. A byte-level token is its bytes. A token of a vocabulary of characters is spelled with the mark
 * of a space, or is "<0x0A>" for a byte; its text is computed once for each token. Only the beginning of a text is
 * special: a space that encoding added there is removed.
 *
 * A character may be split over several tokens. The decoder holds the bytes of an incomplete character back, so that
 * its output can be displayed at once; bytes that can no longer become a character are returned unchanged. */
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

static const char what[] = "the texts of tokens";

/* ---- texts of tokens --------------------------------------------------------------------------------------------- */

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); }

/* Returns whether the text has the form "<0x0A>", and sets *out to the byte that it names. */
static bool is_byte(const char *text, size_t bytes, char *out) {
  if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || !is_hex(text[3]) || !is_hex(text[4])) return false;
  const char digits[3] = {text[3], text[4], '\0'};
  *out = (char)(uint8_t)strtoul(digits, NULL, 16);
  return true;
}

static tri_status add_text(tri_decoding *decoding, int32_t id, const char *text, size_t bytes) {
  char byte = 0;
  if (decoding->bytes && is_byte(text, bytes, &byte)) {
    text = &byte;
    bytes = 1;
  }
  TRI_TRY(tri_reserve(what, 1, decoding->pool_bytes + bytes, &decoding->pool_room, &decoding->pool));
  if (bytes > 0) memcpy(decoding->pool + decoding->pool_bytes, text, bytes);
  decoding->tokens[id] = (tri_token){.offset = decoding->pool_bytes, .bytes = (uint32_t)bytes};
  decoding->pool_bytes += bytes;
  return TRI_OK;
}

tri_status tri_decoding_index(tri_decoding *decoding, const tri_vocabulary *vocabulary) {
  tri_stepper stepper = {.keep_parts = false};
  tri_status status = TRI_OK;
  TRI_TRY(tri_alloc(what, (size_t)vocabulary->size, sizeof *decoding->tokens, &decoding->tokens));
  for (int32_t id = 0; id < (int32_t)vocabulary->size && status == TRI_OK; id++) {
    const tri_token *token = &vocabulary->tokens[id];
    const char *text = NULL;
    size_t bytes = 0;
    if (token->bytes == 0) continue;
    status = tri_stepper_run(&stepper, &decoding->replaced, (tri_text_place){.first = true},
                             vocabulary->pool + token->offset, token->bytes, &text, &bytes);
    if (status == TRI_OK) status = add_text(decoding, id, text, bytes);
  }
  tri_stepper_release(&stepper);
  return status;
}

void tri_decoding_release(tri_decoding *decoding) {
  tri_text_steps_release(&decoding->replaced);
  tri_text_steps_release(&decoding->first_replaced);
  tri_free(decoding->tokens);
  tri_free(decoding->pool);
}

const char *tri_tokenizer_token(const tri_tokenizer *tokenizer, int32_t id, size_t *bytes) {
  const tri_vocabulary *vocabulary = &tokenizer->vocabulary;
  *bytes = 0;
  if (id < 0 || id >= vocabulary->size) return "";
  const tri_token *token = vocabulary->characters ? &tokenizer->decoding.tokens[id] : &vocabulary->tokens[id];
  const char *pool = vocabulary->characters ? tokenizer->decoding.pool : vocabulary->pool;
  *bytes = token->bytes;
  return token->bytes > 0 ? pool + token->offset : "";
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

enum { LONGEST_CHARACTER = 4 };

struct tri_decoder {
  const tri_tokenizer *tokenizer;
  tri_stepper stepper;
  bool begun;       /* whether text comes before the next token */
  int64_t to_strip; /* characters that may still be removed from the beginning */
  char *text;       /* bytes that are held back, and then the text of the next token */
  size_t held, room;
  size_t given; /* number of bytes of `text` that the last call returned */
  bool *silent; /* whether each token has no text, by id; allocated for counting */
  int spelled;  /* number of byte tokens so far that spell the mark of a space */
};

tri_status tri_decoder_create(const tri_tokenizer *tokenizer, bool begins, tri_decoder **out) {
  tri_decoder *decoder = NULL;
  TRI_TRY(tri_alloc("a text decoder", 1, sizeof *decoder, &decoder));
  decoder->tokenizer = tokenizer;
  tri_decoder_restart(decoder, begins);
  *out = decoder;
  return TRI_OK;
}

void tri_decoder_restart(tri_decoder *decoder, bool begins) {
  decoder->begun = !begins;
  decoder->to_strip = begins ? decoder->tokenizer->decoding.stripped_most : 0;
  decoder->held = decoder->given = 0;
  decoder->spelled = 0;
}

void tri_decoder_destroy(tri_decoder *decoder) {
  if (decoder == NULL) return;
  tri_stepper_release(&decoder->stepper);
  tri_free(decoder->silent);
  tri_free(decoder->text);
  tri_free(decoder);
}

/* Finds the text of a token, and sets decoder->begun if the token is not empty. The caller removes stripped characters
 * at the beginning of the whole text (strip). */
static tri_status text_of(tri_decoder *decoder, int32_t id, const char **text, size_t *bytes) {
  const tri_decoding *decoding = &decoder->tokenizer->decoding;
  const tri_token *token = NULL;
  *text = tri_tokenizer_token(decoder->tokenizer, id, bytes);
  bool first = !decoder->begun && *bytes > 0;
  decoder->begun |= first;
  if (!first || !decoding->first_differs) return TRI_OK;
  token = &decoder->tokenizer->vocabulary.tokens[id];
  return tri_stepper_run(&decoder->stepper, &decoding->first_replaced, (tri_text_place){.first = true},
                         decoder->tokenizer->vocabulary.pool + token->offset, token->bytes, text, bytes);
}

static void strip(tri_decoder *decoder, const char **text, size_t *bytes) {
  const tri_decoding *decoding = &decoder->tokenizer->decoding;
  size_t length = decoding->stripped_bytes;
  while (decoder->to_strip > 0 && *bytes > 0) {
    bool same = *bytes >= length && memcmp(*text, decoding->stripped, length) == 0;
    decoder->to_strip = same ? decoder->to_strip - 1 : 0;
    *text += same ? length : 0;
    *bytes -= same ? length : 0;
  }
}

/* Returns the length of an incomplete character at the end of a text; 0 if the text does not end with one. */
static size_t unfinished_bytes(const char *text, size_t bytes) {
  for (size_t length = 1; length < LONGEST_CHARACTER && length <= bytes; length++) {
    uint8_t first = (uint8_t)text[bytes - length];
    uint32_t code = 0;
    if ((first & 0xC0) == 0x80) continue;
    size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || length >= wanted) return 0;
    /* Test whether the character can be completed: this depends on its second byte. */
    char whole[LONGEST_CHARACTER];
    memset(whole, length == 1 && (first == 0xE0 || first == 0xF0) ? 0xBF : 0x80, sizeof whole);
    if (length == 1 && first == 0xF0) whole[1] = (char)0x90;
    memcpy(whole, text + bytes - length, length);
    return tri_utf8_decode(whole, wanted, &code) > 0 ? length : 0;
  }
  return 0;
}

tri_status tri_decoder_next(tri_decoder *decoder, int32_t id, const char **out, size_t *out_bytes) {
  const char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(text_of(decoder, id, &text, &bytes));
  strip(decoder, &text, &bytes);
  if (decoder->held > 0) memmove(decoder->text, decoder->text + decoder->given, decoder->held);
  decoder->given = 0;
  TRI_TRY(tri_reserve("a text", 1, decoder->held + bytes + 1, &decoder->room, &decoder->text));
  if (bytes > 0) memcpy(decoder->text + decoder->held, text, bytes);
  size_t all = decoder->held + bytes;
  decoder->held = unfinished_bytes(decoder->text, all);
  decoder->given = all - decoder->held;
  *out = decoder->text;
  *out_bytes = decoder->given;
  return TRI_OK;
}

static tri_status find_silent(tri_decoder *decoder) {
  const tri_tokenizer *tokenizer = decoder->tokenizer;
  const int32_t end = tri_tokenizer_end_of_text(tokenizer);
  const int64_t size = tokenizer->vocabulary.size;
  TRI_TRY(tri_alloc("which tokens are special", (size_t)size, sizeof *decoder->silent, &decoder->silent));
  for (int64_t i = 0; i < tokenizer->added_count; i++) {
    const tri_added_token *token = &tokenizer->added[i];
    if (token->special && token->id >= 0 && token->id < size) decoder->silent[token->id] = true;
  }
  if (end >= 0 && end < size) decoder->silent[end] = true;
  return TRI_OK;
}

int32_t tri_tokenizer_unknown(const tri_tokenizer *tokenizer) { return tokenizer->unknown; }

static const char space_mark[] = "\xE2\x96\x81";

/* Returns whether the token is byte number `spelled` of the mark of a space. */
static bool spells_mark(const tri_decoder *decoder, int32_t id) {
  const tri_vocabulary *vocabulary = &decoder->tokenizer->vocabulary;
  const tri_token *token = &vocabulary->tokens[id];
  char byte = 0;
  return decoder->tokenizer->decoding.bytes && is_byte(vocabulary->pool + token->offset, token->bytes, &byte) &&
         byte == space_mark[decoder->spelled];
}

/* Sets *bytes to the length of the text to which the mark of a space is decoded, without stripped characters. Sets
 * decoder->begun. Called when byte tokens have spelled the mark. */
static tri_status count_mark(tri_decoder *decoder, size_t *bytes) {
  const tri_decoding *decoding = &decoder->tokenizer->decoding;
  const bool first = !decoder->begun && decoding->first_differs;
  const char *text = NULL;
  decoder->begun = true;
  TRI_TRY(tri_stepper_run(&decoder->stepper, first ? &decoding->first_replaced : &decoding->replaced,
                          (tri_text_place){.first = true}, space_mark, sizeof space_mark - 1, &text, bytes));
  strip(decoder, &text, bytes);
  return TRI_OK;
}

tri_status tri_decoder_count(tri_decoder *decoder, int32_t id, size_t *bytes) {
  const char *text = NULL;
  const size_t before = (size_t)decoder->spelled;
  *bytes = 0;
  if (decoder->silent == NULL) TRI_TRY(find_silent(decoder));
  if (id < 0 || id >= decoder->tokenizer->vocabulary.size || decoder->silent[id]) return TRI_OK;
  if (spells_mark(decoder, id)) {
    if (++decoder->spelled < (int)sizeof space_mark - 1) return TRI_OK;
    decoder->spelled = 0;
    return count_mark(decoder, bytes);
  }
  if (before > 0) decoder->begun = true, decoder->to_strip = 0;
  decoder->spelled = 0;
  if (before > 0 && spells_mark(decoder, id)) {
    decoder->spelled = 1;
  } else {
    TRI_TRY(text_of(decoder, id, &text, bytes));
    strip(decoder, &text, bytes);
  }
  *bytes += before;
  return TRI_OK;
}

void tri_decoder_end(tri_decoder *decoder, const char **out, size_t *out_bytes) {
  *out = decoder->held > 0 ? decoder->text + decoder->given : "";
  *out_bytes = decoder->held;
  decoder->held = decoder->given = 0;
}
