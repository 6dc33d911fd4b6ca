/* Answers in the forms of OpenAI's API: whole ones, and the events of a stream. */
#include "base/clock.h"
#include "base/count.h"
#include "serve/job.h"
#include "serve/replies.h"
#include "tokenizer/json_text.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Returns a log-probability as JSON. A token that cannot be drawn has -9999, as in vLLM, because JSON has no infinity
 * and clients add the numbers up. */
static json_t *number_of(double log_prob) { return json_real(log_prob > -9999 ? log_prob : -9999.0); }

/* Returns the text of a token. If its bytes are not valid UTF-8, all of them are written as "bytes:\xe2\x82". */
static json_t *token_text(const tri_serve_job *job, int32_t id) {
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(job->front->generation->tokenizer, id, &bytes);
  json_t *text = json_stringn(token, bytes);
  if (text != NULL) return text;
  char *hex = malloc(6 + 4 * bytes + 1);
  if (hex == NULL) return NULL;
  strcpy(hex, "bytes:");
  for (size_t i = 0; i < bytes; i++) snprintf(hex + 6 + 4 * i, 5, "\\x%02x", (unsigned char)token[i]);
  text = json_string(hex);
  free(hex);
  return text;
}

static json_t *token_bytes(const tri_serve_job *job, int32_t id) {
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(job->front->generation->tokenizer, id, &bytes);
  json_t *list = json_array();
  for (size_t i = 0; i < bytes; i++) json_array_append_new(list, json_integer((unsigned char)token[i]));
  return list;
}

/* A token with its log-probability, and the likeliest tokens of its position [count]; those with id -1 are unused. */
typedef struct judged_token {
  int32_t id;
  double log_prob;
  const tri_likely *likeliest;
  int64_t count;
} judged_token;

/* Returns the log-probability of a likeliest token. If it is the token itself, both numbers are the same, to the bit,
 * because clients compare them. */
static double likely_number(const judged_token *token, int64_t i) {
  return token->likeliest[i].id == token->id ? token->log_prob : token->likeliest[i].log_prob;
}

/* Adds a token to an object whose keys are texts of tokens and whose values are log-probabilities. The key is
 * "token_id:ID" if the text is `reserved`, if the object already has it as a key, or if it has a NUL, which a key
 * cannot have. */
static void add_top(const tri_serve_job *job, json_t *top, int32_t id, double log_prob, const json_t *reserved) {
  json_t *text = token_text(job, id);
  char name[32];
  snprintf(name, sizeof name, "token_id:%d", (int)id);
  const bool taken = text == NULL || json_equal(text, reserved) != 0 ||
                     json_object_get(top, json_string_value(text)) != NULL ||
                     strlen(json_string_value(text)) != json_string_length(text);
  json_object_set_new(top, taken ? name : json_string_value(text), number_of(log_prob));
  json_decref(text);
}

/* Returns the likeliest tokens, and the token itself if it is not among them. Clients find the token by its text, so
 * another token of the same text does not get this key. */
static json_t *top_object(const tri_serve_job *job, const judged_token *token) {
  json_t *top = json_object(), *own = token_text(job, token->id);
  bool has_own = false;
  for (int64_t i = 0; i < token->count && token->likeliest[i].id >= 0; i++) {
    const bool is_own = token->likeliest[i].id == token->id;
    add_top(job, top, token->likeliest[i].id, likely_number(token, i), is_own ? NULL : own);
    has_own = has_own || is_own;
  }
  if (!has_own) add_top(job, top, token->id, token->log_prob, NULL);
  json_decref(own);
  return top;
}

static judged_token sampled_token(const tri_written *text, int64_t i) {
  return (judged_token){.id = text->tokens.ids[text->prompt_tokens + i],
                        .log_prob = text->sampled[i].log_prob,
                        .likeliest = text->sampled[i].likeliest,
                        .count = tri_smaller(text->requested.likeliest, text->generation->model.vocab_size)};
}

/* Returns the prompt's token `i`, which is not the first one; `first`: the prompt's first text, which has the scores.
 */
