#include "llamacpp/vocabulary.h"

#include "base/log.h"
#include "base/memory.h"
#include "chat/format.h"
#include "files/json_reader.h"
#include "llamacpp/pretokenizers.h"
#include "llamacpp/special_tokens.h"
#include "llamacpp/token_list.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* A tokenizer and its document. */
typedef struct source {
  const char *path, *folder; /* as the arguments of tri_llamacpp_add_vocabulary */
  tri_tokenizer *tokenizer;
  json_t *root;        /* the tokenizer.json, with the tokens of the other files of its folder */
  const json_t *model; /* its member, owned by root */
  bool byte_level, ignore_merges;
} source;

static void source_close(source *from) {
  json_decref(from->root);
  tri_tokenizer_destroy(from->tokenizer);
}

/* Returns whether a pre_tokenizer has a ByteLevel. */
static bool has_byte_level(const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  const json_t *list = json_object_get(object, "pretokenizers");
  if (type != NULL && strcmp(type, "ByteLevel") == 0) return true;
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (has_byte_level(json_array_get(list, i))) return true;
  }
  return false;
}

static tri_status source_open(source *from) {
  size_t bytes = 0;
  TRI_TRY(tri_tokenizer_create(from->path, &from->tokenizer));
  if (from->folder != NULL) TRI_TRY(tri_tokenizer_find_ends(from->tokenizer, from->folder));
  const char *text = tri_tokenizer_json(from->tokenizer, &bytes);
  if (text == NULL) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "the tokenizer %s is not a tokenizer.json with a BPE model, and llama.cpp has no place for it; "
        "train with a tokenizer.json (trireme prepare --tokenizer train:VOCAB makes one) to export the model",
        from->path);
  }
  TRI_TRY(tri_json_parse(from->path, text, bytes, 0, &from->root));
  from->model = json_object_get(from->root, "model");
  from->byte_level = has_byte_level(json_object_get(from->root, "pre_tokenizer"));
  const tri_json_reader reader = {from->path, from->model};
  return tri_reader_bool(&reader, "ignore_merges", false, &from->ignore_merges);
}

/* ---- byte-level vocabularies ------------------------------------------------------------------------------------- */

/* Returns the pre_tokenizer as a new object. Without merges, texts may be cut anywhere, so that a ByteLevel alone gets
 * GPT-2's regular expression, for which llama.cpp has a name. */
static json_t *pretokenizer_of(const source *from) {
  json_t *object = json_copy(json_object_get(from->root, "pre_tokenizer"));
  if (json_array_size(json_object_get(from->model, "merges")) == 0 && json_object_get(object, "use_regex") != NULL) {
    json_object_set_new(object, "use_regex", json_true());
  }
  return object;
}

static tri_status choose_pretokenizer(const source *from, const tri_llamacpp_tokens *tokens,
                                      const tri_llamacpp_pretokenizer **out) {
  char why[160];
  json_t *object = pretokenizer_of(from);
  const tri_status status = tri_llamacpp_find_pretokenizer(from->path, object, from->ignore_merges, out);
  json_decref(object);
  TRI_TRY(status);
  if ((*out)->differs) {
    tri_log("%s: llama.cpp cuts a few texts differently with its pre-tokenizer %s", from->path, (*out)->name);
  }
  if ((*out)->ignore_merges == from->ignore_merges) return TRI_OK;
  snprintf(why, sizeof why, "ignore_merges is %s, but %s in llama.cpp's pre-tokenizer %s",
           from->ignore_merges ? "true" : "false", from->ignore_merges ? "false" : "true", (*out)->name);
  return tri_llamacpp_tokens_all_made(tokens, why);
}

