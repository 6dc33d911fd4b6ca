/* Tokenizers of small GGUF files as tokenizer.json and tokenizer_config.json, and the refusals.
 * tests/full/test_gguf_tokenizer.py compares ids with llama.cpp itself. */
#include "check.h"

#include "base/memory.h"
#include "files/file.h"
#include "gguf/writer.h"
#include "llamacpp/tokenizer_files.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define FOLDER "llamacpp_tokenizer_files"
#define FILE_NAME FOLDER "/test.gguf"
#define KEY(name) "tokenizer.ggml." name
#define MARK "\u2581"
#define TO_TOKENIZER "--tokenizer FOLDER"

enum { MOST_TOKENS = 12 };

/* The keys of a file; a member that is NULL or 0 has no key. */
typedef struct keys {
  const char *model, *pre, *template;
  const char *tokens[MOST_TOKENS]; /* up to the first NULL */
  int32_t types[MOST_TOKENS];
  int64_t num_types;
  const char *merges[MOST_TOKENS];
  float scores[MOST_TOKENS];
  int64_t num_scores;
  const char *id_key; /* key with the value id */
  uint32_t id;
  const char *bool_key; /* key with the value true */
  const char *names[2]; /* of further chat templates */
} keys;

static void add_texts(tri_gguf_header *header, const char *key, const char *const *texts) {
  tri_gguf_text list[MOST_TOKENS];
  int64_t count = 0;
  for (; count < MOST_TOKENS && texts[count] != NULL; count++) {
    list[count] = (tri_gguf_text){texts[count], strlen(texts[count])};
  }
  if (count > 0) CHECK_OK(tri_gguf_add_strings(header, key, count, list));
}

static void open_keys(const keys *from, tri_gguf_file *out) {
  tri_gguf_header *header = NULL;
  tri_gguf_output *output = NULL;
  CHECK_OK(tri_directory_create(FOLDER));
  CHECK_OK(tri_gguf_header_create(&header));
  if (from->model != NULL) CHECK_OK(tri_gguf_add_string(header, KEY("model"), from->model));
  if (from->pre != NULL) CHECK_OK(tri_gguf_add_string(header, KEY("pre"), from->pre));
  add_texts(header, KEY("tokens"), from->tokens);
  if (from->num_types > 0) {
    CHECK_OK(tri_gguf_add_values(header, KEY("token_type"), TRI_GGUF_INT32, from->num_types, from->types));
  }
  add_texts(header, KEY("merges"), from->merges);
  if (from->num_scores > 0) {
    CHECK_OK(tri_gguf_add_values(header, KEY("scores"), TRI_GGUF_FLOAT32, from->num_scores, from->scores));
  }
  if (from->id_key != NULL) CHECK_OK(tri_gguf_add_uint32(header, from->id_key, from->id));
  if (from->bool_key != NULL) CHECK_OK(tri_gguf_add_bool(header, from->bool_key, true));
  if (from->template != NULL) CHECK_OK(tri_gguf_add_string(header, "tokenizer.chat_template", from->template));
  add_texts(header, "tokenizer.chat_templates", from->names);
  if (from->names[0] != NULL) CHECK_OK(tri_gguf_add_string(header, "tokenizer.chat_template.tool_use", "tools"));
  CHECK_OK(tri_gguf_header_layout(header));
  CHECK_OK(tri_gguf_output_create(header, FILE_NAME, &output));
  CHECK_OK(tri_gguf_output_finish(output, TRI_OK));
  tri_gguf_header_destroy(header);
  CHECK_OK(tri_gguf_open(FILE_NAME, out));
}

static json_t *read_json(const char *name) {
  char path[TRI_PATH_BYTES];
  json_error_t error;
  CHECK_OK(tri_path_join(path, FOLDER, name));
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  assert_non_null(root);
  return root;
}

/* Writes the files of the keys, and compares parts of tokenizer.json, "KEY", and tokenizer_config.json with JSON texts;
 * NULL: not compared. */
