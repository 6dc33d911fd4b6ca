/* Invalid and damaged tokenizer files: each is refused with a status and a message that names the fault and its place.
 * */
#include "tokenizer_fixture.h"

#include "files/file.h"

#include <stdio.h>
#include <unistd.h>

typedef struct fault {
  const char *path, *value; /* the change to the base document */
  tri_status status;
  const char *message; /* part of it */
} fault;

static const fault faults[] = {
    {"model", NULL, TRI_BAD_FILE, "t.json: the object \"model\" is missing"},
    {"model", "[]", TRI_BAD_FILE, "t.json: the object \"model\" is missing"},
    {"model.type", "\"WordPiece\"", TRI_UNSUPPORTED, "t.json: model: the type WordPiece is not supported"},
    {"model.type", "7", TRI_BAD_FILE, "t.json: model: \"type\" must be a string, not a number"},
    {"model.byte_fallback", "\"no\"", TRI_BAD_FILE, "\"byte_fallback\" must be true or false, not a string"},
    {"model.dropout", "0.1", TRI_UNSUPPORTED, "dropout makes ids random"},
    {"model.continuing_subword_prefix", "\"##\"", TRI_UNSUPPORTED, "continuing_subword_prefix"},
    {"model.end_of_word_suffix", "\"</w>\"", TRI_UNSUPPORTED, "end_of_word_suffix"},
    {"model.unk_token", "\"<unk>\"", TRI_BAD_FILE, "the unk_token \"<unk>\" is not in the vocabulary"},
    {"model.ignore_merges", "1", TRI_BAD_FILE, "\"ignore_merges\" must be true or false, not a number"},
    {"model.vocab", "[]", TRI_BAD_FILE, "t.json: model: \"vocab\" must be an object"},
    {"model.vocab", "{}", TRI_BAD_FILE, "t.json: model.vocab: the vocabulary is empty"},
    {"model.vocab.new", "\"5\"", TRI_BAD_FILE, "model.vocab: the id of \"new\" must be a whole number, not a string"},
    {"model.vocab.new", "1.5", TRI_BAD_FILE, "the id of \"new\" must be a whole number"},
    {"model.vocab.new", "-1", TRI_BAD_FILE, "the id of \"new\" is -1; ids must be between 0 and 16777215"},
    {"model.vocab.new", "16777216", TRI_BAD_FILE, "the id of \"new\" is 16777216; ids must be between"},
    {"model.vocab.new", "16777215", TRI_BAD_FILE, "263 tokens have ids up to 16777215"},
    {"model.vocab.new", "97", TRI_BAD_FILE, "\"new\" and the token for \"a\" have the same id 97"},
    {"model.vocab.a", NULL, TRI_BAD_FILE, "\"<|endoftext|>\" has id 262, but the next free id is 261"},
    {"model.vocab.a b", "300", TRI_BAD_FILE, "\"a b\" (id 300) has a letter that no byte is written as"},
    {"model.vocab.\u4e2d", "300", TRI_BAD_FILE, "\"\u4e2d\" (id 300) has a letter that no byte is written as"},
    {"model.vocab.\x1b[2J", "-7", TRI_BAD_FILE,
     "the id of \"?[2J\" is -7"}, /* no control characters for the terminal */
    {"model.vocab", "{\"\": 3}", TRI_BAD_FILE, "the token with id 3 is empty"},
    {"model.merges", NULL, TRI_BAD_FILE, "t.json: model: \"merges\" must be an array"},
    {"model.merges.2", "\"he\"", TRI_BAD_FILE, "model.merges: entry 2: \"he\" is not two tokens with one space"},
    {"model.merges.2", "\"h e l\"", TRI_BAD_FILE, "entry 2: \"h e l\" is not two tokens"},
    {"model.merges.2", "\" he\"", TRI_BAD_FILE, "entry 2: \" he\" is not two tokens"},
    {"model.merges.6", "\"he xyz\"", TRI_BAD_FILE, "entry 6: the token \"xyz\" is not in the vocabulary"},
    {"model.merges.6", "[\"a b\", \"c\"]", TRI_BAD_FILE, "entry 6: the token \"a b\" is not in the vocabulary"},
    {"model.merges.6", "\"x y\"", TRI_BAD_FILE, "entry 6: \"x\" and \"y\" merge into a token that is not in the"},
    {"model.merges.6", "[\"x\"]", TRI_BAD_FILE, "entry 6 is neither \"left right\" nor [\"left\", \"right\"]"},
    {"model.merges.6", "[\"x\", 1]", TRI_BAD_FILE, "entry 6 is neither"},
    {"model.merges.6", "{}", TRI_BAD_FILE, "entry 6 is neither"},
    {"normalizer", "{\"type\": \"Lowercase\"}", TRI_UNSUPPORTED, "t.json: normalizer: the normalizer Lowercase is not"},
    {"normalizer", "{}", TRI_UNSUPPORTED, "the normalizer without a \"type\" is not supported"},
    {"pre_tokenizer", "null", TRI_BAD_FILE, "a vocabulary of characters needs byte_fallback and tokens \"<0x00>\""},
    {"pre_tokenizer", "{\"type\": \"Metaspace\"}", TRI_BAD_FILE, "the \"replacement\" of Metaspace must be one char"},
    {"pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"__\"}", TRI_BAD_FILE,
     "the \"replacement\" of Metaspace must be one char"},
    {"pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}",
     TRI_UNSUPPORTED, "t.json: pre_tokenizer: the prepend_scheme last is not supported; always, first and never are"},
    {"pre_tokenizer",
     "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\", \"add_prefix_space\": false}",
     TRI_BAD_FILE, "Metaspace has add_prefix_space false and prepend_scheme first, which is not never"},
    {"pre_tokenizer",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": \"Metaspace\", \"replacement\": "
     "\"_\"}]}",
     TRI_UNSUPPORTED, "t.json: pre_tokenizer: Metaspace after another pre-tokenizer is not supported"},
    {"pre_tokenizer",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Metaspace\", "
     "\"replacement\": "
     "\"_\"}]}",
     TRI_UNSUPPORTED, "the pre-tokenizer Metaspace is not supported together with ByteLevel"},
    {"pre_tokenizer",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"ByteLevel\"}]}",
     TRI_UNSUPPORTED, "the pre-tokenizer ByteLevel is not supported together with ByteLevel"},
    {"pre_tokenizer", "{\"type\": \"Whitespace\"}", TRI_UNSUPPORTED, "the pre-tokenizer Whitespace is not supported;"},
    {"pre_tokenizer", "{\"type\": \"Punctuation\", \"behavior\": \"Removed\"}", TRI_UNSUPPORTED,
     "Punctuation with the behavior \"Removed\" is not supported"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": \"MergedWithNext\"}",
     TRI_UNSUPPORTED, "a Split by an empty string is not supported"},
    {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" +\"}, \"content\": \"\"}", TRI_UNSUPPORTED,
     "t.json: normalizer: a Replace with a Regex is not supported"},
    {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"\"}", TRI_UNSUPPORTED,
     "a Replace of an empty string is not supported"},
    {"normalizer", "{\"type\": \"Replace\", \"content\": \"\"}", TRI_BAD_FILE, "a Replace must have a \"pattern\""},
    {"normalizer", "{\"type\": \"Prepend\"}", TRI_BAD_FILE, "the \"prepend\" of a Prepend must be a string"},
    {"pre_tokenizer.use_regex", "\"yes\"", TRI_BAD_FILE, "pre_tokenizer: \"use_regex\" must be true or false"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"behavior\": \"Isolated\"}", TRI_BAD_FILE,
     "the \"pattern\" of a Split must be"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Contiguous\"}",
     TRI_UNSUPPORTED, "a Split with the behavior \"Contiguous\" is not supported"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Removed\"}",
     TRI_UNSUPPORTED, "a Split with the behavior \"Removed\" is not supported"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a(b\"}, \"behavior\": \"Isolated\"}",
     TRI_BAD_FILE, "t.json: pre_tokenizer: the pattern cannot be compiled: missing closing parenthesis"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a\"}, \"behavior\": \"Isolated\"}",
     TRI_BAD_FILE, "the pattern's [ at byte 0 is never closed"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a-z&&[b]]\"}, \"behavior\": \"Isolated\"}",
     TRI_UNSUPPORTED, "combines sets inside of [...] at byte 4"},
    {"pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a\\\\R]\"}, \"behavior\": \"Isolated\"}",
     TRI_UNSUPPORTED, "has \\R inside of [...] at byte 2"},
    {"added_tokens", "{}", TRI_BAD_FILE, "t.json: \"added_tokens\" must be an array"},
    {"added_tokens.0.content", NULL, TRI_BAD_FILE, "t.json: added_tokens[0]: \"content\" must be a string"},
    {"added_tokens.0", "17", TRI_BAD_FILE, "t.json: added_tokens[0]: \"content\" must be a string"},
    {"added_tokens.0.id", "\"262\"", TRI_BAD_FILE, "added_tokens[0]: \"id\" must be a whole number"},
    {"added_tokens.0.id", "-262", TRI_BAD_FILE, "added_tokens[0]: the id is -262; ids must be between 0 and 16777215"},
    {"added_tokens.0.id", "4294967558", TRI_BAD_FILE, "added_tokens[0]: the id is 4294967558"},
    {"added_tokens.0.id", "263", TRI_BAD_FILE,
     "added_tokens[0]: \"<|endoftext|>\" has id 263, but the next free id is 262"},
    {"added_tokens.0.content", "\"he\"", TRI_BAD_FILE, "\"he\" has id 262, but in model.vocab it has 256"},
    {"added_tokens.0.special", "3", TRI_BAD_FILE, "added_tokens[0]: \"special\" must be true or false, not a number"},
    {"added_tokens.1", "{\"content\": \"<|endoftext|>\", \"id\": 263}", TRI_BAD_FILE,
     "added_tokens[1]: \"<|endoftext|>\" is listed twice"},
};

