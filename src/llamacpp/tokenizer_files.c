#include "llamacpp/tokenizer_files.h"

#include "base/memory.h"
#include "files/file.h"
#include "llamacpp/gguf_tokens.h"
#include "llamacpp/pretokenizer_names.h"
#include "llamacpp/token_list.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPLATE "tokenizer.chat_template"
#define TEMPLATES "tokenizer.chat_templates"

static tri_status out_of_memory(const tri_gguf_file *file) {
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: making the tokenizer of %s", file->path);
}

/* ---- tokenizer.json: the model ----------------------------------------------------------------------------------- */

/* Makes a JSON string of a token. The functions below return NULL, too, if memory is exhausted. */
static json_t *token_json(const tri_llamacpp_vocabulary *from, int32_t id) {
  const tri_token *token = &from->tokens.tokens[id];
  return json_stringn_nocheck(from->tokens.pool + token->offset, token->bytes);
}

static json_t *vocab_json(const tri_llamacpp_vocabulary *from) {
  json_t *object = json_object();
  int failed = 0;
  for (int32_t id = 0; id < (int32_t)from->tokens.size && failed == 0; id++) {
    json_t *text = token_json(from, id);
    failed = text == NULL ? -1 : json_object_set_new_nocheck(object, json_string_value(text), json_integer(id));
    json_decref(text);
  }
  if (failed == 0) return object;
  json_decref(object);
  return NULL;
}

static json_t *merges_json(const tri_llamacpp_vocabulary *from) {
  json_t *list = json_array();
  int failed = 0;
  for (int64_t i = 0; i < from->tokens.merge_count && failed == 0; i++) {
    const tri_merge merge = from->tokens.merges[i];
    failed =
        json_array_append_new(list, json_pack("[o, o]", token_json(from, merge.left), token_json(from, merge.right)));
  }
  if (failed == 0) return list;
  json_decref(list);
  return NULL;
}

static json_t *model_json(const tri_llamacpp_vocabulary *from) {
  const bool ignore = from->pretokenizer != NULL && from->pretokenizer->ignore_merges;
  const int32_t unknown = from->characters ? from->named[TRI_LLAMACPP_UNK] : -1;
  return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                   unknown < 0 ? json_null() : token_json(from, unknown), "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", (int)from->characters, "byte_fallback", (int)from->characters,
                   "ignore_merges", (int)ignore, "vocab", vocab_json(from), "merges", merges_json(from));
}

/* Makes the list of tokens that are found in texts before BPE. */
static json_t *added_json(const tri_llamacpp_vocabulary *from) {
  json_t *list = json_array();
  int failed = 0;
  for (int32_t id = 0; id < (int32_t)from->tokens.size && failed == 0; id++) {
    const bool special = from->tokens.tokens[id].special;
    if (!special && from->types[id] != TRI_LLAMACPP_USER_DEFINED) continue;
    failed = json_array_append_new(
        list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", token_json(from, id),
                        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", (int)special));
  }
  if (failed == 0) return list;
  json_decref(list);
  return NULL;
}

/* ---- tokenizer.json: the steps ----------------------------------------------------------------------------------- */

static json_t *byte_level_json(void) {
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                   1);
}

static json_t *replace_json(const char *what, const char *with) {
  return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", what, "content", with);
}

#define MARK "\u2581" /* a space in the tokens of SentencePiece */

static json_t *normalizer_json(bool space_prefix) {
  json_t *replace = replace_json(" ", MARK);
  if (!space_prefix) return replace;
  return json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type", "Prepend", "prepend", MARK,
                   replace);
}

static json_t *decoder_json(bool space_prefix) {
  json_t *steps = json_pack("[o, {s:s}, {s:s}]", replace_json(MARK, " "), "type", "ByteFallback", "type", "Fuse");
  if (space_prefix && json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                                             "start", 1, "stop", 0)) != 0) {
    json_decref(steps);
    return NULL;
  }
  return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

/* Appends a part of a template: the token, or the text `sequence` if `id` is -1. */
static int append_part(json_t *parts, const tri_llamacpp_vocabulary *from, int32_t id, const char *sequence, int type) {
  return json_array_append_new(
      parts, id < 0 ? json_pack("{s:{s:s, s:i}}", "Sequence", "id", sequence, "type_id", type)
                    : json_pack("{s:{s:o, s:i}}", "SpecialToken", "id", token_json(from, id), "type_id", type));
}

