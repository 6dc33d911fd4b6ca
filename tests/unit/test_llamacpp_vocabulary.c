/* The tokenizer's keys of a GGUF file for llama.cpp, from small tokenizers, and the refusals.
 * tests/full/test_gguf_vocabulary.py compares ids with llama.cpp itself. */
#include "tokenizer_fixture.h"

#include "check.h"
#include "files/file.h"
#include "llamacpp/vocabulary.h"

#include <stdio.h>

#define FOLDER "llamacpp_vocabulary_files"
#define TOKENIZER FOLDER "/tokenizer.json"
#define FILE_NAME FOLDER "/test.gguf"
#define MARK "\u2581"

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text) {
  char path[TRI_PATH_BYTES];
  CHECK_OK(tri_path_join(path, FOLDER, name));
  CHECK_OK(tri_file_replace(path, text, strlen(text)));
}

/* Makes the folder with a document, which is released, as its only file. */
static void write_document(json_t *root) {
  CHECK_OK(tri_directory_remove(FOLDER));
  CHECK_OK(tri_directory_create(FOLDER));
  char *text = json_dumps(root, 0);
  json_decref(root);
  write_text("tokenizer.json", text);
  free(text);
}

static tri_status add(int64_t rows, const char *folder, tri_gguf_header **out) {
  CHECK_OK(tri_gguf_header_create(out));
  return tri_llamacpp_add_vocabulary(*out, TOKENIZER, folder, rows);
}

/* Writes a GGUF file with the keys alone, and opens it. */
static void export_keys(int64_t rows, const char *folder, tri_gguf_file *out) {
  tri_gguf_header *header = NULL;
  tri_gguf_output *output = NULL;
  CHECK_OK(add(rows, folder, &header));
  CHECK_OK(tri_gguf_header_layout(header));
  CHECK_OK(tri_gguf_output_create(header, FILE_NAME, &output));
  CHECK_OK(tri_gguf_output_finish(output, TRI_OK));
  tri_gguf_header_destroy(header);
  CHECK_OK(tri_gguf_open(FILE_NAME, out));
}

static void refuse(json_t *root, int64_t rows, tri_status code, const char *message) {
  tri_gguf_header *header = NULL;
  write_document(root);
  CHECK_FAILS(add(rows, NULL, &header), code, message);
  tri_gguf_header_destroy(header);
}

static void check_string(const tri_gguf_file *file, const char *key, const char *wanted) {
  const char *text = NULL;
  CHECK_OK(tri_gguf_get_string(file, key, &text));
  assert_string_equal(text, wanted);
}

static void check_integer(const tri_gguf_file *file, const char *key, int64_t wanted) {
  int64_t value = -1;
  if (wanted < 0) {
    assert_null(tri_gguf_find_key(file, key));
    return;
  }
  CHECK_OK(tri_gguf_get_integer(file, key, &value));
  assert_int_equal(value, wanted);
  assert_int_equal(tri_gguf_find_key(file, key)->type, TRI_GGUF_UINT32);
}

static void check_bool(const tri_gguf_file *file, const char *key, bool wanted) {
  bool value = !wanted;
  CHECK_OK(tri_gguf_get_bool(file, key, &value));
  assert_int_equal(value, wanted);
}

/* Checks one string of an array, and the length of the array. */
static void check_text(const tri_gguf_file *file, const char *key, int64_t wanted_count, int64_t index,
                       const char *wanted) {
  tri_gguf_text *texts = NULL;
  int64_t count = 0;
  CHECK_OK(tri_gguf_get_strings(file, key, &texts, &count));
  assert_int_equal(count, wanted_count);
  assert_int_equal(texts[index].bytes, strlen(wanted));
  assert_memory_equal(texts[index].text, wanted, strlen(wanted));
  tri_free(texts);
}

