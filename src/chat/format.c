/* Finds the chat template. It is the preset or the file that --chat-template names, if there is one. Otherwise the
 * tokenizer's folder is searched as in transformers: chat_template.jinja with additional_chat_templates/NAME.jinja,
 * else "chat_template" of tokenizer_config.json, which is a string, a list of named templates, or an object of them.
 * Among named templates, "default" is used, and "tool_use" for conversations with tools. */
#include "chat/format.h"

#include "base/memory.h"
#include "chat/json_value.h"
#include "config/template_preset.h"
#include "files/file.h"
#include "files/file_kind.h"
#include "files/json_reader.h"
#include "tokenizer/folder.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { LARGEST_BYTES = 16 << 20, MOST_VARIABLES = 256, VALUE_BYTES = 256 << 20 };

static tri_status set_variable(tri_chat_format *format, tri_chat_value name, tri_chat_value value) {
  for (int32_t i = 0; i < format->num_variables; i++) {
    tri_chat_value *known = &format->variables[2 * i];
    if (known->bytes != name.bytes || memcmp(known->text, name.text, name.bytes) != 0) continue;
    known[1] = value;
    return TRI_OK;
  }
  if (format->num_variables == MOST_VARIABLES) {
    return tri_fail(TRI_BAD_USAGE, "a chat template takes at most %d variables", MOST_VARIABLES);
  }
  format->variables[2 * format->num_variables] = name;
  format->variables[2 * format->num_variables + 1] = value;
  format->num_variables++;
  return TRI_OK;
}

static tri_status copy_text(tri_chat_format *format, const char *text, tri_chat_value *out) {
  return tri_chat_copy(&format->arena, text, strlen(text), out);
}

/* ---- the tokenizer's files --------------------------------------------------------------------------------------- */

/* Finds the folder of the tokenizer; "" if it has none ("bytes"). */
static void find_folder(const char *tokenizer, char out[TRI_PATH_BYTES]) {
  out[0] = '\0';
  if (tokenizer == NULL) return;
  if (strncmp(tokenizer, "gpt2:", 5) == 0) tokenizer += 5;
  const char *slash = strrchr(tokenizer, '/');
  if (tri_path_is_directory(tokenizer)) {
    snprintf(out, TRI_PATH_BYTES, "%s", tokenizer);
  } else if (tri_path_exists(tokenizer)) {
    snprintf(out, TRI_PATH_BYTES, "%.*s", slash == NULL ? 1 : (int)(slash - tokenizer),
             slash == NULL ? "." : tokenizer);
  }
}

static tri_status load_json(const char *path, json_t **out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, LARGEST_BYTES, &text, &bytes));
  /* model_max_length may be 10^30, which is not an integer of 64 bits. */
  const tri_status status = tri_json_parse(path, text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, out);
  tri_free(text);
  return status;
}

/* State of reading the variables of named tokens. It keeps the first failure. */
typedef struct token_reader {
  tri_chat_format *format;
  tri_status status;
} token_reader;

static tri_status set_token(tri_chat_format *format, const char *key, const char *text) {
  tri_chat_value name, token;
  TRI_TRY(copy_text(format, key, &name));
  TRI_TRY(copy_text(format, text, &token));
  TRI_TRY(set_variable(format, name, token));
  if (strcmp(key, "eos_token") == 0) format->end = token;
  return TRI_OK;
}

/* A tri_named_token_visit. */
static void visit_token(void *context, const char *key, const char *token) {
  token_reader *reader = context;
  if (reader->status == TRI_OK) reader->status = set_token(reader->format, key, token);
}

static tri_status compile(const char *where, const json_t *text, tri_chat_template **out) {
  return tri_chat_template_compile(where, json_string_value(text), json_string_length(text), out);
}

/* Compiles the first templates named `default` and `tool_use` in a list of {"name", "template"}. Fails with
 * TRI_BAD_FILE if there is no `default`. */
