#include "generation/written.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/json_kind.h"
#include "files/write_fault.h"
#include "tokenizer/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out) {
  if (prompt->rendered) return tri_encoder_encode(encoder, prompt->text, prompt->bytes, 1, out);
  return tri_encoder_encode_text(encoder, prompt->text, prompt->bytes, 1, out);
}

tri_status tri_written_begin_tokens(tri_generation *g, const tri_prompt *prompt, tri_token_list *tokens, int64_t wanted,
                                    tri_written *out) {
  const tri_generation_request *given = g->request;
  *out = (tri_written){.generation = g,
                       .prompt = prompt->text,
                       .prompt_bytes = prompt->bytes,
                       .tokens = *tokens,
                       .prompt_tokens = tokens->count,
                       .wanted = wanted,
                       .ends = g->ends,
                       .num_ends = g->num_ends,
                       .sampling = g->sampling,
                       .text = {.stops = given->stops, .num_stops = given->num_stops}};
  *tokens = (tri_token_list){.count = 0};
  out->sampling.prompt = tri_sampling_prompt(out->tokens.ids, out->tokens.count);
  return tri_decoder_create(g->tokenizer, prompt->bytes == 0, &out->decoder);
}

/* An empty prompt begins with the end-of-text token, as if another text had ended before. */
static tri_status encode_prompt(const tri_generation *g, const tri_prompt *prompt, tri_token_list *out) {
  const int32_t end = tri_tokenizer_end_of_text(g->tokenizer);
  TRI_TRY(tri_prompt_encode(g->encoder, prompt, out));
  if (out->count > 0) return TRI_OK;
  if (end < 0) return tri_fail(TRI_BAD_USAGE, "generate: the prompt is empty; begin it with --prompt TEXT");
  return tri_token_list_append(out, end);
}

tri_status tri_written_begin(tri_generation *g, const tri_prompt *prompt, int64_t wanted, tri_written *out) {
  tri_token_list tokens = {.count = 0};
  tri_status status = encode_prompt(g, prompt, &tokens);
  if (status == TRI_OK) status = tri_written_begin_tokens(g, prompt, &tokens, wanted, out);
  tri_free(tokens.ids);
  return status;
}

void tri_written_keep_last(tri_written *w, int64_t count) {
  memmove(w->tokens.ids, w->tokens.ids + w->tokens.count - count, (size_t)count * sizeof *w->tokens.ids);
  w->tokens.count = w->prompt_tokens = count;
  w->sampling.prompt = tri_sampling_prompt(w->tokens.ids, count);
}

void tri_written_release(tri_written *written) {
  tri_free(written->tokens.ids);
  tri_free(written->sampled);
  tri_free(written->prompt_scores);
  tri_free(written->prompt_likeliest);
  tri_decoder_destroy(written->decoder);
  tri_stop_text_release(&written->text);
}

tri_status tri_written_print(void *context, tri_written *w) {
  (void)context;
  if (w->shown == w->text.certain) return TRI_OK;
  fwrite(w->text.text + w->shown, 1, w->text.certain - w->shown, stdout);
  w->shown = w->text.certain;
  return fflush(stdout) == 0 ? TRI_OK
                             : tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
}

static tri_status report_growth(tri_written *w) { return w->grew == NULL ? TRI_OK : w->grew(w->context, w); }

static tri_status append_piece(tri_written *w, const char *piece, size_t bytes) {
  w->decoded += bytes;
  return tri_stop_text_add(&w->text, piece, bytes);
}

/* ---- callbacks of the dispatcher --------------------------------------------------------------------------------- */

static tri_status note_sample(tri_written *w, const tri_sampled *sampled) {
  const int64_t count = w->tokens.count - w->prompt_tokens;
  if (!w->requested.log_prob && w->requested.likeliest == 0) return TRI_OK;
  TRI_TRY(tri_grow("tokens", sizeof *w->sampled, count, &w->sampled_room, &w->sampled));
  w->sampled[count] = *sampled;
  return TRI_OK;
}

static bool ends_text(const tri_written *w, int32_t id) {
  for (int i = 0; i < w->num_ends; i++) {
    if (w->ends[i] == id) return true;
  }
  return false;
}