static int append_parts(json_t *parts, const tri_llamacpp_vocabulary *from, const char *sequence, int type) {
  int failed = 0;
  if (from->add_bos) failed |= append_part(parts, from, from->named[TRI_LLAMACPP_BOS], NULL, type);
  failed |= append_part(parts, from, -1, sequence, type);
  if (from->add_eos) failed |= append_part(parts, from, from->named[TRI_LLAMACPP_EOS], NULL, type);
  return failed;
}

/* Adds an entry to the "special_tokens" of a template: {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}. */
static int name_special(json_t *tokens, const tri_llamacpp_vocabulary *from, int32_t id) {
  json_t *text = token_json(from, id);
  const int failed = text == NULL ? -1
                                  : json_object_set_new_nocheck(
                                        tokens, json_string_value(text),
                                        json_pack("{s:O, s:[i], s:[O]}", "id", text, "ids", (int)id, "tokens", text));
  json_decref(text);
  return failed;
}

/* Makes the post-processor that puts bos before texts and eos after them; null if there is no such token. */
static json_t *template_json(const tri_llamacpp_vocabulary *from) {
  if (!from->add_bos && !from->add_eos) return json_null();
  json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
  int failed = append_parts(single, from, "A", 0) | append_parts(pair, from, "A", 0) | append_parts(pair, from, "B", 1);
  if (from->add_bos) failed |= name_special(tokens, from, from->named[TRI_LLAMACPP_BOS]);
  if (from->add_eos) failed |= name_special(tokens, from, from->named[TRI_LLAMACPP_EOS]);
  json_t *out = failed != 0 ? NULL
                            : json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single", single, "pair",
                                        pair, "special_tokens", tokens);
  json_decref(single);
  json_decref(pair);
  json_decref(tokens);
  return out;
}

static json_t *tokenizer_json(const tri_llamacpp_vocabulary *from) {
  const bool characters = from->characters;
  return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                   "added_tokens", added_json(from), "normalizer",
                   characters ? normalizer_json(from->space_prefix) : json_null(), "pre_tokenizer",
                   characters ? json_null() : tri_llamacpp_pretokenizer_json(from->pretokenizer), "post_processor",
                   template_json(from), "decoder", characters ? decoder_json(from->space_prefix) : byte_level_json(),
                   "model", model_json(from));
}

/* ---- tokenizer_config.json --------------------------------------------------------------------------------------- */

/* Returns whether tokenizer_config.json names a token with a key of its own. transformers makes these tokens special,
 * which changes ids if the file calls a token of texts ("!") the padding. */
static bool is_named(const tri_llamacpp_vocabulary *from, int role) {
  const int32_t id = from->named[role];
  if (id < 0 || id >= from->tokens.size) return false;
  return from->tokens.tokens[id].special || from->types[id] == TRI_LLAMACPP_USER_DEFINED;
}

/* Reads a chat template as a new JSON string. */
static tri_status read_template(const tri_gguf_file *file, const char *key, json_t **out) {
  const char *text = NULL;
  TRI_TRY(tri_gguf_get_string(file, key, &text));
  const size_t bytes = strlen(text);
  if (tri_utf8_valid_bytes(text, bytes) != bytes) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: the string of key `%s` is not UTF-8; the file is damaged, convert the model again", file->path,
                    key);
  }
  *out = json_stringn_nocheck(text, bytes);
  return *out == NULL ? out_of_memory(file) : TRI_OK;
}

/* Appends {"name", "template"}; `text` is released in any case. */
static tri_status append_named(const tri_gguf_file *file, json_t *list, const char *name, json_t *text) {
  json_t *entry = json_pack("{s:s, s:o}", "name", name, "template", text);
  return json_array_append_new(list, entry) == 0 ? TRI_OK : out_of_memory(file);
}

/* Appends the template with a name of TEMPLATES, whose key is TEMPLATE.NAME. */
static tri_status append_other(const tri_gguf_file *file, json_t *list, int64_t index, tri_gguf_text name) {
  enum { MOST_BYTES = 64 };
  char key[sizeof TEMPLATE "." + MOST_BYTES];
  json_t *text = NULL;
  const bool plain = name.bytes <= MOST_BYTES && memchr(name.text, '\0', name.bytes) == NULL &&
                     tri_utf8_valid_bytes(name.text, name.bytes) == name.bytes;
  if (!plain) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: element %" PRId64 " of key `" TEMPLATES
                    "` is not a name of at most %d bytes of UTF-8; "
                    "convert the model again",
                    file->path, index, MOST_BYTES);
  }
  snprintf(key, sizeof key, TEMPLATE ".%.*s", (int)name.bytes, name.text);
  TRI_TRY(read_template(file, key, &text));
  return append_named(file, list, key + strlen(TEMPLATE "."), text);
}