/* Fails if a byte has no token and there is an unk_token, which llama.cpp lacks in byte-level vocabularies. */
static tri_status check_bytes(const source *from) {
  if (tri_tokenizer_unknown(from->tokenizer) < 0) return TRI_OK;
  for (int byte = 0; byte < 256; byte++) {
    char letter[5] = {0};
    tri_utf8_encode(tri_byte_letter((uint8_t)byte), letter);
    if (json_object_get(json_object_get(from->model, "vocab"), letter) != NULL) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the byte 0x%02X has no token and becomes the unk_token, which llama.cpp leaves out instead; "
                    "train with a vocabulary that has all bytes",
                    from->path, (unsigned)byte);
  }
  return TRI_OK;
}

/* Returns the text of a merge, "left right", as a new JSON string. */
static json_t *merge_line(const json_t *entry) {
  if (json_is_string(entry)) return json_incref((json_t *)(uintptr_t)entry);
  return json_sprintf("%s %s", json_string_value(json_array_get(entry, 0)),
                      json_string_value(json_array_get(entry, 1)));
}

/* Makes the list of merges. A repeated merge counts at its last position, and at its first in llama.cpp, so that only
 * its last one is kept. A file without merges, which llama.cpp refuses, gets one of two ASCII letters that together are
 * not a token: llama.cpp cuts its result into bytes again. */
static json_t *merge_lines(const source *from) {
  const json_t *list = json_object_get(from->model, "merges"), *vocab = json_object_get(from->model, "vocab");
  json_t *lines = json_array(), *seen = json_object();
  for (size_t i = json_array_size(list); i-- > 0;) {
    json_t *line = merge_line(json_array_get(list, i));
    const char *text = json_string_value(line);
    if (json_object_get(seen, text) == NULL) json_array_append(lines, line);
    json_object_set_new(seen, text, json_true());
    json_decref(line);
  }
  for (char letter = '!'; letter <= '~' && json_array_size(lines) == 0; letter++) {
    const char twice[] = {letter, letter, '\0'}, merge[] = {letter, ' ', letter, '\0'};
    if (json_object_get(vocab, twice) == NULL) json_array_append_new(lines, json_string(merge));
  }
  json_decref(seen);
  return lines; /* in reverse order */
}

static tri_status add_merges(tri_gguf_header *header, const source *from) {
  json_t *lines = merge_lines(from);
  const size_t count = json_array_size(lines);
  tri_gguf_text *texts = NULL;
  tri_status status = tri_alloc("the merges of a GGUF file", count, sizeof *texts, &texts);
  for (size_t i = 0; i < count && status == TRI_OK; i++) {
    const json_t *line = json_array_get(lines, count - 1 - i);
    texts[i] = (tri_gguf_text){json_string_value(line), json_string_length(line)};
  }
  if (status == TRI_OK) status = tri_gguf_add_strings(header, KEY("merges"), (int64_t)count, texts);
  tri_free(texts);
  json_decref(lines);
  return status;
}

/* ---- the keys ---------------------------------------------------------------------------------------------------- */

static tri_status add_tokens(tri_gguf_header *header, const tri_llamacpp_tokens *tokens) {
  TRI_TRY(tri_llamacpp_tokens_check(tokens));
  TRI_TRY(tri_gguf_add_strings(header, KEY("tokens"), tokens->rows, tokens->texts));
  if (tokens->characters) {
    TRI_TRY(tri_gguf_add_values(header, KEY("scores"), TRI_GGUF_FLOAT32, tokens->rows, tokens->scores));
  }
  return tri_gguf_add_values(header, KEY("token_type"), TRI_GGUF_INT32, tokens->rows, tokens->types);
}

static tri_status add_byte_level(tri_gguf_header *header, const source *from, tri_llamacpp_tokens *tokens) {
  const tri_llamacpp_pretokenizer *pretokenizer = NULL;
  TRI_TRY(tri_llamacpp_check_normalizer(from->path, from->root));
  TRI_TRY(choose_pretokenizer(from, tokens, &pretokenizer));
  TRI_TRY(check_bytes(from));
  TRI_TRY(tri_gguf_add_string(header, KEY("model"), "gpt2"));
  TRI_TRY(tri_gguf_add_string(header, KEY("pre"), pretokenizer->name));
  TRI_TRY(add_tokens(header, tokens));
  TRI_TRY(add_merges(header, from));
  return tri_llamacpp_add_special_tokens(header, from->tokenizer, from->folder, tokens);
}