static tri_status append_token(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  tri_written *w = context;
  const char *piece = NULL;
  size_t bytes = 0;
  (void)sequence;
  TRI_TRY(note_sample(w, sampled));
  TRI_TRY(tri_token_list_append(&w->tokens, sampled->id));
  if (ends_text(w, sampled->id)) return TRI_OK;
  w->made++;
  w->nameless += sampled->id >= tri_tokenizer_vocab_size(w->generation->tokenizer);
  TRI_TRY(tri_decoder_next(w->decoder, sampled->id, &piece, &bytes));
  TRI_TRY(append_piece(w, piece, bytes));
  *stop = w->text.stop != NULL;
  return report_growth(w);
}

/* Ends the text, and adds the bytes of a character that the last tokens left incomplete. */
static tri_status end_text(tri_written *w, tri_finish finish) {
  const char *piece = NULL;
  size_t bytes = 0;
  tri_decoder_end(w->decoder, &piece, &bytes);
  TRI_TRY(append_piece(w, piece, bytes));
  w->finish = w->text.stop != NULL ? TRI_FINISH_STOP : finish;
  tri_stop_text_end(&w->text);
  return report_growth(w);
}

static void log_slid(tri_generation *g) {
  if (!g->slid && !g->request->quiet) {
    tri_log("the text is longer than the %ld positions; it continues from its last tokens, at least %ld of them",
            (long)g->positions, (long)(g->positions + 1) / 2);
  }
  g->slid = true;
}

static tri_status end_written(void *context, tri_sequence *sequence) {
  tri_written *w = context;
  if (tri_sequence_has_slid(sequence)) log_slid(w->generation);
  const tri_finish finish = tri_sequence_finish(sequence);
  w->sequence = NULL;
  TRI_TRY(tri_dispatcher_release(w->generation->dispatcher, sequence));
  TRI_TRY(end_text(w, finish));
  return w->done == NULL ? TRI_OK : w->done(w->context, w);
}

static tri_status fail_written(void *context, tri_sequence *sequence) {
  tri_written *w = context;
  w->sequence = NULL;
  w->finish = TRI_FINISH_FAILED;
  TRI_TRY(tri_dispatcher_release(w->generation->dispatcher, sequence));
  return w->failed(w->context, w);
}

/* Starts a text: as a fork of the sequence `prompt`, which has read the text's prompt, or as a new sequence if `prompt`
 * is NULL. */
static tri_status start(tri_written *w, const tri_sequence *prompt) {
  const tri_generation *g = w->generation;
  const tri_sequence_options options = {
      .sampling = w->sampling,
      .ends = w->ends,
      .num_ends = w->num_ends,
      .wanted = w->wanted,
      .requested = w->requested,
      .scored = w->prompt_scores == NULL || prompt != NULL ? 0 : w->prompt_tokens - 1,
      .scores = w->prompt_scores,
      .scored_likeliest = w->num_prompt_likeliest,
      .likeliest = w->prompt_likeliest,
      .owner = w->owner,
      .observer = {
          .context = w, .token = append_token, .done = end_written, .failed = w->failed == NULL ? NULL : fail_written}};
  if (prompt != NULL) return tri_dispatcher_fork(g->dispatcher, prompt, NULL, 0, &options, &w->sequence);
  return tri_dispatcher_begin(g->dispatcher, w->tokens.ids, w->tokens.count, &options, &w->sequence);
}

tri_status tri_written_start(tri_written *w) { return start(w, NULL); }

/* Starts the samples of a prompt that has been read. */
static tri_status start_forks(void *context, tri_sequence *prompt) {
  tri_written *first = context;
  const bool cancelled = tri_sequence_finish(prompt) == TRI_FINISH_CANCELLED;
  first->sequence = NULL;
  for (int64_t i = 0; i < first->samples && !cancelled; i++) TRI_TRY(start(first + i, prompt));
  return tri_dispatcher_release(first->generation->dispatcher, prompt);
}

tri_status tri_written_start_samples(tri_written *first, int64_t samples) {
  if (samples == 1) return start(first, NULL);
  const tri_sequence_options options = {
      .scored = first->prompt_scores == NULL ? 0 : first->prompt_tokens - 1,
      .scores = first->prompt_scores,
      .scored_likeliest = first->num_prompt_likeliest,
      .likeliest = first->prompt_likeliest,
      .owner = first->owner,
      .observer = {.context = first, .done = start_forks, .failed = first->failed == NULL ? NULL : fail_written}};
  first->samples = samples;
  return tri_dispatcher_begin(first->generation->dispatcher, first->tokens.ids, first->tokens.count, &options,
                              &first->sequence);
}

