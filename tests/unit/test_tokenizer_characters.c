/* Vocabularies of characters, as made by SentencePiece: spaces become marks, a text without a token becomes bytes, and
 * text is returned character by character. */
#include "tokenizer_fixture.h"

#include <stdio.h>

#define MARK "\u2581"

enum { FIRST_BYTE = 3, FIRST_LETTER = FIRST_BYTE + 256 };

/* <unk> <s> </s>, the bytes, then mark a b c mark+a ab; spaces become marks, and a space is put before a text. */
static json_t *characters_document(void) {
  static const char *const more[] = {"\u2581", "a", "b", "c", "\u2581a", "ab"};
  json_t *vocab = json_pack("{s:i, s:i, s:i}", "<unk>", 0, "<s>", 1, "</s>", 2);
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    json_object_set_new(vocab, name, json_integer(FIRST_BYTE + byte));
  }
  for (int i = 0; i < 6; i++) json_object_set_new(vocab, more[i], json_integer(FIRST_LETTER + i));
  return json_pack(
      "{s:[{s:i, s:s, s:b, s:b}], s:{s:s, s:[{s:s, s:s}, {s:s, s:{s:s}, s:s}]}, s:n, s:{s:s, s:[{s:s, s:{s:s}, s:s}, "
      "{s:s}, {s:s}, {s:s, s:s, s:i, s:i}]}, s:{s:s, s:b, s:b, s:s, s:o, s:[s, s]}}",
      "added_tokens", "id", 2, "content", "</s>", "special", 1, "normalized", 0, "normalizer", "type", "Sequence",
      "normalizers", "type", "Prepend", "prepend", MARK, "type", "Replace", "pattern", "String", " ", "content", MARK,
      "pre_tokenizer", "decoder", "type", "Sequence", "decoders", "type", "Replace", "pattern", "String", MARK,
      "content", " ", "type", "ByteFallback", "type", "Fuse", "type", "Strip", "content", " ", "start", 1, "stop", 0,
      "model", "type", "BPE", "byte_fallback", 1, "fuse_unk", 1, "unk_token", "<unk>", "vocab", vocab, "merges",
      MARK " a", "a b");
}

#define BYTE(byte) (FIRST_BYTE + (byte))
enum { SPACE = FIRST_LETTER, A, B, C, SPACE_A, AB };

static void test_ids(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  assert_ok(parse_document(characters_document(), &tokenizer));
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), 2);
  assert_ids(tokenizer, "", 1, IDS(-1));
  assert_ids(tokenizer, "a", 1, IDS(SPACE_A));
  assert_ids(tokenizer, "ab", 1, IDS(SPACE_A, B)); /* the first merge is of lower rank */
  assert_ids(tokenizer, "bab  abc", 1, IDS(SPACE, B, AB, SPACE, SPACE_A, B, C));
  assert_ids(tokenizer, "\u00e9a", 1, IDS(SPACE, BYTE(0xC3), BYTE(0xA9), A));
  assert_ids(tokenizer, "a</s>a", 1, IDS(SPACE_A, 2, SPACE_A));
  assert_ids(tokenizer, "a</s>", 0, IDS(SPACE_A, BYTE('<'), BYTE('/'), BYTE('s'), BYTE('>')));
  assert_ids(tokenizer,
             "\xff"
             "a\xc3",
             1, IDS(SPACE, BYTE(0xFF), A, BYTE(0xC3))); /* no space is inserted after a byte that is not UTF-8 */
  tri_tokenizer_destroy(tokenizer);
}

