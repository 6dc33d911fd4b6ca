#include "serve/job.h"

#include "base/clock.h"
#include "base/memory.h"
#include "files/json_kind.h"
#include "generation/scheduler.h"
#include "serve/replies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static tri_status encode_text(tri_serve_front *front, const char *text, size_t bytes, tri_token_list *out) {
  const tri_prompt prompt = {.text = text, .bytes = bytes};
  const int32_t end = tri_tokenizer_end_of_text(front->generation->tokenizer);
  pthread_mutex_lock(&front->encoding);
  const tri_status status = tri_prompt_encode(front->encoder, &prompt, out);
  pthread_mutex_unlock(&front->encoding);
  if (status != TRI_OK || out->count > 0) return status;
  if (end < 0) return tri_fail(TRI_BAD_USAGE, "the prompt is empty, and the tokenizer has no token that begins a text");
  return tri_token_list_append(out,
                               end); /* an empty prompt becomes this one token, as if another text had ended before */
}

static tri_status add_ids(const char *field, const json_t *list, int64_t vocab_size, tri_token_list *out) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    const int64_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= vocab_size) {
      char number[24];
      snprintf(number, sizeof number, "%" PRId64, id);
      return tri_fail(TRI_BAD_USAGE, "element %zu of `%s` should be a token id, from 0 to %" PRId64 ", not %s", i,
                      field, vocab_size - 1, json_is_integer(value) ? number : tri_json_kind(value));
    }
    TRI_TRY(tri_token_list_append(out, (int32_t)id));
  }
  return TRI_OK;
}

static tri_status append(tri_serve_prompt *to, const char *piece, size_t bytes, size_t *room) {
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_reserve("a text", 1, to->bytes + bytes, room, &to->owned));
  memcpy(to->owned + to->bytes, piece, bytes);
  to->bytes += bytes;
  return TRI_OK;
}

static tri_status decode(tri_decoder *decoder, tri_serve_prompt *prompt) {
  const char *piece = NULL;
  size_t bytes = 0, room = 0;
  for (int64_t i = 0; i < prompt->tokens.count; i++) {
    TRI_TRY(tri_decoder_next(decoder, prompt->tokens.ids[i], &piece, &bytes));
    TRI_TRY(append(prompt, piece, bytes, &room));
  }
  tri_decoder_end(decoder, &piece, &bytes);
  TRI_TRY(append(prompt, piece, bytes, &room));
  prompt->text = prompt->owned == NULL ? "" : prompt->owned;
  return TRI_OK;
}

tri_status tri_serve_read_ids(const tri_serve_front *front, const char *field, const json_t *list,
                              tri_serve_prompt *out) {
  tri_decoder *decoder = NULL;
  TRI_TRY(add_ids(field, list, front->generation->model.vocab_size, &out->tokens));
  TRI_TRY(tri_decoder_create(front->generation->tokenizer, true, &decoder));
  const tri_status status = decode(decoder, out);
  tri_decoder_destroy(decoder);
  return status;
}

static tri_status read_text(tri_serve_front *front, const json_t *value, tri_serve_prompt *out) {
  out->text = json_string_value(value);
  out->bytes = json_string_length(value);
  return encode_text(front, out->text, out->bytes, &out->tokens);
}

static tri_status read_prompt(tri_serve_front *front, const json_t *value, tri_serve_prompt *out) {
  if (json_is_string(value)) return read_text(front, value, out);
  if (json_is_array(value) && json_array_size(value) == 0)
    return tri_fail(TRI_BAD_USAGE, "`prompt` has an empty list of token ids");
  if (json_is_array(value)) return tri_serve_read_ids(front, "prompt", value, out);
  return tri_fail(TRI_BAD_USAGE, "`prompt` has %s; it should be a string, a list of strings, or lists of token ids",
                  tri_json_kind(value));
}