static int64_t type_of(const tri_gguf_file *file, int64_t id) {
  int64_t *types = NULL, count = 0;
  CHECK_OK(tri_gguf_get_integers(file, "tokenizer.ggml.token_type", &types, &count));
  const int64_t type = types[id];
  tri_free(types);
  return type;
}

static double score_of(const tri_gguf_file *file, int64_t id) {
  double *scores = NULL;
  int64_t count = 0;
  CHECK_OK(tri_gguf_get_numbers(file, "tokenizer.ggml.scores", &scores, &count));
  const double score = scores[id];
  tri_free(scores);
  return score;
}

/* ---- byte-level -------------------------------------------------------------------------------------------------- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static void test_byte_level(void **state) {
  (void)state;
  tri_gguf_file file;
  json_t *root = base_document();
  patch(root, "added_tokens.1", "{\"id\": 263, \"content\": \"<think>\", \"special\": false, \"normalized\": false}");
  patch(root, "added_tokens.2", "{\"id\": 264, \"content\": \"<|tool|>\", \"special\": false, \"normalized\": false}");
  patch(root, "model.merges.6", "[\"h\", \"e\"]"); /* counts instead of the first */
  write_document(root);
  export_keys(267, NULL, &file);
  check_string(&file, "tokenizer.ggml.model", "gpt2");
  check_string(&file, "tokenizer.ggml.pre", "gpt-2");
  check_text(&file, "tokenizer.ggml.tokens", 267, 260, "\u0120hello");
  check_text(&file, "tokenizer.ggml.tokens", 267, 266, "[PAD266]");
  check_text(&file, "tokenizer.ggml.merges", 6, 0, "l l");
  check_text(&file, "tokenizer.ggml.merges", 6, 5, "h e");
  assert_int_equal(type_of(&file, 260), NORMAL);
  assert_int_equal(type_of(&file, 262), CONTROL);
  assert_int_equal(type_of(&file, 263), USER_DEFINED);
  assert_int_equal(type_of(&file, 264), CONTROL); /* by its look */
  assert_int_equal(type_of(&file, 266), UNUSED);
  check_integer(&file, "tokenizer.ggml.bos_token_id", 262);
  check_integer(&file, "tokenizer.ggml.eos_token_id", 262);
  check_integer(&file, "tokenizer.ggml.eot_token_id", -1);
  check_bool(&file, "tokenizer.ggml.add_bos_token", false);
  check_bool(&file, "tokenizer.ggml.add_eos_token", false);
  assert_null(tri_gguf_find_key(&file, "tokenizer.ggml.scores"));
  assert_null(tri_gguf_find_key(&file, "tokenizer.chat_template"));
  tri_gguf_close(&file);
}

#define LLAMA3(digits)                                                                                                 \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits                               \
  "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT_AS(regex, behavior)                                                                                      \
  "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex               \
  "\"}, " behavior "}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}"
#define SPLIT(regex) SPLIT_AS(regex, "\"behavior\": \"Isolated\", \"invert\": false")
#define SPELLED "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|\\\\p{N}|."

static void check_name(const char *pretokenizer, const char *ignore_merges, const char *wanted) {
  tri_gguf_file file;
  json_t *root = base_document();
  patch(root, "pre_tokenizer", pretokenizer);
  patch(root, "model.ignore_merges", ignore_merges);
  write_document(root);
  export_keys(263, NULL, &file);
  check_string(&file, "tokenizer.ggml.pre", wanted);
  tri_gguf_close(&file);
}

static void test_names(void **state) {
  (void)state;
  check_name(SPLIT(LLAMA3("{1,3}")), "true", "llama-bpe");
  check_name(SPLIT(LLAMA3("{1,3}")), "false", "dbrx");
  check_name(SPLIT(LLAMA3("")), "false", "qwen2");
  check_name(SPLIT_AS(LLAMA3(""), "\"behavior\": \"Removed\", \"invert\": true"), "false", "qwen2");
  check_name(SPLIT(LLAMA3("")), "true", "qwen2"); /* merges make all tokens, so that the flag changes nothing */
  check_name(
      "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, "
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}",
      "false", "starcoder");
}