static tri_status read_named(tri_chat_format *format, const char *path, const json_t *list) {
  char where[TRI_PATH_BYTES + 64], names[256] = "";
  size_t held = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *entry = json_array_get(list, i), *text = json_object_get(entry, "template");
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (name == NULL || !json_is_string(text)) {
      return tri_fail(TRI_BAD_FILE, "%s: entry %zu of \"chat_template\" lacks \"name\" or \"template\", two strings",
                      path, i);
    }
    snprintf(where, sizeof where, "%s, chat_template `%.30s`,", path, name);
    bool plain = strcmp(name, "default") == 0, tools = strcmp(name, "tool_use") == 0;
    if (plain && format->template == NULL) TRI_TRY(compile(where, text, &format->template));
    if (tools && format->tools_template == NULL) TRI_TRY(compile(where, text, &format->tools_template));
    if (held + 40 < sizeof names) held += (size_t)snprintf(names + held, sizeof names - held, " %.30s", name);
  }
  if (format->template != NULL) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: \"chat_template\" is a list of named templates (%s ), and none of them is named default; write "
                  "the template to use to a file and give it with --chat-template",
                  path, names);
}

/* Converts {"default": "...", "tool_use": "..."} to a list of {"name", "template"}. */
static json_t *list_of(const json_t *named) {
  json_t *list = json_array(), *text = NULL;
  const char *name = NULL;
  json_object_foreach((json_t *)(uintptr_t)named, name, text) {
    json_array_append_new(list, json_pack("{s:s, s:O}", "name", name, "template", text));
  }
  return list;
}

static tri_status read_config(tri_chat_format *format, const char *folder) {
  char path[TRI_PATH_BYTES], where[TRI_PATH_BYTES + 32];
  json_t *config = NULL;
  TRI_TRY(tri_path_join(path, folder, "tokenizer_config.json"));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(load_json(path, &config));
  const json_t *text = json_object_get(config, "chat_template");
  tri_status status = TRI_OK;
  if (json_is_string(text)) {
    snprintf(where, sizeof where, "%s, chat_template,", path);
    status = compile(where, text, &format->template);
  } else if (json_is_array(text)) {
    status = read_named(format, path, text);
  } else if (json_is_object(text)) {
    json_t *list = list_of(text);
    status = read_named(format, path, list);
    json_decref(list);
  }
  json_decref(config);
  return status;
}

/* Reads a template from a file; `name` is for messages. */
static tri_status read_file(const char *path, const char *name, tri_chat_template **out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_file_read_plain(path, LARGEST_BYTES, &text, &bytes));
  const char *begin = text;
  tri_status status = tri_text_begin(path, "a chat template", &begin, &bytes);
  if (status == TRI_OK) status = tri_chat_template_compile(name, begin, bytes, out);
  tri_free(text);
  return status;
}

/* Reads the template of a folder's files: the named template "default", if it exists, else chat_template.jinja; and the
 * named template for conversations with tools. */
static tri_status read_files(tri_chat_format *format, const char *folder) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, "additional_chat_templates/default.jinja"));
  if (!tri_path_exists(path)) TRI_TRY(tri_path_join(path, folder, "chat_template.jinja"));
  if (tri_path_exists(path)) TRI_TRY(read_file(path, path, &format->template));
  TRI_TRY(tri_path_join(path, folder, "additional_chat_templates/tool_use.jinja"));
  return tri_path_exists(path) ? read_file(path, path, &format->tools_template) : TRI_OK;
}

/* Fails with TRI_UNSUPPORTED if split_special_tokens is true, with which transformers tokenizes the special tokens of a
 * template as text. */
static tri_status check_split(const char *folder) {
  char path[TRI_PATH_BYTES];
  json_t *config = NULL;
  TRI_TRY(tri_path_join(path, folder, "tokenizer_config.json"));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(load_json(path, &config));
  const bool split = json_is_true(json_object_get(config, "split_special_tokens"));
  json_decref(config);
  if (!split) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: \"split_special_tokens\" is true, so special tokens of a template would be encoded as plain "
                  "text, which is not supported; set it to false",
                  path);
}