static judged_token prompt_token(const tri_written *first, int64_t i, int64_t likeliest) {
  const int64_t row = first->num_prompt_likeliest;
  return (judged_token){.id = first->tokens.ids[i],
                        .log_prob = first->prompt_scores[i - 1],
                        .likeliest = row == 0 ? NULL : first->prompt_likeliest + (i - 1) * row,
                        .count = likeliest < row ? likeliest : row};
}

/* Returns the number of characters that begin in a token. */
static int64_t characters_of(const tri_serve_job *job, int32_t id) {
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(job->front->generation->tokenizer, id, &bytes);
  int64_t count = 0;
  for (size_t i = 0; i < bytes; i++) count += ((unsigned char)token[i] & 0xC0) != 0x80;
  return count;
}

/* ---- log-probabilities ------------------------------------------------------------------------------------------- */

/* The lists of a completion's `logprobs`. */
typedef struct completion_lists {
  json_t *tokens, *log_probs, *top, *offsets;
  int64_t at; /* characters before the next token */
} completion_lists;

static void add_token(const tri_serve_job *job, completion_lists *lists, const judged_token *token, bool first) {
  json_array_append_new(lists->offsets, json_integer(lists->at));
  lists->at += characters_of(job, token->id);
  json_array_append_new(lists->tokens, token_text(job, token->id));
  json_array_append_new(lists->log_probs, first ? json_null() : number_of(token->log_prob));
  json_array_append_new(lists->top, first ? json_null() : top_object(job, token));
}

/* Returns `logprobs` of a completion's sampled tokens from `from` on, after the prompt's tokens if `echo`. */
static json_t *completion_log_probs(const tri_serve_job *job, const tri_written *text, int64_t from, bool echo) {
  const tri_written *first = &job->texts[text->number * job->fields.best_of];
  completion_lists lists = {json_array(), json_array(), json_array(), json_array(), 0};
  for (int64_t i = job->fields.echo && !echo ? 0 : text->prompt_tokens; i < text->prompt_tokens + from; i++)
    lists.at += characters_of(job, text->tokens.ids[i]); /* sent in earlier events */
  for (int64_t i = 0; echo && i < text->prompt_tokens; i++) {
    const judged_token token =
        i == 0 ? (judged_token){.id = first->tokens.ids[0]} : prompt_token(first, i, job->fields.logprobs);
    add_token(job, &lists, &token, i == 0);
  }
  for (int64_t i = from; i < text->tokens.count - text->prompt_tokens; i++) {
    const judged_token token = sampled_token(text, i);
    add_token(job, &lists, &token, false);
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "tokens", lists.tokens, "token_logprobs", lists.log_probs, "top_logprobs",
                   lists.top, "text_offset", lists.offsets);
}

static json_t *chat_token(const tri_serve_job *job, int32_t id, double log_prob) {
  return json_pack("{s:o, s:o, s:o}", "token", token_text(job, id), "logprob", number_of(log_prob), "bytes",
                   token_bytes(job, id));
}

static json_t *chat_log_probs(const tri_serve_job *job, const tri_written *text, int64_t from) {
  json_t *content = json_array();
  for (int64_t i = from; i < text->tokens.count - text->prompt_tokens; i++) {
    const judged_token token = sampled_token(text, i);
    json_t *one = chat_token(job, token.id, token.log_prob), *top = json_array();
    for (int64_t k = 0; k < token.count && token.likeliest[k].id >= 0; k++)
      json_array_append_new(top, chat_token(job, token.likeliest[k].id, likely_number(&token, k)));
    json_object_set_new(one, "top_logprobs", top);
    json_array_append_new(content, one);
  }
  return json_pack("{s:o}", "content", content);
}

/* Returns `logprobs` of a text's sampled tokens from `from` on, in a completion after those of the prompt if `echo`;
 * JSON null if the request did not ask for log-probabilities. */
static json_t *log_probs_of(const tri_serve_job *job, const tri_written *text, int64_t from, bool echo) {
  if (job->fields.logprobs < 0) return json_null();
  return job->fields.chat ? chat_log_probs(job, text, from) : completion_log_probs(job, text, from, echo);
}

