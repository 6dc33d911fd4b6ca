/* Makes the texts of tokenizer_config.json and generation_config.json, with the tokens that end a text, for a saved
 * model without these files. */
#include "base/memory.h"
#include "chat/session.h"
#include "checkpoint/extra_files.h"
#include "files/file.h"
#include "tokenizer/folder.h"

#include <stdlib.h>
#include <string.h>

static bool has(const char *folder, const char *name) {
  char path[TRI_PATH_BYTES];
  return folder != NULL && tri_path_join(path, folder, name) == TRI_OK && tri_path_exists(path);
}

/* Returns the token with which the chat template of a folder ends a turn; -1 if there is no template, or no such token.
 */
static int32_t find_turn_end(const char *folder, const tri_tokenizer *tokenizer) {
  const tri_chat_format_options options = {.tokenizer = folder, .asked = true};
  tri_chat_format format;
  tri_chat_session *session = NULL;
  tri_encoder *encoder = NULL;
  tri_token_list tokens = {0};
  char text[TRI_TURN_END_BYTES] = "";
  int32_t id = -1;
  tri_status status = tri_chat_format_create(&options, &format);
  if (status == TRI_OK) status = tri_chat_session_create(&format, &session);
  if (status == TRI_OK) status = tri_chat_session_turn_end(session, text);
  if (status == TRI_OK && text[0] != '\0') status = tri_encoder_create(tokenizer, &encoder);
  if (status == TRI_OK && encoder != NULL) status = tri_encoder_encode(encoder, text, strlen(text), 1, &tokens);
  if (status == TRI_OK && tokens.count == 1) id = tokens.ids[0];
  tri_free(tokens.ids);
  tri_encoder_destroy(encoder);
  tri_chat_session_destroy(session);
  tri_chat_format_release(&format);
  return id;
}

static void add_id(json_t *list, int32_t id) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (json_integer_value(json_array_get(list, i)) == id) return;
  }
  if (id >= 0) json_array_append_new(list, json_integer(id));
}

/* Returns the tokens that end a text, as JSON: a number, or a list if there are several; NULL if there are none. */
static json_t *ends_json(const char *folder, const tri_tokenizer *tokenizer, int32_t document_end) {
  json_t *list = json_array();
  int count = 0;
  const int32_t *ends = tri_tokenizer_ends(tokenizer, &count);
  if (folder != NULL) add_id(list, find_turn_end(folder, tokenizer));
  add_id(list, document_end);
  for (int i = 0; i < count; i++) add_id(list, ends[i]);
  json_t *out = json_array_size(list) > 1 ? json_incref(list) : json_incref(json_array_get(list, 0));
  json_decref(list);
  return out;
}

static tri_status make_generation_config(const char *folder, const tri_tokenizer *tokenizer, int32_t document_end,
                                         char **out) {
  json_t *ends = ends_json(folder, tokenizer, document_end);
  if (ends == NULL) return TRI_OK;
  json_t *config = json_pack("{s:o}", "eos_token_id", ends);
  char *text = config == NULL ? NULL : json_dumps(config, JSON_INDENT(2));
  json_decref(config);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: generation_config.json");
  const tri_status status = tri_strdup(text, out);
  free(text);
  return status;
}

static tri_status make_texts(const char *folder, tri_tokenizer *tokenizer, int32_t document_end, tri_extra_texts *out) {
  if (folder != NULL) TRI_TRY(tri_tokenizer_find_ends(tokenizer, folder));
  const int32_t end = document_end >= 0 ? document_end : tri_tokenizer_end_of_text(tokenizer);
  out->end_of_text = end;
  if (!has(folder, "tokenizer_config.json")) {
    TRI_TRY(tri_folder_config_text(NULL, tokenizer, end, NULL, &out->tokenizer_config));
  }
  if (has(folder, "generation_config.json")) return TRI_OK;
  return make_generation_config(folder, tokenizer, document_end, &out->generation_config);
}

tri_status tri_extra_texts_make(const char *folder, const char *tokenizer, int32_t document_end, tri_extra_texts *out) {
  tri_tokenizer *made = NULL;
  *out = (tri_extra_texts){.end_of_text = -1};
  if (tokenizer == NULL || tokenizer[0] == '\0') return TRI_OK;
  TRI_TRY(tri_tokenizer_create(tokenizer, &made));
  const tri_status status = make_texts(folder, made, document_end, out);
  tri_tokenizer_destroy(made);
  if (status != TRI_OK) tri_extra_texts_release(out);
  return status;
}

void tri_extra_texts_release(tri_extra_texts *texts) {
  tri_free(texts->tokenizer_config);
  tri_free(texts->generation_config);
  *texts = (tri_extra_texts){.end_of_text = -1};
}