/* A change of a document, and the message with which it is refused. */
typedef struct refusal {
  const char *path, *value, *message;
} refusal;

static const refusal byte_level_refusals[] = {
    {"pre_tokenizer.add_prefix_space", "true", "ByteLevel has add_prefix_space true"},
    {"pre_tokenizer", SPLIT("[a-z]+|."),
     "no name for this pre_tokenizer, and cannot read it from a file: Split([a-z]+|.) ByteLevel; train"},
    {"pre_tokenizer", SPLIT(SPELLED), "Split((?i:'s|'t|'re|'ve|'m|'ll|'d)|\\p{N}|.) ByteLevel;"},
    {"normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"b\"}",
     "the normalizer is Replace, and llama.cpp does not change texts"},
    {"model.type", "\"Unigram\"", "the type Unigram is not supported"},
    {"model.type", "\"WordPiece\"", "the type WordPiece is not supported"},
    {"post_processor",
     "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}, {\"SpecialToken\": {\"id\": "
     "\"x\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"x\": {\"ids\": [262]}}}",
     "begins texts with 2 tokens"},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof byte_level_refusals / sizeof *byte_level_refusals; i++) {
    json_t *root = base_document();
    patch(root, byte_level_refusals[i].path, byte_level_refusals[i].value);
    refuse(root, 263, TRI_UNSUPPORTED, byte_level_refusals[i].message);
  }
  refuse(base_document(), 262, TRI_UNSUPPORTED, "has 263 tokens, and the model's embedding has only 262 rows");
  json_t *root = base_document();
  patch(root, "added_tokens.1", "{\"id\": 263, \"content\": \"[PAD264]\", \"special\": true, \"normalized\": false}");
  refuse(root, 265, TRI_UNSUPPORTED, "the tokens 263 and 264 would have the same text \"[PAD264]\"");
  root = base_document(); /* no merge makes the token "wh", and only ignore_merges finds it */
  patch(root, "added_tokens", "[]");
  patch(root, "model.vocab.wh", "262");
  patch(root, "model.ignore_merges", "true");
  refuse(root, 263, TRI_UNSUPPORTED, "no merges make the token 262, \"wh\"");
  tri_gguf_header *header = NULL;
  CHECK_OK(tri_gguf_header_create(&header));
  CHECK_FAILS(tri_llamacpp_add_vocabulary(header, "bytes", NULL, 257), TRI_UNSUPPORTED,
              "the tokenizer bytes is not a tokenizer.json with a BPE model");
  tri_gguf_header_destroy(header);
}

static void test_without_merges(void **state) {
  (void)state;
  tri_gguf_file file;
  json_t *root = base_document();
  patch(root, "added_tokens", "[]");
  patch(root, "model.merges", "[]");
  write_document(root);
  export_keys(262, NULL, &file);
  check_text(&file, "tokenizer.ggml.merges", 1, 0, "! !");
  check_integer(&file, "tokenizer.ggml.eos_token_id", 261); /* no token ends texts: the last */
  tri_gguf_close(&file);
}

/* ---- other files of the folder ----------------------------------------------------------------------------------- */