static void assert_refused(tri_status got, const tri_tokenizer *tokenizer, tri_status status, const char *message) {
  if (got != status || strstr(tri_status_message(), message) == NULL) {
    fail_msg("status %d, message \"%s\" instead of status %d, \"%s\"", (int)got,
             got == TRI_OK ? "" : tri_status_message(), (int)status, message);
  }
  assert_null(tokenizer); /* outputs are set only on success */
}

static void test_broken_documents(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    tri_tokenizer *tokenizer = NULL;
    json_t *root = base_document();
    patch(root, faults[i].path, faults[i].value);
    assert_refused(parse_document(root, &tokenizer), tokenizer, faults[i].status, faults[i].message);
  }
}

static void test_no_document_at_all(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } texts[] = {
      {"", "t.json is not valid JSON at line 1"},
      {"{\"model\":\n {\"type\": \"BPE\", \"vo", "t.json is not valid JSON at line 2"},
      {"[1]", "t.json: the file must contain a JSON object"},
      {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
      {"{\"a\": \"\xff\"}", "not valid JSON"},
      {"{\"a\": 99999999999999999999}", "not valid JSON"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    tri_tokenizer *tokenizer = NULL;
    tri_status status = tri_tokenizer_parse_json("t.json", texts[i].text, strlen(texts[i].text), &tokenizer);
    assert_refused(status, tokenizer, TRI_BAD_FILE, texts[i].message);
  }
}

static void test_deep_document(void **state) {
  (void)state;
  enum { DEPTH = 1000000 };
  char *text = malloc(DEPTH + 5);
  tri_tokenizer *tokenizer = NULL;
  assert_non_null(text);
  memcpy(text, "{\"a\":", 5);
  memset(text + 5, '[', DEPTH);
  assert_refused(tri_tokenizer_parse_json("t.json", text, DEPTH + 5, &tokenizer), tokenizer, TRI_BAD_FILE,
                 "maximum parsing depth reached");
  free(text);
  json_t *nested = json_pack("{s:s}", "type", "ByteLevel");
  for (int i = 0; i < 20; i++) nested = json_pack("{s:s, s:[o]}", "type", "Sequence", "pretokenizers", nested);
  json_t *root = base_document();
  json_object_set_new(root, "pre_tokenizer", nested);
  assert_refused(parse_document(root, &tokenizer), tokenizer, TRI_UNSUPPORTED, "the pre-tokenizer Sequence is not");
}

static void test_too_many_stages(void **state) {
  (void)state;
  json_t *root = base_document(), *list = json_array();
  tri_tokenizer *tokenizer = NULL;
  for (int i = 0; i < 17; i++) json_array_append_new(list, json_pack("{s:s}", "type", "Digits"));
  json_object_set_new(root, "pre_tokenizer", json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list));
  assert_refused(parse_document(root, &tokenizer), tokenizer, TRI_BAD_FILE, "pre_tokenizer: more than 16 stages");
}