static void test_the_rest_of_a_text(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list list = {0};
  assert_ok(parse_document(characters_document(), &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  assert_ok(tri_encoder_encode_rest(encoder, "ab</s>a", 7, 1, &list));
  assert_int_equal(list.count, 3);
  assert_int_equal(list.ids[0], AB);
  assert_int_equal(list.ids[2], SPACE_A); /* a piece after an added token begins with a space */
  tri_free(list.ids);
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

static void test_where_tokens_end(void **state) {
  (void)state;
  static const char text[] = "a </s>\u00e9b";
  static const size_t wanted[] = {1, 2, 6, 6, 7, 8, 9};
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list list = {0};
  tri_token_ends ends = {0};
  assert_ok(parse_document(characters_document(), &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  assert_ok(tri_encoder_encode_with_ends(encoder, text, sizeof text - 1, &list, &ends));
  assert_int_equal(ends.count, sizeof wanted / sizeof wanted[0]);
  assert_int_equal(list.count, ends.count);
  assert_memory_equal(ends.ends, wanted, sizeof wanted);
  tri_free(list.ids);
  tri_free(ends.ends);
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

/* Returns a document with a post_processor that adds <unk> and <s> before a text, and </s> after it. The </s> is not
 * part of a prompt. */
static json_t *beginning_document(void) {
  json_t *root = characters_document();
  json_t *token = json_pack("{s:i, s:s, s:b, s:b}", "id", 1, "content", "<s>", "special", 1, "normalized", 0);
  json_array_append_new(json_object_get(root, "added_tokens"), token);
  json_object_set_new(
      root, "post_processor",
      json_pack("{s:s, s:[{s:{s:s}}, {s:{s:s}}, {s:{s:s}}, {s:{s:s}}], s:{s:{s:[i]}, s:{s:[i]}, s:{s:[i]}}}", "type",
                "TemplateProcessing", "single", "SpecialToken", "id", "<unk>", "SpecialToken", "id", "<s>", "Sequence",
                "id", "A", "SpecialToken", "id", "</s>", "special_tokens", "<unk>", "ids", 0, "<s>", "ids", 1, "</s>",
                "ids", 2));
  return root;
}

static void assert_whole(tri_encoder *encoder, const char *text, const int32_t *wanted, const size_t *wanted_ends) {
  tri_token_list list = {0}, both = {0};
  tri_token_ends ends = {0};
  assert_ok(tri_encoder_encode(encoder, "b", 1, 1, &list)); /* the text is appended to these tokens */
  const int64_t first = list.count;
  assert_ok(tri_encoder_encode_text(encoder, text, strlen(text), 1, &list));
  assert_ok(tri_encoder_encode_text_with_ends(encoder, text, strlen(text), &both, &ends));
  int64_t count = 0;
  for (; wanted[count] >= 0; count++) assert_int_equal(list.ids[first + count], wanted[count]);
  assert_int_equal(list.count - first, count);
  assert_int_equal(both.count, count);
  assert_int_equal(ends.count, count);
  assert_memory_equal(both.ids, wanted, (size_t)count * sizeof *wanted);
  assert_memory_equal(ends.ends, wanted_ends, (size_t)count * sizeof *wanted_ends);
  tri_free(list.ids);
  tri_free(both.ids);
  tri_free(ends.ends);
}

static void test_what_a_text_begins_with(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  assert_ok(parse_document(beginning_document(), &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  assert_whole(encoder, "", IDS(0, 1, -1), (size_t[]){0, 0});
  assert_whole(encoder, "ab", IDS(0, 1, SPACE_A, B, -1), (size_t[]){0, 0, 1, 2});
  /* Tokens of the post_processor that the text begins with are not added again. */
  assert_whole(encoder, "<s>ab", IDS(0, 1, SPACE_A, B, -1), (size_t[]){0, 3, 4, 5});
  assert_whole(encoder, "<s><s>", IDS(0, 1, 1, -1), (size_t[]){0, 3, 6});
  assert_whole(encoder, "a<s>", IDS(0, 1, SPACE_A, 1, -1), (size_t[]){0, 0, 1, 4});
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

/* Compares the texts that the ids add, each after a bar, followed by the text that was held back until the end. */
static void assert_text(const tri_tokenizer *tokenizer, bool begins, const int32_t *ids, const char *wanted) {
  tri_decoder *decoder = NULL;
  char got[256];
  const char *text = NULL;
  size_t length = 0, bytes = 0;
  assert_ok(tri_decoder_create(tokenizer, begins, &decoder));
  for (; *ids >= 0; ids++) {
    assert_ok(tri_decoder_next(decoder, *ids, &text, &bytes));
    length += (size_t)snprintf(got + length, sizeof got - length, "%.*s|", (int)bytes, text);
  }
  tri_decoder_end(decoder, &text, &bytes);
  snprintf(got + length, sizeof got - length, "%.*s", (int)bytes, text);
  assert_string_equal(got, wanted);
  tri_decoder_destroy(decoder);
}

static void test_text_comes_in_characters(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  assert_ok(parse_document(characters_document(), &tokenizer));
  assert_text(tokenizer, true, IDS(SPACE_A, SPACE_A), "a| a|");
  assert_text(tokenizer, false, IDS(SPACE_A, SPACE_A), " a| a|");
  assert_text(tokenizer, true, IDS(SPACE, SPACE, A), "| |a|");
  assert_text(tokenizer, true, IDS(A, BYTE(0xF0), BYTE(0x9F), BYTE(0x99), BYTE(0x82), B), "a||||\U0001F642|b|");
  assert_text(tokenizer, true, IDS(BYTE(0xE4), BYTE(0xB8), A),
              "||\xe4\xb8"
              "a|");
  assert_text(tokenizer, true, IDS(BYTE(0xF0), BYTE(0x80)), "|\xf0\x80|"); /* no further byte makes it valid */
  assert_text(tokenizer, true, IDS(BYTE(0xFF), BYTE(0xC3)), "\xff||\xc3");
  assert_text(tokenizer, true, IDS(2, 1000000, A), "</s>||a|");
  tri_tokenizer_destroy(tokenizer);
}

typedef struct fault {
  const char *path, *value; /* the change to the document */
  tri_status status;
  const char *message; /* part of it */
} fault;

static const fault faults[] = {
    {"model.byte_fallback", "false", TRI_OK, NULL}, /* there is an unknown token */
    {"model.unk_token", NULL, TRI_OK, NULL},        /* there are all bytes */
    {"model.vocab.<0x80>", NULL, TRI_OK, NULL},
    {"decoder", "null", TRI_OK, NULL},
    {"model.vocab.c", "null", TRI_BAD_FILE, "the id of \"c\" must be a whole number"},
    {"model.merges.2", "\"b z\"", TRI_BAD_FILE, "entry 2: the token \"z\" is not in the vocabulary"},
    {"decoder.type", "\"WordPiece\"", TRI_UNSUPPORTED,
     "t.json: decoder: the decoder WordPiece is not supported with a"},
    {"decoder.decoders.0.type", "\"ByteLevel\"", TRI_UNSUPPORTED, "the decoder ByteLevel is not supported with a"},
    {"decoder.decoders.0.type", "7", TRI_BAD_FILE, "t.json: decoder: a decoder has no \"type\""},
    {"decoder.decoders.2.type", "\"ByteFallback\"", TRI_UNSUPPORTED, "the decoder Strip is not supported before Fuse"},
    {"decoder.decoders.3.stop", "1", TRI_UNSUPPORTED,
     "Strip is not supported at the end of a text: \"stop\" must be 0"},
    {"decoder.decoders.3.start", "-1", TRI_BAD_FILE, "\"start\" and \"stop\" of Strip must be whole numbers"},
    {"decoder.decoders.3.content", "\"ab\"", TRI_BAD_FILE, "the \"content\" of Strip must be one character"},
    {"decoder.decoders.4", "{\"type\": \"Replace\"}", TRI_UNSUPPORTED, "Replace is not supported after ByteFallback"},
    {"decoder.decoders.4", "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 0}", TRI_UNSUPPORTED,
     "the decoder Strip is not supported twice"},
};

static void test_changed_documents(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    tri_tokenizer *tokenizer = NULL;
    json_t *root = characters_document();
    patch(root, faults[i].path, faults[i].value);
    tri_status got = parse_document(root, &tokenizer);
    if (got != faults[i].status || (got != TRI_OK && strstr(tri_status_message(), faults[i].message) == NULL)) {
      fail_msg("%s: status %d, \"%s\"", faults[i].path, (int)got, got == TRI_OK ? "" : tri_status_message());
    }
    if (got == TRI_OK) {
      assert_ids(tokenizer, "ca", 1, IDS(SPACE, C, A));
    } else {
      assert_null(tokenizer);
    }
    tri_tokenizer_destroy(tokenizer);
  }
}

static void test_a_text_without_any_token(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  json_t *root = characters_document();
  patch(root, "model.byte_fallback", "false");
  patch(root, "model.unk_token", NULL);
  assert_int_equal(parse_document(root, &tokenizer), TRI_BAD_FILE);
  assert_non_null(strstr(tri_status_message(), "needs byte_fallback and tokens \"<0x00>\" to \"<0xFF>\", or an unk"));
}

static void test_nothing_is_left(void **state) {
  (void)state;
  assert_int_equal(tri_memory_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids),
      cmocka_unit_test(test_the_rest_of_a_text),
      cmocka_unit_test(test_where_tokens_end),
      cmocka_unit_test(test_what_a_text_begins_with),
      cmocka_unit_test(test_text_comes_in_characters),
      cmocka_unit_test(test_changed_documents),
      cmocka_unit_test(test_a_text_without_any_token),
      cmocka_unit_test(test_nothing_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