static tri_status add_characters(tri_gguf_header *header, const source *from, tri_llamacpp_tokens *tokens) {
  tri_llamacpp_spaces spaces;
  TRI_TRY(tri_llamacpp_read_spaces(from->path, from->root, &spaces));
  TRI_TRY(tri_llamacpp_tokens_score(tokens, &spaces));
  if (from->ignore_merges) TRI_TRY(tri_llamacpp_tokens_all_made(tokens, "ignore_merges is true"));
  TRI_TRY(tri_gguf_add_string(header, KEY("model"), "llama"));
  TRI_TRY(tri_gguf_add_string(header, KEY("pre"), "default"));
  TRI_TRY(tri_llamacpp_add_special_tokens(header, from->tokenizer, from->folder, tokens));
  TRI_TRY(tri_gguf_add_bool(header, KEY("add_space_prefix"), spaces.prefix));
  return add_tokens(header, tokens);
}

static tri_status add_template_text(tri_gguf_header *header, const json_t *found) {
  if (json_is_string(found)) {
    return tri_gguf_add_string(header, "tokenizer.chat_template", json_string_value(found));
  }
  static const tri_gguf_text names[] = {{"tool_use", sizeof "tool_use" - 1}};
  for (size_t i = 0; i < json_array_size(found); i++) { /* "default", then "tool_use" */
    const char *text = json_string_value(json_object_get(json_array_get(found, i), "template"));
    const char *key = i == 0 ? "tokenizer.chat_template" : "tokenizer.chat_template.tool_use";
    TRI_TRY(tri_gguf_add_string(header, key, text == NULL ? "" : text));
  }
  return json_is_array(found) ? tri_gguf_add_strings(header, "tokenizer.chat_templates", 1, names) : TRI_OK;
}

/* Adds the chat template of the folder, or else of the tokenizer's own folder, if there is one. A template that this
 * program cannot render is left out, with a warning. */
static tri_status add_template(tri_gguf_header *header, const source *from) {
  const tri_chat_format_options options = {
      .tokenizer = from->folder == NULL ? from->path : from->folder, .asked = true, .optional = true};
  tri_chat_format format;
  tri_status status = tri_chat_format_create(&options, &format);
  if (status == TRI_OK) {
    json_t *found = tri_chat_format_json(&format);
    status = add_template_text(header, found);
    json_decref(found);
  }
  tri_chat_format_release(&format);
  if (status != TRI_UNSUPPORTED) return status;
  tri_warn("the GGUF file gets no chat template, so give one to llama.cpp with --chat-template-file: %s",
           tri_status_message());
  return TRI_OK;
}

static tri_status add_all(tri_gguf_header *header, const source *from, tri_llamacpp_tokens *tokens) {
  TRI_TRY(tri_llamacpp_tokens_fill(tokens));
  TRI_TRY(from->byte_level ? add_byte_level(header, from, tokens) : add_characters(header, from, tokens));
  return add_template(header, from);
}

tri_status tri_llamacpp_add_vocabulary(tri_gguf_header *header, const char *path, const char *folder, int64_t rows) {
  source from = {.path = path, .folder = folder};
  tri_status status = source_open(&from);
  if (status == TRI_OK) {
    tri_llamacpp_tokens tokens = {.file = path,
                                  .root = from.root,
                                  .size = tri_tokenizer_vocab_size(from.tokenizer),
                                  .rows = rows,
                                  .characters = !from.byte_level};
    status = add_all(header, &from, &tokens);
    tri_llamacpp_tokens_release(&tokens);
  }
  source_close(&from);
  return status;
}
