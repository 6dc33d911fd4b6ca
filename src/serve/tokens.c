#include "serve/tokens.h"

#include "base/memory.h"
#include "files/json_kind.h"
#include "serve/job.h"
#include "serve/replies.h"
#include "tokenizer/json_text.h"

#include <string.h>

/* ---- text to ids ------------------------------------------------------------------------------------------------- */

/* Returns whether a member of the request is true; `otherwise` if it is absent or null. */
static bool flag_of(const json_t *root, const char *name, bool otherwise) {
  const json_t *value = json_object_get(root, name);
  return value == NULL || json_is_null(value) ? otherwise : json_is_true(value);
}

static tri_status encode_messages(tri_serve_front *front, const json_t *root, tri_serve_prompt *out) {
  const tri_serve_fields fields = {
      .messages = json_object_get(root, "messages"),
      .template_variables = json_object_get(root, "chat_template_kwargs"),
      .continues = flag_of(root, "continue_final_message", false),
      .generation_prompt = flag_of(root, "add_generation_prompt", !flag_of(root, "continue_final_message", false)),
      .parse_special = flag_of(root, "parse_special", false)};
  return tri_serve_encode_chat(front, &fields, out);
}

/* Encodes the messages or the text of a request to /tokenize. vLLM names the text `prompt` and adds the tokens that
 * begin a text, llama-server names it `content` and does not; `add_special_tokens` (vLLM) or `add_special`
 * (llama-server) overrides either. */
static tri_status encode(tri_serve_front *front, const json_t *root, tri_serve_prompt *out) {
  const json_t *prompt = json_object_get(root, "prompt"), *content = json_object_get(root, "content");
  const json_t *text = prompt != NULL ? prompt : content;
  if (json_is_array(json_object_get(root, "messages"))) return encode_messages(front, root, out);
  if (!json_is_string(text))
    return tri_fail(TRI_BAD_USAGE, "`prompt` or `content` should be a string, or `messages` a list");
  const bool begins = flag_of(root, "add_special_tokens", flag_of(root, "add_special", prompt != NULL));
  pthread_mutex_lock(&front->encoding);
  const tri_prompt given = {.text = json_string_value(text), .bytes = json_string_length(text), .rendered = !begins};
  const tri_status status = tri_prompt_encode(front->encoder, &given, &out->tokens);
  pthread_mutex_unlock(&front->encoding);
  return status;
}

static json_t *tokens_json(const tri_serve_front *front, const tri_token_list *tokens, bool with_texts) {
  json_t *ids = json_array(), *texts = with_texts ? json_array() : json_null();
  for (int64_t i = 0; i < tokens->count; i++) {
    size_t bytes = 0;
    json_array_append_new(ids, json_integer(tokens->ids[i]));
    const char *text = tri_tokenizer_token(front->generation->tokenizer, tokens->ids[i], &bytes);
    if (with_texts) json_array_append_new(texts, tri_json_text(text, bytes));
  }
  return json_pack("{s:I, s:I, s:o, s:o}", "count", (json_int_t)tokens->count, "max_model_len",
                   (json_int_t)front->sizes.positions, "tokens", ids, "token_strs", texts);
}

tri_http_reply tri_serve_tokenize(tri_serve_front *front, const char *body, size_t bytes) {
  tri_serve_prompt prompt = {.bytes = 0};
  json_t *root = NULL;
  tri_status status = tri_serve_parse_object(body, bytes, front->defaults.limits.depth, &root);
  if (status == TRI_OK) status = encode(front, root, &prompt);
  tri_http_reply reply =
      status == TRI_OK
          ? tri_serve_json(200, tokens_json(front, &prompt.tokens, flag_of(root, "return_token_strs", false)))
          : tri_serve_error(tri_serve_code(status), tri_status_message(), NULL);
  tri_free(prompt.owned);
  tri_free(prompt.tokens.ids);
  json_decref(root);
  return reply;
}

/* ---- ids to text ------------------------------------------------------------------------------------------------- */

tri_http_reply tri_serve_detokenize(const tri_serve_front *front, const char *body, size_t bytes) {
  tri_serve_prompt prompt = {.bytes = 0};
  json_t *root = NULL;
  tri_status status = tri_serve_parse_object(body, bytes, front->defaults.limits.depth, &root);
  const json_t *ids = json_object_get(root, "tokens");
  if (status == TRI_OK && !json_is_array(ids))
    status = tri_fail(TRI_BAD_USAGE, "`tokens` should be a list of token ids, not %s", tri_json_kind(ids));
  if (status == TRI_OK) status = tri_serve_read_ids(front, "tokens", ids, &prompt);
  const tri_http_reply reply =
      status == TRI_OK ? tri_serve_json(200, json_pack("{s:o, s:o}", "prompt", tri_json_text(prompt.text, prompt.bytes),
                                                       "content", tri_json_text(prompt.text, prompt.bytes)))
                       : tri_serve_error(tri_serve_code(status), tri_status_message(), NULL);
  tri_free(prompt.owned);
  tri_free(prompt.tokens.ids);
  json_decref(root);
  return reply;
}

/* ---- about the tokenizer ----------------------------------------------------------------------------------------- */

/* Returns a variable of the chat template, such as eos_token; JSON null if it is absent or not a string. */
static json_t *variable_of(const tri_chat_format *format, const char *name) {
  for (int32_t i = 0; i < format->num_variables; i++) {
    const tri_chat_value *key = &format->variables[2 * i], *value = key + 1;
    if (key->bytes == strlen(name) && memcmp(key->text, name, key->bytes) == 0 && value->kind == TRI_CHAT_STRING)
      return tri_json_text(value->text, value->bytes);
  }
  return json_null();
}

/* Returns a token of the tokenizer as text; JSON null if id is -1 or unknown. */
static json_t *token_or_null(const tri_tokenizer *tokenizer, int32_t id) {
  size_t bytes = 0;
  const char *text = id < 0 ? NULL : tri_tokenizer_token(tokenizer, id, &bytes);
  return text == NULL ? json_null() : tri_json_text(text, bytes);
}

tri_http_reply tri_serve_tokenizer_info(const tri_serve_front *front) {
  const tri_tokenizer *tokenizer = front->generation->tokenizer;
  int beginning = 0;
  const int32_t *begins = tri_tokenizer_beginning(tokenizer, &beginning);
  json_t *eos = variable_of(&front->chat.format, "eos_token"), *bos = variable_of(&front->chat.format, "bos_token");
  if (json_is_null(eos)) eos = token_or_null(tokenizer, tri_tokenizer_end_of_text(tokenizer));
  if (json_is_null(bos)) bos = token_or_null(tokenizer, beginning > 0 ? begins[0] : -1);
  json_t *chat = front->chat.session == NULL ? json_null() : tri_chat_format_json(&front->chat.format);
  return tri_serve_json(200, json_pack("{s:o, s:o, s:o, s:o, s:I}", "eos_token", eos, "bos_token", bos, "pad_token",
                                       variable_of(&front->chat.format, "pad_token"), "chat_template", chat,
                                       "vocab_size", (json_int_t)tri_tokenizer_vocab_size(tokenizer)));
}