static tri_status read_prompts(tri_serve_job *job) {
  const json_t *prompt = job->fields.prompt;
  const bool single = json_is_string(prompt) || json_is_integer(json_array_get(prompt, 0));
  const int64_t count = single ? 1 : (int64_t)json_array_size(prompt);
  if (!single && !json_is_array(prompt)) return read_prompt(job->front, prompt, NULL);
  if (count == 0) return tri_fail(TRI_BAD_USAGE, "`prompt` is an empty list");
  if (count > job->front->defaults.limits.texts / job->fields.best_of) {
    return tri_fail(TRI_BAD_USAGE, "%" PRId64 " prompts with %" PRId64 " texts each are more than %" PRId64 " texts",
                    count, job->fields.best_of, job->front->defaults.limits.texts);
  }
  TRI_TRY(tri_alloc("prompts", (size_t)count, sizeof *job->prompts, &job->prompts));
  for (int64_t i = 0; i < count; i++) {
    job->num_prompts = i + 1;
    TRI_TRY(read_prompt(job->front, single ? prompt : json_array_get(prompt, (size_t)i), &job->prompts[i]));
  }
  return TRI_OK;
}

/* ---- chats ------------------------------------------------------------------------------------------------------- */

/* If a message's content is a list of text parts, replaces it by one string: their texts, separated by newlines. Fails
 * with TRI_UNSUPPORTED if a part is not a text, and with TRI_BAD_USAGE if the text of a part is not a string. */
static tri_status join_parts(json_t *message, size_t number) {
  json_t *content = json_object_get(message, "content"), *part = NULL;
  char *text = NULL;
  size_t i = 0, bytes = 0, room = 0;
  tri_status status = TRI_OK;
  if (!json_is_array(content)) return TRI_OK;
  json_array_foreach(content, i, part) {
    const json_t *type = json_object_get(part, "type"), *said = json_object_get(part, "text");
    if (json_is_string(type) && strcmp(json_string_value(type), "text") == 0 && !json_is_string(said)) {
      status = tri_fail(TRI_BAD_USAGE, "message %zu has a part of type text whose `text` should be a string", number);
      break;
    }
    if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0) {
      status = tri_fail(TRI_UNSUPPORTED,
                        "message %zu has a part of type %.40s; only parts {\"type\": \"text\", \"text\": ...} are "
                        "supported",
                        number, json_is_string(type) ? json_string_value(type) : "unknown");
      break;
    }
    const size_t more = json_string_length(said);
    status = tri_reserve("a message", 1, bytes + more + 1, &room, &text);
    if (status != TRI_OK) break;
    if (i > 0) text[bytes++] = '\n';
    memcpy(text + bytes, json_string_value(said), more);
    bytes += more;
  }
  if (status == TRI_OK && json_object_set_new(message, "content", json_stringn(text == NULL ? "" : text, bytes)) != 0)
    status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a message");
  tri_free(text);
  return status;
}

static tri_status render(tri_serve_front *front, const tri_serve_fields *fields, tri_serve_prompt *out) {
  const tri_chat_prompting how = {.generation_prompt = fields->generation_prompt, .continues = fields->continues};
  json_t *root = json_object(), *message = NULL;
  tri_chat_prompt rendered = {.text = NULL};
  size_t i = 0;
  tri_status status = TRI_OK;
  json_object_set_new(root, "messages", json_deep_copy(fields->messages));
  if (fields->template_variables != NULL)
    json_object_set_new(root, "chat_template_kwargs", json_deep_copy(fields->template_variables));
  json_array_foreach(json_object_get(root, "messages"), i, message) {
    if (status == TRI_OK) status = join_parts(message, i + 1);
  }
  if (status == TRI_OK) status = tri_chat_session_prompt_as(front->chat.session, root, &how, &rendered);
  json_decref(root);
  if (status == TRI_BAD_FILE) status = tri_fail(TRI_BAD_USAGE, "%s", tri_status_message());
  TRI_TRY(status);
  TRI_TRY(tri_alloc("a prompt", rendered.bytes + 1, 1, &out->owned));
  if (rendered.bytes > 0) memcpy(out->owned, rendered.text, rendered.bytes);
  out->text = out->owned;
  out->bytes = rendered.bytes;
  out->rendered = true;
  return tri_encoder_encode_guarded(front->encoder, out->text, out->bytes, rendered.given,
                                    fields->parse_special ? 0 : rendered.num_given, &out->tokens);
}