tri_status tri_written_cancel(tri_written *w) {
  return w->sequence == NULL ? TRI_OK : tri_dispatcher_cancel(w->generation->dispatcher, w->sequence);
}

tri_status tri_written_write(tri_written *w) {
  TRI_TRY(tri_written_start(w));
  return tri_generation_run(w->generation);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *json_of_ids(const int32_t *ids, int64_t count) {
  json_t *out = json_array();
  for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_integer(ids[i]));
  return out;
}

/* The first token of a prompt has no log-probability: null. */
static json_t *json_of_prompt_scores(const tri_written *w) {
  json_t *out = json_array();
  json_array_append_new(out, json_null());
  for (int64_t i = 0; i + 1 < w->prompt_tokens; i++)
    json_array_append_new(out, tri_json_number(w->prompt_log_probs[i]));
  return out;
}

static json_t *json_of_likeliest(const tri_written *w, const tri_sampled *sampled) {
  json_t *out = json_array();
  for (int64_t i = 0; i < w->requested.likeliest && i < w->generation->model.vocab_size; i++) {
    const tri_likely *likely = &sampled->likeliest[i];
    size_t bytes = 0;
    const char *token = tri_tokenizer_token(w->generation->tokenizer, likely->id, &bytes);
    json_array_append_new(out, json_pack("{s:i, s:o, s:o}", "id", (int)likely->id, "token",
                                         token == NULL ? json_null() : tri_json_text(token, bytes), "logprob",
                                         tri_json_number(likely->log_prob)));
  }
  return out;
}

static json_t *json_of_log_probs(const tri_written *w) {
  json_t *model = json_array(), *sampled = json_array(), *entropy = json_array(), *top = json_array();
  for (int64_t i = 0; i < w->tokens.count - w->prompt_tokens; i++) {
    json_array_append_new(model, tri_json_number(w->sampled[i].log_prob));
    json_array_append_new(sampled, tri_json_number(w->sampled[i].sampled_log_prob));
    json_array_append_new(entropy, tri_json_number(w->sampled[i].entropy));
    if (w->requested.likeliest > 0) json_array_append_new(top, json_of_likeliest(w, &w->sampled[i]));
  }
  json_t *out = json_pack("{s:o, s:o, s:o}", "model", model, "sampled", sampled, "entropy", entropy);
  if (w->prompt_log_probs != NULL || w->prompt_tokens == 1)
    json_object_set_new(out, "prompt", json_of_prompt_scores(w));
  json_object_set(out, "top", w->requested.likeliest > 0 ? top : json_null());
  json_decref(top);
  return out;
}

json_t *tri_written_json(const tri_written *w) {
  json_t *text = tri_json_text(w->text.text, w->text.bytes);
  json_t *stop = w->text.stop == NULL ? json_null() : tri_json_text(w->text.stop, strlen(w->text.stop));
  json_t *out = json_pack("{s:o, s:I, s:s, s:o}", "text", text, "tokens", (json_int_t)w->made, "finish",
                          tri_finish_name(w->finish), "stop", stop);
  if (out == NULL || !w->requested.log_prob) return out;
  json_object_set_new(out, "prompt_ids", json_of_ids(w->tokens.ids, w->prompt_tokens));
  json_object_set_new(out, "ids", json_of_ids(w->tokens.ids + w->prompt_tokens, w->tokens.count - w->prompt_tokens));
  json_object_set_new(out, "logprobs", json_of_log_probs(w));
  return out;
}

json_t *tri_generation_json(const tri_generation *g, const tri_written *w) {
  json_t *line = json_pack("{s:o, s:I, s:I, s:o}", "step", g->step < 0 ? json_null() : json_integer(g->step), "number",
                           (json_int_t)w->number, "sample", (json_int_t)w->sampling.sample, "prompt",
                           tri_json_text(w->prompt, w->prompt_bytes));
  json_t *rest = tri_written_json(w);
  bool whole = line != NULL && rest != NULL && json_object_update(line, rest) == 0;
  if (whole && tri_trainable_has_adapter(&g->model.tuning))
    whole = json_object_set_new(line, "unmerged", json_true()) == 0;
  json_decref(rest);
  if (whole) return line;
  json_decref(line);
  return NULL;
}