/* Returns vLLM's `prompt_logprobs` of a prompt: a list with null for the first token, and for each other token an
 * object whose keys are ids, the likeliest ones and its own. Each value has the log-probability, the rank (from 1; null
 * for a token that is not among the likeliest) and the text. */
static json_t *prompt_log_probs(const tri_serve_job *job, const tri_written *first) {
  json_t *list = json_array();
  json_array_append_new(list, json_null());
  for (int64_t i = 1; i < first->prompt_tokens; i++) {
    const judged_token token = prompt_token(first, i, job->fields.prompt_logprobs);
    json_t *all = json_object();
    char name[24];
    for (int64_t k = 0; k < token.count && token.likeliest[k].id >= 0; k++) {
      const json_int_t place = 1 + (json_int_t)k;
      snprintf(name, sizeof name, "%d", (int)token.likeliest[k].id);
      json_object_set_new(all, name,
                          json_pack("{s:o, s:I, s:o}", "logprob", number_of(token.likeliest[k].log_prob), "rank", place,
                                    "decoded_token", token_text(job, token.likeliest[k].id)));
    }
    snprintf(name, sizeof name, "%d", (int)token.id);
    if (json_object_get(all, name) == NULL)
      json_object_set_new(all, name,
                          json_pack("{s:o, s:n, s:o}", "logprob", number_of(token.log_prob), "rank", "decoded_token",
                                    token_text(job, token.id)));
    json_array_append_new(list, all);
  }
  return list;
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static const char *finish_reason(const tri_written *text) {
  switch (text->finish) {
    case TRI_FINISH_END:
    case TRI_FINISH_STOP: return "stop";
    case TRI_FINISH_READ:
    case TRI_FINISH_LENGTH: return "length";
    case TRI_FINISH_NONE:
    case TRI_FINISH_CANCELLED:
    case TRI_FINISH_FAILED: break;
  }
  return "abort";
}

static json_t *ids_of(const int32_t *ids, int64_t count) {
  json_t *out = json_array();
  for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_integer(ids[i]));
  return out;
}

/* Returns bytes [from, to) of the text of a completion, after the prompt if `echo`. */
static json_t *completion_text(const tri_written *text, size_t from, size_t to, bool echo) {
  const size_t before = echo ? text->prompt_bytes : 0, bytes = to - from;
  char *joined = malloc(before + bytes + 1);
  if (joined == NULL) return NULL;
  if (before > 0) memcpy(joined, text->prompt, before);
  if (bytes > 0) memcpy(joined + before, text->text.text + from, bytes);
  json_t *out = tri_json_text(joined, before + bytes);
  free(joined);
  return out;
}

static void add_ids(const tri_serve_job *job, const tri_written *text, int64_t from, json_t *choice) {
  if (!job->fields.return_token_ids) return;
  if (from == 0) json_object_set_new(choice, "prompt_token_ids", ids_of(text->tokens.ids, text->prompt_tokens));
  json_object_set_new(
      choice, "token_ids",
      ids_of(text->tokens.ids + text->prompt_tokens + from, text->tokens.count - text->prompt_tokens - from));
}