tri_status tri_serve_encode_chat(tri_serve_front *front, const tri_serve_fields *fields, tri_serve_prompt *out) {
  if (front->chat.session == NULL) return tri_fail(TRI_BAD_USAGE, "no chats are served: %s", front->no_template);
  if (json_array_size(fields->messages) == 0) return tri_fail(TRI_BAD_USAGE, "`messages` is an empty list");
  pthread_mutex_lock(&front->encoding);
  const tri_status status = render(front, fields, out);
  pthread_mutex_unlock(&front->encoding);
  TRI_TRY(status);
  return out->tokens.count > 0 ? TRI_OK : tri_fail(TRI_BAD_USAGE, "the chat template prints nothing for `messages`");
}

static tri_status read_chat(tri_serve_job *job) {
  TRI_TRY(tri_alloc("prompts", 1, sizeof *job->prompts, &job->prompts));
  job->num_prompts = 1;
  return tri_serve_encode_chat(job->front, &job->fields, &job->prompts[0]);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

enum { USUAL_TOKENS = 16 }; /* default of max_tokens for a completion, as in OpenAI's API */

/* Computes the number of tokens to sample after a prompt. Fails with TRI_BAD_USAGE if the prompt and these tokens
 * exceed the positions or the pages, so that no text has to continue without its first tokens. */
static tri_status count_tokens(const tri_serve_job *job, const tri_serve_prompt *prompt, int64_t *out) {
  const tri_serve_front *front = job->front;
  const tri_serve_fields *f = &job->fields;
  const int64_t positions = front->sizes.positions, room = positions - prompt->tokens.count;
  const int64_t usual = f->chat ? front->defaults.limits.max_tokens : USUAL_TOKENS;
  *out = f->max_tokens;
  if (*out < 0) *out = usual > 0 && usual < room ? usual : room;
  if (*out > room || (room <= 0 && f->max_tokens != 0)) {
    return tri_fail(TRI_BAD_USAGE,
                    "the prompt has %" PRId64 " tokens and %" PRId64
                    " are to be written, but the model is served with %" PRId64
                    " positions; shorten the prompt or reduce max_tokens",
                    prompt->tokens.count, *out > 0 ? *out : 1, positions);
  }
  const int64_t pages = tri_schedule_pages(prompt->tokens.count + *out, TRI_PAGE_ROWS,
                                           tri_runner_window(&front->generation->model), front->sizes.rows);
  if (pages <= front->sizes.pages) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "%" PRId64 " tokens of prompt and text need %" PRId64
                  " pages of keys and values, and the server has %" PRId64 " (trireme serve --cache)",
                  prompt->tokens.count + *out, pages, front->sizes.pages);
}

/* Returns the number of likeliest tokens to find at each position of the prompt; -1: no log-probabilities. */
static int64_t prompt_likeliest(const tri_serve_fields *f) {
  const int64_t echoed = f->echo ? f->logprobs : -1;
  return echoed > f->prompt_logprobs ? echoed : f->prompt_logprobs;
}

/* Allocates memory for the log-probabilities of the prompt's tokens, if the request asks for them. */
static tri_status request_scores(const tri_serve_fields *f, tri_written *first) {
  const int64_t likeliest = prompt_likeliest(f), scored = first->prompt_tokens - 1;
  if (likeliest < 0) return TRI_OK;
  if (scored > 0) TRI_TRY(tri_alloc("scores", (size_t)scored, sizeof *first->prompt_scores, &first->prompt_scores));
  if (scored > 0 && likeliest > 0)
    TRI_TRY(tri_alloc("likeliest tokens", (size_t)(scored * likeliest), sizeof *first->prompt_likeliest,
                      &first->prompt_likeliest));
  first->num_prompt_likeliest = likeliest;
  return TRI_OK;
}