/* A pattern that would take for ever fails with a message. */
static void test_costly_pattern(void **state) {
  (void)state;
  json_t *root = base_document();
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list list = {0};
  patch(root, "pre_tokenizer",
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a+a+)+$\"}, "
        "\"behavior\": "
        "\"Isolated\"}, {\"type\": \"ByteLevel\"}]}");
  assert_ok(parse_document(root, &tokenizer));
  assert_ok(tri_encoder_create(tokenizer, &encoder));
  static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
  assert_int_equal(tri_encoder_encode(encoder, text, sizeof text - 1, 1, &list), TRI_UNSUPPORTED);
  assert_non_null(strstr(tri_status_message(), "the tokenizer's pattern fails on the text"));
  tri_free(list.ids);
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
}

static void test_gpt2_files(void **state) {
  (void)state;
  static const struct {
    const char *merges, *message;
  } cases[] = {
      {"#version: 0.2\nh e\nhe\n", "vocab.bpe: line 3: \"he\" is not two tokens"},
      {"h e\n\nl l\n", "vocab.bpe: line 2: \"\" is not two tokens"},
      {"h e\nl  l\n", "vocab.bpe: line 2: \"l  l\" is not two tokens"},
      {"h qq\n", "vocab.bpe: line 1: the token \"qq\" is not in the vocabulary"},
      {"h e\n#version: 0.2\n", "vocab.bpe: line 2: the token \"#version:\" is not in the vocabulary"},
      {"o o\n", "vocab.bpe: line 1: \"o\" and \"o\" merge into a token that is not in the vocabulary"},
  };
  json_t *root = base_document();
  char *encoder = json_dumps(json_object_get(json_object_get(root, "model"), "vocab"), 0);
  tri_tokenizer *tokenizer = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_status status = tri_tokenizer_parse_gpt2("encoder.json", encoder, strlen(encoder), "vocab.bpe", cases[i].merges,
                                                 strlen(cases[i].merges), &tokenizer);
    assert_refused(status, tokenizer, TRI_BAD_FILE, cases[i].message);
  }
  /* Bytes without a token are dropped. */
  assert_ok(tri_tokenizer_parse_gpt2("encoder.json", "{\"a\": 0}", 8, "vocab.bpe", "", 0, &tokenizer));
  assert_ids(tokenizer, "bab", 1, IDS(0));
  tri_encoder *dropping = NULL;
  tri_token_list none = {0};
  tri_token_ends ends = {0};
  assert_ok(tri_encoder_create(tokenizer, &dropping));
  assert_ok(tri_encoder_encode(dropping, "bcb", 3, 1, &none));
  assert_int_equal(none.count, 0);
  assert_ok(tri_encoder_encode_with_ends(dropping, "babca", 5, &none, &ends));
  assert_int_equal(ends.count, 2);
  assert_int_equal(ends.ends[0], 4);
  assert_int_equal(ends.ends[1], 5);
  tri_free(none.ids);
  tri_free(ends.ends);
  tri_encoder_destroy(dropping);
  tri_tokenizer_destroy(tokenizer);
  /* A file without merges, without an end of text, or with the line ends of another system is valid. */
  static const char merges[] = "#version: 0.2\r\nh e\r\n";
  assert_ok(tri_tokenizer_parse_gpt2("encoder.json", encoder, strlen(encoder), "vocab.bpe", merges, sizeof merges - 1,
                                     &tokenizer));
  assert_int_equal(tri_tokenizer_end_of_text(tokenizer), -1);
  assert_ids(tokenizer, "hell", 1, IDS(256, 'l', 'l'));
  tri_tokenizer_destroy(tokenizer);
  free(encoder);
  json_decref(root);
}