static void test_folder(void **state) {
  (void)state;
  tri_gguf_file file;
  json_t *root = base_document();
  patch(root, "added_tokens.1", "{\"id\": 263, \"content\": \"<|eot_id|>\", \"special\": true, \"normalized\": false}");
  patch(root, "added_tokens.2", "{\"id\": 264, \"content\": \"<stop>\", \"special\": true, \"normalized\": false}");
  patch(root, "added_tokens.3", "{\"id\": 265, \"content\": \"<s>\", \"special\": true, \"normalized\": false}");
  patch(
      root, "post_processor",
      "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": "
      "\"A\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [265]}}}");
  write_document(root);
  write_text("generation_config.json", "{\"eos_token_id\": [262, 263, 264]}");
  write_text("tokenizer_config.json",
             "{\"eos_token\": \"<|eot_id|>\", \"pad_token\": \"<|endoftext|>\", \"additional_special_tokens\": "
             "[\"<late>\"], \"chat_template\": \"{{ messages[0].content }}\"}");
  export_keys(270, FOLDER, &file);
  check_text(&file, "tokenizer.ggml.tokens", 270, 266, "<late>");
  assert_int_equal(type_of(&file, 266), CONTROL);
  check_integer(&file, "tokenizer.ggml.bos_token_id", 265);
  check_integer(&file, "tokenizer.ggml.eos_token_id", 263);
  check_integer(&file, "tokenizer.ggml.eot_token_id", 264); /* llama.cpp knows the other one by its name */
  check_integer(&file, "tokenizer.ggml.padding_token_id", 262);
  check_bool(&file, "tokenizer.ggml.add_bos_token", true);
  check_string(&file, "tokenizer.chat_template", "{{ messages[0].content }}");
  tri_gguf_close(&file);
  write_text("chat_template.jinja", "{{ messages[1].content }}");
  CHECK_OK(tri_directory_create(FOLDER "/additional_chat_templates"));
  write_text("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  export_keys(270, FOLDER, &file);
  check_string(&file, "tokenizer.chat_template", "{{ messages[1].content }}");
  check_string(&file, "tokenizer.chat_template.tool_use", "{{ tools }}");
  check_text(&file, "tokenizer.chat_templates", 1, 0, "tool_use");
  tri_gguf_close(&file);
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

enum { FIRST_BYTE = 3, FIRST_LETTER = FIRST_BYTE + 256, MARK_ID = FIRST_LETTER, A, B, C, MARK_A, AB, BC, ABC, TOKENS };

#define REPLACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}"
#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"" MARK "\"}"
#define BOTH "{\"type\": \"Sequence\", \"normalizers\": [" PREPEND ", " REPLACE "]}"

/* <unk> <s> </s>, the bytes, mark a b c mark+a ab bc abc and an added token with a mark. */
static json_t *characters_document(const char *merges) {
  static const char *const letters[] = {MARK, "a", "b", "c", "\u2581a", "ab", "bc", "abc"};
  json_t *vocab = json_pack("{s:i, s:i, s:i}", "<unk>", 0, "<s>", 1, "</s>", 2);
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    json_object_set_new(vocab, name, json_integer(FIRST_BYTE + byte));
  }
  for (int i = 0; i < 8; i++) json_object_set_new(vocab, letters[i], json_integer(FIRST_LETTER + i));
  json_t *root =
      json_pack("{s:[{s:i, s:s, s:b, s:b}, {s:i, s:s, s:b, s:b}], s:n, s:n, s:{s:s, s:b, s:b, s:s, s:o}}",
                "added_tokens", "id", 2, "content", "</s>", "special", 1, "normalized", 0, "id", TOKENS, "content",
                "<x" MARK "y>", "special", 0, "normalized", 0, "normalizer", "pre_tokenizer", "model", "type", "BPE",
                "byte_fallback", 1, "fuse_unk", 1, "unk_token", "<unk>", "vocab", vocab);
  patch(root, "normalizer", BOTH);
  patch(root, "model.merges", merges);
  patch(root, "decoder",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK
        "\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}");
  return root;
}

/* "abc" is made of "ab" and "c" only, since "a" and "b" merge before "b" and "c". */
#define MERGES "[\"a b\", \"b c\", \"" MARK " a\", \"ab c\"]"

static void test_characters(void **state) {
  (void)state;
  tri_gguf_file file;
  write_document(characters_document(MERGES));
  export_keys(TOKENS + 2, NULL, &file);
  check_string(&file, "tokenizer.ggml.model", "llama");
  check_text(&file, "tokenizer.ggml.tokens", TOKENS + 2, FIRST_BYTE + 10, "<0x0A>");
  check_text(&file, "tokenizer.ggml.tokens", TOKENS + 2, TOKENS, "<x y>");
  assert_int_equal(type_of(&file, 0), UNKNOWN);
  assert_int_equal(type_of(&file, 2), CONTROL);
  assert_int_equal(type_of(&file, FIRST_BYTE), BYTE);
  assert_int_equal(type_of(&file, TOKENS), USER_DEFINED);
  assert_int_equal(type_of(&file, TOKENS + 1), UNUSED);
  assert_int_equal((int)score_of(&file, AB), -1);
  assert_int_equal((int)score_of(&file, BC), -2);
  assert_int_equal((int)score_of(&file, MARK_A), -3);
  assert_int_equal((int)score_of(&file, ABC), -4);
  assert_int_equal((int)score_of(&file, A), 0);
  assert_int_equal((int)score_of(&file, 2), -1000);
  check_integer(&file, "tokenizer.ggml.unknown_token_id", 0);
  check_integer(&file, "tokenizer.ggml.eos_token_id", 2);
  check_bool(&file, "tokenizer.ggml.add_space_prefix", true);
  assert_null(tri_gguf_find_key(&file, "tokenizer.ggml.merges"));
  tri_gguf_close(&file);
}

static void check_prefix(const char *normalizer, const char *pretokenizer, bool wanted) {
  tri_gguf_file file;
  json_t *root = characters_document(MERGES);
  patch(root, "normalizer", normalizer);
  patch(root, "pre_tokenizer", pretokenizer);
  write_document(root);
  export_keys(TOKENS + 1, NULL, &file);
  check_bool(&file, "tokenizer.ggml.add_space_prefix", wanted);
  tri_gguf_close(&file);
}

#define METASPACE(more) "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\"" more "}"

static void test_spaces(void **state) {
  (void)state;
  check_prefix(REPLACE, "null", false);
  check_prefix(REPLACE, "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\"}",
               false);
  check_prefix("null", METASPACE(""), true);
  check_prefix("null", METASPACE(", \"prepend_scheme\": \"first\", \"split\": false"), true);
  check_prefix("null", METASPACE(", \"prepend_scheme\": \"never\""), false);
}

static void test_refused_characters(void **state) {
  (void)state;
  static const refusal refusals[] = {
      {"normalizer", "null", "must replace spaces by U+2581 once"},
      {"pre_tokenizer", METASPACE(""), "must replace spaces by U+2581 once"},
      {"normalizer", "{\"type\": \"Prepend\", \"prepend\": \"_\"}", "the normalizer has Prepend"},
      {"pre_tokenizer", "{\"type\": \"Digits\", \"individual_digits\": true}", "the pre_tokenizer has Digits"},
      {"model.byte_fallback", "false", "byte_fallback is false"},
      {"model.merges", "[\"a b\", \"b c\", \"" MARK " a\"]",
       "no merge makes the token 266, \"abc\", and llama.cpp would make it of \"ab\" and \"c\""},
      {"model.merges", "[\"b c\", \"a b\", \"" MARK " a\", \"ab c\"]",
       "no merge makes the token 266, \"abc\", and llama.cpp would make it of \"a\" and \"bc\""},
  };
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    json_t *root = characters_document(MERGES);
    patch(root, refusals[i].path, refusals[i].value);
    refuse(root, TOKENS + 2, TRI_UNSUPPORTED, refusals[i].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_byte_level), cmocka_unit_test(test_names),
      cmocka_unit_test(test_refusals),   cmocka_unit_test(test_without_merges),
      cmocka_unit_test(test_folder),     cmocka_unit_test(test_characters),
      cmocka_unit_test(test_spaces),     cmocka_unit_test(test_refused_characters),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  (void)tri_directory_remove(FOLDER);
  return failed;
}