static void check_files(const keys *from, const char *const parts[][2], size_t num_parts, const char *config) {
  tri_gguf_file file;
  tri_tokenizer *tokenizer = NULL;
  const size_t held = tri_memory_bytes();
  open_keys(from, &file);
  CHECK_OK(tri_llamacpp_write_tokenizer(&file, FOLDER));
  tri_gguf_close(&file);
  CHECK_OK(tri_tokenizer_create(FOLDER "/tokenizer.json", &tokenizer));
  tri_tokenizer_destroy(tokenizer);
  assert_int_equal(tri_memory_bytes(), held);
  json_t *root = read_json("tokenizer.json"), *model = json_object_get(root, "model");
  for (size_t i = 0; i < num_parts; i++) {
    const json_t *part = json_object_get(root, parts[i][0]);
    if (part == NULL) part = json_object_get(model, parts[i][0]);
    char *text = json_dumps(part, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, parts[i][1]);
    free(text);
  }
  json_decref(root);
  root = read_json("tokenizer_config.json");
  char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
  assert_string_equal(text, config);
  free(text);
  json_decref(root);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ADDED_FLAGS "\"lstrip\":false,\"normalized\":false,\"rstrip\":false,\"single_word\":false,"
#define BYTE_LEVEL "{\"add_prefix_space\":false,\"trim_offsets\":true,\"type\":\"ByteLevel\",\"use_regex\":true}"
#define CONFIG_END "\"clean_up_tokenization_spaces\":false,"
#define CLASS "\"tokenizer_class\":\"PreTrainedTokenizerFast\"}"

static void test_byte_level(void **state) {
  (void)state;
  const keys from = {.model = "gpt2",
                     .pre = "smollm",
                     .tokens = {"a", "b", "ab", "<s>", "\u2026", "  ", "[PAD6]", "[PAD7]"},
                     .types = {1, 1, 1, 3, 1, 4, 5, 5},
                     .num_types = 8,
                     .merges = {"a b"},
                     .id_key = KEY("eos_token_id"),
                     .id = 3,
                     .template = "x"};
  static const char *const parts[][2] = {
      /* "\u2026" is spelled in byte letters, and the padding is left out */
      {"vocab", "{\"  \":5,\"<s>\":3,\"a\":0,\"ab\":2,\"b\":1,\"\u00e2\u0122\u00a6\":4}"},
      {"merges", "[[\"a\",\"b\"]]"},
      {"added_tokens", "[{\"content\":\"<s>\",\"id\":3," ADDED_FLAGS
                       "\"special\":true},{\"content\":\"  \",\"id\":5," ADDED_FLAGS "\"special\":false}]"},
      {"pre_tokenizer",
       "{\"pretokenizers\":[{\"individual_digits\":true,\"type\":\"Digits\"}," BYTE_LEVEL "],\"type\":\"Sequence\"}"},
      {"decoder", BYTE_LEVEL},
      {"normalizer", "null"},
      {"post_processor", "null"},
      {"ignore_merges", "false"},
      {"byte_fallback", "false"},
  };
  check_files(&from, parts, COUNT(parts),
              "{\"add_bos_token\":false,\"add_eos_token\":false,\"chat_template\":\"x\"," CONFIG_END
              "\"eos_token\":\"<s>\"," CLASS);
}

/* llama.cpp puts bos before texts with the pre-tokenizer of Llama 3 unless the file says otherwise. */
static void test_llama3(void **state) {
  (void)state;
  const keys from = {.model = "gpt2",
                     .pre = "falcon3",
                     .tokens = {"a", "<s>"},
                     .types = {1, 3},
                     .num_types = 2,
                     .merges = {"! !"}, /* stands for an empty list */
                     .id_key = KEY("bos_token_id"),
                     .id = 1,
                     .template = "x",
                     .names = {"tool_use"}};
  static const char *const parts[][2] = {
      {"merges", "[]"},
      {"ignore_merges", "true"},
      {"post_processor",
       "{\"pair\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
       "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":1}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
       "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
       "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}},"
       "\"type\":\"TemplateProcessing\"}"},
  };
  check_files(&from, parts, COUNT(parts),
              "{\"add_bos_token\":true,\"add_eos_token\":false,\"bos_token\":\"<s>\",\"chat_template\":[{\"name\":"
              "\"default\",\"template\":\"x\"},{\"name\":\"tool_use\",\"template\":\"tools\"}]," CONFIG_END CLASS);
}

/* Merges come from scores: the highest first, of equal ones the token with the lower id, then the shorter left part. */
static void test_characters(void **state) {
  (void)state;
  const keys from = {.model = "llama",
                     .tokens = {"<unk>", "<s>", "</s>", "a", "aa", "aaa", "b", "ab"},
                     .types = {2, 3, 3, 1, 1, 1, 1, 1},
                     .num_types = 8,
                     .scores = {0, 0, 0, -9, -2, -2, -9, -1},
                     .num_scores = 8};
  static const char *const parts[][2] = {
      {"merges", "[[\"a\",\"b\"],[\"a\",\"a\"],[\"a\",\"aa\"],[\"aa\",\"a\"]]"},
      {"unk_token", "\"<unk>\""},
      {"fuse_unk", "true"},
      {"byte_fallback", "true"},
      {"pre_tokenizer", "null"},
      {"normalizer", "{\"normalizers\":[{\"prepend\":\"" MARK "\",\"type\":\"Prepend\"},{\"content\":\"" MARK
                     "\",\"pattern\":{\"String\":\" \"},\"type\":\"Replace\"}],\"type\":\"Sequence\"}"},
      {"decoder", "{\"decoders\":[{\"content\":\" \",\"pattern\":{\"String\":\"" MARK
                  "\"},\"type\":\"Replace\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"content\":\" \","
                  "\"start\":1,\"stop\":0,\"type\":\"Strip\"}],\"type\":\"Sequence\"}"},
  };
  check_files(&from, parts, COUNT(parts),
              "{\"add_bos_token\":true,\"add_eos_token\":false,\"bos_token\":\"<s>\"," CONFIG_END
              "\"eos_token\":\"</s>\",\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"unk_token\":\"<unk>\"}");
}