/* Returns a choice of a whole answer. */
static json_t *choice_of(const tri_serve_job *job, const tri_written *text, int64_t index) {
  const tri_serve_fields *f = &job->fields;
  json_t *choice = json_pack("{s:I, s:o, s:s}", "index", (json_int_t)index, "logprobs",
                             log_probs_of(job, text, 0, f->echo), "finish_reason", finish_reason(text));
  json_object_set_new(choice, "stop_reason",
                      text->text.stop == NULL || (f->chat && text->text.stop == job->front->chat.turn_end)
                          ? json_null()
                          : json_string(text->text.stop));
  if (f->chat)
    json_object_set_new(
        choice, "message",
        json_pack("{s:s, s:o}", "role", "assistant", "content", tri_json_text(text->text.text, text->text.bytes)));
  else
    json_object_set_new(choice, "text", completion_text(text, 0, text->text.bytes, f->echo));
  if (!f->chat && f->prompt_logprobs >= 0)
    json_object_set_new(choice, "prompt_logprobs", prompt_log_probs(job, &job->texts[text->number * f->best_of]));
  add_ids(job, text, 0, choice);
  return choice;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static json_t *usage_of(const tri_serve_job *job) {
  json_int_t prompt = 0, sampled = 0;
  for (int64_t i = 0; i < job->num_prompts; i++) prompt += job->texts[i * job->fields.best_of].prompt_tokens;
  for (int64_t i = 0; i < job->num_texts; i++) sampled += job->texts[i].tokens.count - job->texts[i].prompt_tokens;
  return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", sampled, "total_tokens",
                   prompt + sampled);
}

/* Returns the members that every answer and every event of a stream has; takes the reference to the choices. `part`:
 * whether it is an event of a stream. */
static json_t *envelope(const tri_serve_job *job, bool part, json_t *choices) {
  const char *kind = job->fields.chat ? (part ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  const tri_generation *g = job->front->generation;
  char fingerprint[32];
  snprintf(fingerprint, sizeof fingerprint, "fp_%016" PRIx64, g->hash);
  json_t *out = json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:o}", "id", job->id, "object", kind, "created",
                          (json_int_t)job->created_s, "model", job->front->defaults.model, "system_fingerprint",
                          fingerprint, "seed", (json_int_t)job->fields.sampling.seed, "choices", choices);
  if (g->step >= 0) json_object_set_new(out, "step", json_integer(g->step));
  return out;
}

/* Returns the mean log-probability of a text's sampled tokens; 0 if it has none. */
static double mean_of(const tri_written *text) {
  const int64_t count = text->tokens.count - text->prompt_tokens;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += text->sampled[i].log_prob;
  return count == 0 ? 0 : sum / (double)count;
}

/* Adds the n texts of a prompt with the highest mean log-probability, in that order; all texts, in their own order, if
 * no more than n were written. */
static void add_choices(const tri_serve_job *job, int64_t prompt, json_t *choices) {
  const tri_serve_fields *f = &job->fields;
  const tri_written *texts = &job->texts[prompt * f->best_of];
  bool taken[TRI_SERVE_MOST_TEXTS] = {false};
  for (int64_t i = 0; i < f->n; i++) {
    int64_t best = i;
    if (f->best_of > f->n) {
      best = -1;
      for (int64_t k = 0; k < f->best_of; k++) {
        if (!taken[k] && (best < 0 || mean_of(&texts[k]) > mean_of(&texts[best]))) best = k;
      }
      taken[best] = true;
    }
    json_array_append_new(choices, choice_of(job, &texts[best], prompt * f->n + i));
  }
}