static tri_status append_others(const tri_gguf_file *file, json_t *list) {
  tri_gguf_text *names = NULL;
  int64_t count = 0;
  TRI_TRY(tri_gguf_get_strings(file, TEMPLATES, &names, &count));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < count && status == TRI_OK; i++) status = append_other(file, list, i, names[i]);
  tri_free(names);
  return status;
}

/* Makes the chat template of a file: a string; with further ones a list, which begins with "default"; NULL if the file
 * has no template without a name. */
static tri_status read_templates(const tri_gguf_file *file, json_t **out) {
  json_t *text = NULL;
  *out = NULL;
  if (tri_gguf_find_key(file, TEMPLATE) == NULL) return TRI_OK;
  TRI_TRY(read_template(file, TEMPLATE, &text));
  if (tri_gguf_find_key(file, TEMPLATES) == NULL) {
    *out = text;
    return TRI_OK;
  }
  json_t *list = json_array();
  tri_status status = append_named(file, list, "default", text);
  if (status == TRI_OK) status = append_others(file, list);
  if (status == TRI_OK) *out = json_incref(list);
  json_decref(list);
  return status;
}

static tri_status config_json(const tri_llamacpp_vocabulary *from, json_t **out) {
  json_t *template = NULL;
  TRI_TRY(read_templates(from->file, &template));
  json_t *config =
      json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0,
                "add_bos_token", (int)from->add_bos, "add_eos_token", (int)from->add_eos);
  int failed = config == NULL;
  for (int i = 0; i < TRI_LLAMACPP_NAMED_TOKENS && failed == 0; i++) {
    if (!is_named(from, i)) continue;
    failed = json_object_set_new(config, tri_llamacpp_named_tokens[i].name, token_json(from, from->named[i]));
  }
  if (failed == 0 && template != NULL) failed = json_object_set(config, "chat_template", template);
  json_decref(template);
  *out = config;
  return failed == 0 ? TRI_OK : out_of_memory(from->file);
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

/* Sets *out to the text of a document, which is released. */
static tri_status dump(const tri_gguf_file *file, json_t *document, size_t flags, char **out) {
  *out = document == NULL ? NULL : json_dumps(document, flags);
  json_decref(document);
  return *out == NULL ? out_of_memory(file) : TRI_OK;
}

static tri_status make_texts(const tri_llamacpp_vocabulary *from, char **json, char **config) {
  json_t *document = NULL;
  const tri_status status = config_json(from, &document);
  if (status != TRI_OK) {
    json_decref(document);
    return status;
  }
  TRI_TRY(dump(from->file, document, JSON_INDENT(2), config));
  return dump(from->file, tokenizer_json(from), JSON_COMPACT, json);
}

tri_status tri_llamacpp_tokenizer_json(const tri_gguf_file *file, char **json, char **config) {
  tri_llamacpp_vocabulary vocabulary;
  char *json_text = NULL, *config_text = NULL;
  tri_status status = tri_llamacpp_read_vocabulary(file, &vocabulary);
  if (status == TRI_OK) status = make_texts(&vocabulary, &json_text, &config_text);
  tri_llamacpp_vocabulary_release(&vocabulary);
  if (status == TRI_OK) {
    *json = json_text;
    *config = config_text;
  } else {
    free(json_text);
    free(config_text);
  }
  return status;
}

static tri_status write_text(const char *folder, const char *name, const char *text) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, name));
  return tri_file_replace(path, text, strlen(text));
}

tri_status tri_llamacpp_write_tokenizer(const tri_gguf_file *file, const char *folder) {
  char *json = NULL, *config = NULL;
  TRI_TRY(tri_llamacpp_tokenizer_json(file, &json, &config));
  tri_status status = write_text(folder, "tokenizer.json", json);
  if (status == TRI_OK) status = write_text(folder, "tokenizer_config.json", config);
  free(json);
  free(config);
  return status;
}
