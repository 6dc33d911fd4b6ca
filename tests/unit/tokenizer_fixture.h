/* Shared by the tests of the tokenizer: small tokenizer files, made by changing a base document. */
#ifndef TESTS_UNIT_TOKENIZER_FIXTURE_H
#define TESTS_UNIT_TOKENIZER_FIXTURE_H

#include "base/memory.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/utf8.h"

/* cmocka.h needs these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define assert_ok(call)                                                                                                \
  do {                                                                                                                 \
    if ((call) != TRI_OK) fail_msg("%s: %s", #call, tri_status_message());                                             \
  } while (0)

/* A tokenizer.json with GPT-2's pre-tokenizer: byte b has id b; then he ll hell hello " hello" " w" and an end of text.
 */
static inline json_t *base_document(void) {
  static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\u0120 hello", "\u0120 w"};
  static const char *const results[] = {"he", "ll", "hell", "hello", "\u0120hello", "\u0120w"};
  json_t *vocab = json_object(), *list = json_array();
  for (int byte = 0; byte < 256; byte++) {
    char letter[5] = {0};
    tri_utf8_encode(tri_byte_letter((uint8_t)byte), letter);
    json_object_set_new(vocab, letter, json_integer(byte));
  }
  for (int i = 0; i < 6; i++) {
    json_object_set_new(vocab, results[i], json_integer(256 + i));
    json_array_append_new(list, json_string(merges[i]));
  }
  json_t *root = json_pack("{s:[{s:i, s:s, s:b, s:b}], s:n, s:{s:s, s:b, s:b}, s:{s:s, s:o, s:o}}", "added_tokens",
                           "id", 262, "content", "<|endoftext|>", "special", 1, "normalized", 0, "normalizer",
                           "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1, "model", "type",
                           "BPE", "vocab", vocab, "merges", list);
  assert_non_null(root);
  return root;
}

/* Sets the member at a path ("model.vocab.a", "added_tokens.0.id") to a value in JSON; NULL removes it, an index at the
 * end of an array appends. */
static inline void patch(json_t *root, const char *path, const char *value) {
  json_t *at = root, *made = value != NULL ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
  if (value != NULL) assert_non_null(made);
  while (strchr(path, '.') != NULL) {
    char key[64] = {0};
    size_t length = strcspn(path, ".");
    memcpy(key, path, length);
    at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    assert_non_null(at);
    path += length + 1;
  }
  if (json_is_array(at)) {
    size_t index = (size_t)atoi(path);
    assert_int_equal(
        index == json_array_size(at) ? json_array_append_new(at, made) : json_array_set_new(at, index, made), 0);
  } else if (made == NULL) {
    assert_int_equal(json_object_del(at, path), 0);
  } else {
    assert_int_equal(json_object_set_new(at, path, made), 0);
  }
}

/* Parses a document, and releases it. */
static inline tri_status parse_document(json_t *root, tri_tokenizer **out) {
  char *text = json_dumps(root, 0);
  json_decref(root);
  tri_status status = tri_tokenizer_parse_json("t.json", text, strlen(text), out);
  free(text);
  return status;
}

/* Returns the ids of a text; release list.ids with tri_free. */
static inline tri_token_list encode(const tri_tokenizer *tokenizer, const char *text, size_t bytes, int specials) {
  tri_encoder *encoder = NULL;
  tri_token_list list = {0};
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  assert_ok(tri_encoder_encode(encoder, text, bytes, specials, &list));
  tri_encoder_destroy(encoder);
  return list;
}

/* Compares the ids of a text with a list that ends with -1. */
static inline void assert_ids(const tri_tokenizer *tokenizer, const char *text, int specials, const int32_t *wanted) {
  tri_token_list list = encode(tokenizer, text, strlen(text), specials);
  int64_t i = 0;
  for (; i < list.count && wanted[i] >= 0; i++) {
    if (list.ids[i] != wanted[i]) {
      fail_msg("\"%s\": id %d is %d instead of %d", text, (int)i, (int)list.ids[i], (int)wanted[i]);
    }
  }
  if (i != list.count || wanted[i] >= 0) fail_msg("\"%s\" has %d ids", text, (int)list.count);
  tri_free(list.ids);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})
/* Does the same with the tokenizer of a document, which it releases. */
static inline void assert_document_ids(json_t *root, const char *text, const int32_t *wanted) {
  tri_tokenizer *tokenizer = NULL;
  assert_ok(parse_document(root, &tokenizer));
  assert_ids(tokenizer, text, 1, wanted);
  tri_tokenizer_destroy(tokenizer);
}

static inline void assert_spells(const tri_tokenizer *tokenizer, const tri_token_list *list, const char *text,
                                 size_t bytes) {
  size_t at = 0;
  for (int64_t i = 0; i < list->count; i++) {
    size_t length = 0;
    const char *token = tri_tokenizer_token(tokenizer, list->ids[i], &length);
    assert_true(length > 0 && length <= bytes - at);
    assert_memory_equal(token, text + at, length);
    at += length;
  }
  assert_int_equal(at, bytes);
}

/* A repeatable stream of numbers. */
static inline uint32_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

#endif