json_t *tri_serve_answer(const tri_serve_job *job) {
  json_t *choices = json_array();
  for (int64_t p = 0; p < job->num_prompts; p++) add_choices(job, p, choices);
  json_t *answer = envelope(job, false, choices);
  json_object_set_new(answer, "usage", usage_of(job));
  if (job->fields.chat && job->fields.prompt_logprobs >= 0)
    json_object_set_new(answer, "prompt_logprobs", prompt_log_probs(job, &job->texts[0]));
  return answer;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Appends an event to the stream, to be sent by the next tri_http_flush or tri_http_end; takes the reference. */
static tri_status send_event(tri_serve_job *job, json_t *event) {
  char *text = event == NULL ? NULL : json_dumps(event, JSON_COMPACT);
  json_decref(event);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: an event");
  tri_http_add(job->request, "data: ", 6);
  tri_http_add(job->request, text, strlen(text));
  tri_http_add(job->request, "\n\n", 2);
  free(text);
  job->written_s = tri_clock_s();
  return TRI_OK;
}

/* Returns one choice of an event; takes the references to `delta`, which has the text, and to `log_probs`. */
static json_t *part_of(const tri_serve_job *job, const tri_written *text, json_t *delta, json_t *log_probs,
                       const char *finish) {
  const json_int_t index = text->number * job->fields.n + (text - job->texts) % job->fields.best_of;
  json_t *choice = json_pack("{s:I, s:o, s:o, s:s?}", "index", index, job->fields.chat ? "delta" : "text", delta,
                             "logprobs", log_probs, "finish_reason", finish);
  return choice;
}

static tri_status send_part(tri_serve_job *job, json_t *choice) {
  json_t *choices = json_array();
  json_array_append_new(choices, choice);
  json_t *event = envelope(job, true, choices);
  if (job->fields.include_usage) json_object_set_new(event, "usage", json_null());
  return send_event(job, event);
}

tri_status tri_serve_stream_begin(tri_serve_job *job) {
  if (job->begun) return TRI_OK;
  tri_http_reply head = {.code = 200, .type = "text/event-stream; charset=utf-8"};
  if (job->fields.ignored[0] != '\0') {
    head.headers[0].name = "X-Ignored-Fields";
    snprintf(head.headers[0].value, sizeof head.headers[0].value, "%s", job->fields.ignored);
  }
  tri_http_begin(job->request, &head);
  job->begun = true;
  for (int64_t i = 0; job->fields.chat && i < job->num_texts; i++) {
    json_t *delta = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    TRI_TRY(send_part(job, part_of(job, &job->texts[i], delta, json_null(), NULL)));
  }
  return TRI_OK;
}

/* Returns the number of bytes of a text that can be sent. Until the text has ended, trailing bytes that are not valid
 * UTF-8 are held back, because the next token may complete their character. If it does not, they become one U+FFFD, as
 * in a whole answer. */
static size_t end_of_text(const tri_written *text, bool ended) {
  size_t end = text->shown;
  for (size_t at = end; at < text->text.certain && !ended;) {
    const size_t valid = tri_utf8_valid_bytes(text->text.text + at, text->text.certain - at);
    at += valid;
    if (valid > 0) end = at;
    if (at < text->text.certain) at += tri_utf8_invalid_bytes(text->text.text + at, text->text.certain - at);
  }
  return ended ? text->text.certain : end;
}

tri_status tri_serve_stream_text(tri_serve_job *job, tri_written *text, bool ended) {
  const tri_serve_fields *f = &job->fields;
  int64_t *sent = &job->sent_tokens[text - job->texts];
  const int64_t count = text->tokens.count - text->prompt_tokens;
  const bool first = *sent == 0 && text->shown == 0, echo = f->echo && first;
  const size_t end = end_of_text(text, ended);
  const bool tells_tokens = (f->logprobs >= 0 || f->return_token_ids) && count > *sent;
  TRI_TRY(tri_serve_stream_begin(job));
  if (!ended && !tells_tokens && text->shown == end) return TRI_OK;
  json_t *said = f->chat ? tri_json_text(text->text.text + text->shown, end - text->shown)
                         : completion_text(text, text->shown, end, echo);
  if (f->chat) said = json_pack("{s:o}", "content", said);
  json_t *log_probs = tells_tokens || echo ? log_probs_of(job, text, *sent, echo) : json_null();
  json_t *choice = part_of(job, text, said, log_probs, ended ? finish_reason(text) : NULL);
  add_ids(job, text, *sent, choice);
  *sent = count;
  text->shown = end;
  return send_part(job, choice);
}

tri_status tri_serve_stream_end(tri_serve_job *job) {
  static const char done[] = "data: [DONE]\n\n";
  TRI_TRY(tri_serve_stream_begin(job));
  if (job->fields.include_usage) {
    json_t *event = envelope(job, true, json_array());
    json_object_set_new(event, "usage", usage_of(job));
    TRI_TRY(send_event(job, event));
  }
  tri_http_add(job->request, done, sizeof done - 1);
  tri_http_end(job->request);
  return TRI_OK;
}

void tri_serve_stream_fail(tri_serve_job *job, int code, const char *message) {
  (void)send_event(job, tri_serve_error_json(code, message, NULL));
  tri_http_end(job->request);
}