static const struct {
  keys from;
  tri_status status;
  const char *message;
} refused[] = {
    {{0}, TRI_UNSUPPORTED, "has no tokenizer: the key `tokenizer.ggml.model` is missing; give a folder"},
    {{.model = "bert"}, TRI_UNSUPPORTED, "`tokenizer.ggml.model` is `bert`; only the tokenizers `gpt2` and `llama`"},
    {{.model = "b\nt"}, TRI_UNSUPPORTED, "is `b?t`"},
    {{.model = "gpt2", .pre = "kimi-k2"},
     TRI_UNSUPPORTED,
     "`tokenizer.ggml.pre` is `kimi-k2`, a pre-tokenizer that is not supported; give a folder with the model's "
     "tokenizer.json: " TO_TOKENIZER},
    {{.model = "gpt2", .pre = "gpt-2"}, TRI_BAD_FILE, "has no key `tokenizer.ggml.tokens`"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}, .types = {1}, .num_types = 1},
     TRI_BAD_FILE,
     "key `tokenizer.ggml.token_type` has 1 elements, but `tokenizer.ggml.tokens` has 2"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}, .types = {1, 7}, .num_types = 2},
     TRI_BAD_FILE,
     "element 1 of key `tokenizer.ggml.token_type` is 7, and must be 1 to 6"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "\xff"}},
     TRI_BAD_FILE,
     "element 1 of key `tokenizer.ggml.tokens` is not UTF-8"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b", "a"}},
     TRI_BAD_FILE,
     "elements 0 and 2 of key `tokenizer.ggml.tokens` are the same"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}}, TRI_BAD_FILE, "has no key `tokenizer.ggml.merges`"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}, .merges = {"ab"}},
     TRI_BAD_FILE,
     "element 0 of key `tokenizer.ggml.merges` is not two tokens with a blank between them"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b", "ab"}, .merges = {"a b", "a c"}},
     TRI_BAD_FILE,
     "element 1 of key `tokenizer.ggml.merges` names a token that does not exist"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}, .merges = {"a b"}},
     TRI_BAD_FILE,
     "element 0 of key `tokenizer.ggml.merges` makes a token that does not exist"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a"}, .merges = {"! !"}, .id_key = KEY("eos_token_id"), .id = 1},
     TRI_BAD_FILE,
     "the value of key `tokenizer.ggml.eos_token_id` is 1, but the tokens are 0 to 0"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a"}, .merges = {"! !"}, .bool_key = KEY("add_bos_token")},
     TRI_BAD_FILE,
     "texts begin or end with the token of key `tokenizer.ggml.bos_token_id`, which is missing"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a"}, .merges = {"! !"}, .template = "\xff"},
     TRI_BAD_FILE,
     "the string of key `tokenizer.chat_template` is not UTF-8"},
    {{.model = "gpt2", .pre = "gpt-2", .tokens = {"a"}, .merges = {"! !"}, .template = "x", .names = {"other"}},
     TRI_BAD_FILE,
     "has no key `tokenizer.chat_template.other`"},
    {{.model = "llama", .tokens = {"a", "b"}, .scores = {0}, .num_scores = 1},
     TRI_BAD_FILE,
     "key `tokenizer.ggml.scores` has 1 elements, but `tokenizer.ggml.tokens` has 2"},
    {{.model = "llama", .tokens = {"a", "b", "c"}, .scores = {0, NAN, 0}, .num_scores = 3},
     TRI_BAD_FILE,
     "element 1 of key `tokenizer.ggml.scores` is not a number"},
};

static void test_refusals(void **state) {
  (void)state;
  const size_t held = tri_memory_bytes();
  for (size_t i = 0; i < COUNT(refused); i++) {
    tri_gguf_file file;
    char *json = NULL, *config = NULL;
    open_keys(&refused[i].from, &file);
    CHECK_FAILS(tri_llamacpp_tokenizer_json(&file, &json, &config), refused[i].status, refused[i].message);
    assert_true(strncmp(tri_status_message(), FILE_NAME, strlen(FILE_NAME)) == 0);
    tri_gguf_close(&file);
  }
  assert_int_equal(tri_memory_bytes(), held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_byte_level),
      cmocka_unit_test(test_llama3),
      cmocka_unit_test(test_characters),
      cmocka_unit_test(test_refusals),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  (void)tri_directory_remove(FOLDER);
  return failed;
}