static void test_paths(void **state) {
  (void)state;
  tri_tokenizer *tokenizer = NULL;
  assert_refused(tri_tokenizer_create("/proc/none/t.json", &tokenizer), tokenizer, TRI_BAD_FILE,
                 "cannot open /proc/none/t.json: No such file or directory");
  assert_refused(tri_tokenizer_create("gpt2:/proc/none", &tokenizer), tokenizer, TRI_BAD_FILE,
                 "/proc/none has neither encoder.json with vocab.bpe nor vocab.json with merges.txt");
  assert_refused(tri_tokenizer_create("/tmp", &tokenizer), tokenizer, TRI_BAD_FILE,
                 "/tmp is a directory; give the tokenizer.json in it, or gpt2:/tmp for encoder.json and vocab.bpe");
  assert_ok(tri_tokenizer_create("bytes", &tokenizer));
  assert_int_equal(tri_tokenizer_save(tokenizer, "/proc/none/t.json"), TRI_IO_FAILED);
  assert_non_null(strstr(tri_status_message(), "/proc/none/t.json"));
  tri_tokenizer_destroy(tokenizer);
}

static void test_learning(void **state) {
  (void)state;
  tri_tokenizer_trainer *trainer = NULL;
  tri_tokenizer *tokenizer = NULL;
  assert_int_equal(tri_tokenizer_trainer_create(256, &trainer), TRI_BAD_CONFIG);
  assert_non_null(strstr(tri_status_message(), "a learned vocabulary must have 257 to 16777216 tokens"));
  assert_null(trainer);
  assert_int_equal(tri_tokenizer_trainer_create((int64_t)1 << 40, &trainer), TRI_BAD_CONFIG);
  assert_ok(tri_tokenizer_trainer_create(300, &trainer));
  assert_ok(tri_tokenizer_trainer_feed(trainer, "abc", 3));
  assert_refused(
      tri_tokenizer_trainer_finish(trainer, &tokenizer), tokenizer, TRI_BAD_CONFIG,
      "the text is enough for a vocabulary of 259 tokens, not of 300; ask for 259 or fewer, or give more text");
  tri_tokenizer_trainer_destroy(trainer);
  assert_ok(tri_tokenizer_trainer_create(258, &trainer)); /* no text at all */
  assert_refused(tri_tokenizer_trainer_finish(trainer, &tokenizer), tokenizer, TRI_BAD_CONFIG, "a vocabulary of 257");
  tri_tokenizer_trainer_destroy(trainer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broken_documents),
      cmocka_unit_test(test_no_document_at_all),
      cmocka_unit_test(test_deep_document),
      cmocka_unit_test(test_too_many_stages),
      cmocka_unit_test(test_costly_pattern),
      cmocka_unit_test(test_gpt2_files),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_learning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
