/* vocab.json with merges.txt, the two files of a byte-level tokenizer of transformers before tokenizer.json: they
 * are composed to the document of a tokenizer.json, which is then read as usual. The parts that the class of the
 * tokenizer determines (the pattern, the normalizer, the token that ends a text) follow transformers'
 * convert_slow_tokenizer.py. */
#include "tokenizer/tokenizer_internal.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"
#include "files/json_reader.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_FILE_BYTES = 256 << 20, LONGEST_CONFIG_BYTES = 64 << 20 };

#define QWEN2_PATTERN                                                                                                  \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"    \
  "\\s+(?!\\S)|\\s+"

/* A class, by its name without "Fast". pattern: its own pattern; NULL: GPT-2's. All classes end a text with
 * <|endoftext|>. */
typedef struct tokenizer_class {
  const char *name, *pattern;
  bool composes; /* whether texts are normalized to NFC */
} tokenizer_class;
static const tokenizer_class classes[] = {
    {"GPT2Tokenizer", NULL, false}, {"CodeGenTokenizer", NULL, false}, {"Qwen2Tokenizer", QWEN2_PATTERN, true}};

static tri_status find_class(const char *folder, const json_t *config, const tokenizer_class **out) {
  static const char fast[] = "Fast";
  const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
  *out = &classes[0];
  if (name == NULL) return TRI_OK;
  size_t length = strlen(name);
  if (length > sizeof fast - 1 && strcmp(name + length - (sizeof fast - 1), fast) == 0) length -= sizeof fast - 1;
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
    *out = &classes[i];
    if (strlen(classes[i].name) == length && strncmp(classes[i].name, name, length) == 0) return TRI_OK;
  }
  return tri_fail(
      TRI_UNSUPPORTED,
      "%s: vocab.json and merges.txt of a %.100s are not read; transformers makes a tokenizer.json of them: "
      "AutoTokenizer.from_pretrained(\"%s\").save_pretrained(\"%s\")",
      folder, name, folder, folder);
}

/* Loads tokenizer_config.json; *out NULL: the folder does not have it. */
static tri_status load_config(const char *folder, json_t **out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  *out = NULL;
  TRI_TRY(tri_path_join(path, folder, "tokenizer_config.json"));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, LONGEST_CONFIG_BYTES, &text, &bytes));
  tri_status status = tri_json_parse(path, text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, out);
  tri_free(text);
  return status;
}

/* Loads the merges: one per line, except a first line with the version. Fails with TRI_BAD_FILE if a line is not
 * UTF-8. */
static tri_status load_merges(const char *folder, json_t *list) {
  static const char version[] = "#version";
  char path[TRI_PATH_BYTES], *memory = NULL;
  const char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, "merges.txt"));
  TRI_TRY(tri_file_read_plain(path, LONGEST_FILE_BYTES, &memory, &bytes));
  text = memory;
  tri_status status = tri_text_begin(path, "merges", &text, &bytes);
  for (size_t at = 0, number = 0; status == TRI_OK && at < bytes; number++) {
    const char *line = text + at, *end = memchr(line, '\n', bytes - at);
    size_t length = end != NULL ? (size_t)(end - line) : bytes - at;
    at += length + 1;
    if (length > 0 && line[length - 1] == '\r') length--;
    if (length == 0) continue;
    if (number == 0 && length >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0) continue;
    if (json_array_append_new(list, json_stringn(line, length)) != 0) {
      status = tri_fail(TRI_BAD_FILE, "%s line %zu is not UTF-8", path, number + 1);
    }
  }
  tri_free(memory);
  return status;
}

static tri_status load_vocab(const char *path, json_t **out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, LONGEST_FILE_BYTES, &text, &bytes));
  tri_status status = tri_tokenizer_load_json(path, text, bytes, out);
  tri_free(text);
  return status;
}

static json_t *stages(const tokenizer_class *of, bool prefix_space) {
  json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", (int)prefix_space,
                            "trim_offsets", 1, "use_regex", of->pattern == NULL);
  if (of->pattern == NULL) return bytes;
  return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                   "pattern", "Regex", of->pattern, "behavior", "Isolated", "invert", 0, bytes);
}

/* Returns the post-processor. If `add_bos_token` is set, it begins texts with the config's bos_token, such as `</s>`
 * for OPT. Without a bos_token this is <|endoftext|>, except for Qwen2Tokenizer, which has no default. */
static json_t *processor(const tokenizer_class *of, const json_t *config, const json_t *vocab) {
  const json_t *named = json_object_get(config, "bos_token"), *content = json_object_get(named, "content");
  const char *token = json_string_value(content == NULL ? named : content);
  if (token == NULL && named == NULL && !of->composes) token = "<|endoftext|>";
  const json_t *id = token == NULL ? NULL : json_object_get(vocab, token);
  if (!json_is_true(json_object_get(config, "add_bos_token")) || !json_is_integer(id)) return json_null();
  return json_pack(
      "{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}], "
      "s:{s:{s:s, s:[I], s:[s]}}}",
      "type", "TemplateProcessing", "single", "SpecialToken", "id", token, "type_id", 0, "Sequence", "id", "A",
      "type_id", 0, "pair", "SpecialToken", "id", token, "type_id", 0, "Sequence", "id", "A", "type_id", 0, "Sequence",
      "id", "B", "type_id", 1, "special_tokens", token, "id", token, "ids", json_integer_value(id), "tokens", token);
}

/* Composes the document; takes ownership of vocab and merges. */
static json_t *compose(const tokenizer_class *of, const json_t *config, json_t *vocab, json_t *merges) {
  static const char end[] = "<|endoftext|>";
  const json_t *id = json_object_get(vocab, end);
  json_t *added = json_array(), *post_processor = processor(of, config, vocab);
  if (json_is_integer(id)) {
    json_array_append_new(added,
                          json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", json_integer_value(id), "content", end,
                                    "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
  }
  json_t *model =
      json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "vocab", vocab, "merges", merges);
  return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:{s:s, s:b, s:b, s:b}, s:o}", "version", "1.0", "truncation",
                   "padding", "added_tokens", added, "normalizer",
                   of->composes ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                   stages(of, json_is_true(json_object_get(config, "add_prefix_space"))), "post_processor",
                   post_processor, "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1,
                   "use_regex", 1, "model", model);
}

tri_status tri_tokenizer_compose_json(const char *folder, const char *vocab_file, char **out) {
  json_t *config = NULL, *vocab = NULL, *merges = json_array(), *root = NULL;
  const tokenizer_class *of = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(load_config(folder, &config), release);
  TRI_TRY_GOTO(find_class(folder, config, &of), release);
  TRI_TRY_GOTO(load_vocab(vocab_file, &vocab), release);
  TRI_TRY_GOTO(load_merges(folder, merges), release);
  root = compose(of, config, vocab, merges);
  vocab = merges = NULL;
  *out = root == NULL ? NULL : json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
  if (*out == NULL) status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the tokenizer of %s", folder);
release:
  json_decref(root);
  json_decref(merges);
  json_decref(vocab);
  json_decref(config);
  return status;
}