static tri_status read_template(tri_chat_format *format, const tri_chat_format_options *options) {
  char folder[TRI_PATH_BYTES], file[TRI_PATH_BYTES];
  token_reader reader = {format, TRI_OK};
  bool none = options->file != NULL && strcmp(options->file, "none") == 0;
  find_folder(options->tokenizer, folder);
  if (options->file != NULL && !none) {
    TRI_TRY(tri_template_preset_find(options->file, file, &format->is_preset));
    TRI_TRY(read_file(file, options->file, &format->template));
  }
  if (folder[0] != '\0') {
    TRI_TRY(tri_folder_named_tokens(folder, visit_token, &reader));
    TRI_TRY(reader.status);
    TRI_TRY(check_split(folder));
    if (options->file == NULL) TRI_TRY(read_files(format, folder));
    if (options->file == NULL && format->template == NULL) TRI_TRY(read_config(format, folder));
  }
  if (format->template != NULL || none || options->optional) return TRI_OK;
  if (options->of_run_file) {
    return tri_fail(TRI_BAD_FILE,
                    "there is no chat template: %s has neither chat_template.jinja nor \"chat_template\" in "
                    "tokenizer_config.json; write the prompts as texts, or put a chat_template.jinja into that folder",
                    folder[0] == '\0' ? options->tokenizer : folder);
  }
  return tri_fail(TRI_BAD_FILE,
                  "there is no chat template: %s%s has neither chat_template.jinja nor \"chat_template\" in "
                  "tokenizer_config.json; give a name or a file with --chat-template (trireme help templates)%s",
                  folder[0] == '\0' ? "the tokenizer " : "", folder[0] == '\0' ? options->tokenizer : folder,
                  options->asked ? "" : ", or `--chat-template none` where prompt and completion are plain text");
}

/* ---- variables of the user --------------------------------------------------------------------------------------- */

/* Copies the strings of a value of a JSON tree to the arena, so that the value no longer needs the tree. */
static tri_status copy_value(tri_chat_format *format, tri_chat_value value, tri_chat_value *out) {
  *out = value;
  if (value.kind == TRI_CHAT_STRING) return tri_chat_copy(&format->arena, value.text, value.bytes, out);
  for (int64_t i = 0; value.kind == TRI_CHAT_LIST && i < value.list->count; i++) {
    TRI_TRY(copy_value(format, value.list->items[i], &value.list->items[i]));
  }
  for (int64_t i = 0; value.kind == TRI_CHAT_DICT && i < value.dict->count; i++) {
    TRI_TRY(copy_value(format, value.dict->entries[i].key, &value.dict->entries[i].key));
    TRI_TRY(copy_value(format, value.dict->entries[i].value, &value.dict->entries[i].value));
  }
  return TRI_OK;
}

static tri_status set_by_hand(tri_chat_format *format, const char *text) {
  const char *equals = strchr(text, '=');
  tri_chat_value name, value;
  json_error_t error;
  if (equals == NULL || equals == text) {
    return tri_fail(TRI_BAD_USAGE, "--chat-set needs NAME=VALUE, such as enable_thinking=false, not `%s`", text);
  }
  TRI_TRY(tri_chat_copy(&format->arena, text, (size_t)(equals - text), &name));
  json_t *json = json_loads(equals + 1, JSON_DECODE_ANY, &error);
  tri_status status = json == NULL ? copy_text(format, equals + 1, &value) : TRI_OK;
  if (json != NULL) status = tri_chat_of_json(&format->arena, json, &value);
  if (status == TRI_OK && json != NULL) status = copy_value(format, value, &value);
  json_decref(json);
  return status == TRI_OK ? set_variable(format, name, value) : status;
}

tri_status tri_chat_format_create(const tri_chat_format_options *options, tri_chat_format *out) {
  *out = (tri_chat_format){
      .arena = {.limit = VALUE_BYTES}, .now = time(NULL), .end = tri_chat_string("", 0), .key_map = options->key_map};
  TRI_TRY(tri_chat_arena_alloc(&out->arena, 2 * (size_t)MOST_VARIABLES, sizeof *out->variables, &out->variables));
  if (options->end != NULL) TRI_TRY(copy_text(out, options->end, &out->end));
  TRI_TRY(read_template(out, options));
  for (int i = 0; i < options->num_set; i++) TRI_TRY(set_by_hand(out, options->set[i]));
  return TRI_OK;
}

static json_t *source_of(const tri_chat_template *template) {
  size_t bytes = 0;
  const char *source = tri_chat_template_source(template, &bytes);
  return json_stringn(source, bytes);
}

json_t *tri_chat_format_json(const tri_chat_format *format) {
  if (format->template == NULL) return NULL;
  if (format->tools_template == NULL) return source_of(format->template);
  return json_pack("[{s:s, s:o}, {s:s, s:o}]", "name", "default", "template", source_of(format->template), "name",
                   "tool_use", "template", source_of(format->tools_template));
}

void tri_chat_format_release(tri_chat_format *format) {
  tri_chat_template_destroy(format->template);
  tri_chat_template_destroy(format->tools_template);
  tri_chat_arena_release(&format->arena);
  *format = (tri_chat_format){0};
}