static tri_status begin_text(tri_serve_job *job, int64_t p, int64_t i) {
  tri_generation *g = job->front->generation;
  const tri_serve_prompt *prompt = &job->prompts[p];
  const tri_serve_fields *f = &job->fields;
  const tri_prompt given = {.text = prompt->text, .bytes = prompt->bytes, .rendered = prompt->rendered};
  tri_written *text = &job->texts[p * f->best_of + i];
  tri_token_list copy = {.count = 0};
  int64_t wanted = 0;
  TRI_TRY(count_tokens(job, prompt, &wanted));
  for (int64_t k = 0; k < prompt->tokens.count; k++) TRI_TRY(tri_token_list_append(&copy, prompt->tokens.ids[k]));
  job->num_texts++;
  TRI_TRY(tri_written_begin_tokens(g, &given, &copy, wanted, text));
  text->number = p;
  const uint64_t hash = text->sampling.prompt;
  text->sampling = f->sampling;
  text->sampling.prompt = hash;
  text->sampling.sample = (uint64_t)i;
  text->text.stops = job->stops;
  text->text.num_stops = job->num_stops;
  text->requested = (tri_sampling_request){.log_prob = f->logprobs >= 0 || f->best_of > f->n,
                                           .likeliest = f->logprobs > 0 ? f->logprobs : 0};
  if (f->ignore_eos) text->num_ends = 0;
  text->owner = job->key;
  text->context = job;
  return i == 0 ? request_scores(f, text) : TRI_OK;
}

static tri_status begin_texts(tri_serve_job *job) {
  const tri_serve_fields *f = &job->fields;
  const int64_t count = job->num_prompts * f->best_of;
  for (int i = 0; i < f->num_stops; i++) job->stops[job->num_stops++] = f->stops[i];
  if (f->chat && !f->ignore_eos && job->front->chat.turn_end[0] != '\0')
    job->stops[job->num_stops++] = job->front->chat.turn_end;
  TRI_TRY(tri_alloc("texts", (size_t)count, sizeof *job->texts, &job->texts));
  TRI_TRY(tri_alloc("texts", (size_t)count, sizeof *job->sent_tokens, &job->sent_tokens));
  for (int64_t p = 0; p < job->num_prompts; p++) {
    for (int64_t i = 0; i < f->best_of; i++) TRI_TRY(begin_text(job, p, i));
  }
  job->left = count;
  return TRI_OK;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static void choose_id(tri_serve_job *job) {
  uint64_t drawn[2] = {0};
  if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) drawn[0] = (uint64_t)(uintptr_t)job;
  snprintf(job->id, sizeof job->id, "%s-%012" PRIx64 "%012" PRIx64, job->fields.chat ? "chatcmpl" : "cmpl",
           drawn[0] >> 16, drawn[1] >> 16);
}

static tri_status fill(tri_serve_job *job, const char *body, size_t bytes, bool chat) {
  TRI_TRY(tri_serve_fields_read(body, bytes, chat, &job->front->defaults, &job->fields));
  job->fields.param = chat ? "messages" : "prompt";
  TRI_TRY(chat ? read_chat(job) : read_prompts(job));
  job->created_s = (int64_t)time(NULL);
  job->accepted_s = job->written_s = tri_clock_s();
  choose_id(job);
  return begin_texts(job);
}

tri_serve_job *tri_serve_job_create(tri_serve_front *front, const char *body, size_t bytes, bool chat, int key,
                                    tri_http_reply *fault) {
  tri_serve_job *job = NULL;
  tri_status status = tri_alloc("a request", 1, sizeof *job, &job);
  if (status != TRI_OK) {
    *fault = tri_serve_error(500, "out of memory", NULL);
    return NULL;
  }
  job->front = front;
  job->key = key;
  status = fill(job, body, bytes, chat);
  if (status == TRI_OK) return job;
  *fault = tri_serve_error(tri_serve_code(status), tri_status_message(), job->fields.param);
  tri_serve_job_destroy(job);
  return NULL;
}

void tri_serve_job_destroy(tri_serve_job *job) {
  if (job == NULL) return;
  for (int64_t i = 0; i < job->num_texts; i++) tri_written_release(&job->texts[i]);
  for (int64_t i = 0; i < job->num_prompts; i++) {
    tri_free(job->prompts[i].owned);
    tri_free(job->prompts[i].tokens.ids);
  }
  tri_free(job->prompts);
  tri_free(job->texts);
  tri_free(job->sent_tokens);
  free(job->failure);
  tri_serve_fields_release(&job->fields);
  tri_http_release(job->request);
  tri_free(job);
}
