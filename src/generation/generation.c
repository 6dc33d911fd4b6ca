#include "generation/generation.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/write_fault.h"
#include "data/same_tokenizer.h"
#include "engine/weights.h"
#include "generation/generation_settings.h"
#include "tokenizer/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what the folder and the options say ------------------------------------------------------------------------- */

static void tell_gap(const tri_generation *g) {
  const int64_t vocabulary = tri_tokenizer_vocab_size(g->tokenizer);
  if (g->request->quiet || !tri_tokenizer_leaves_gap(vocabulary, g->model.vocab_size)) return;
  tri_log("the tokenizer has %ld tokens and the model's vocabulary %ld: the others spell nothing", (long)vocabulary,
          (long)g->model.vocab_size);
}

static tri_status open_tokenizer(tri_generation *g) {
  const tri_model_options *options = &g->request->model;
  TRI_TRY(tri_weights_tokenizer(&g->weights, options->tokenizer, !options->no_verify, g->tokenizer_file));
  if (g->tokenizer_file[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "%s has no tokenizer.json; name one with --tokenizer",
                    tri_checkpoint_path(g->weights.named));
  }
  TRI_TRY(tri_tokenizer_create(g->tokenizer_file, &g->tokenizer));
  TRI_TRY(tri_same_tokenizer(tri_weights_tokenizer_folder(&g->weights), options->tokenizer, g->tokenizer));
  TRI_TRY(tri_tokenizer_fits_model(g->tokenizer, g->model.vocab_size));
  tell_gap(g);
  if (!g->request->quiet) tri_tokenizer_say_class(g->tokenizer);
  return tri_encoder_create(g->tokenizer, &g->encoder);
}

/* The option, or what the folder says, or what holds without either; of the folder's a line says so. */
static double choose_sampling_value(double given, double of_folder, bool draws, double otherwise, const char *name,
                                    char *said, size_t said_bytes) {
  if (given >= 0) return given;
  if (!draws || of_folder < 0) return otherwise;
  const size_t held = strlen(said);
  snprintf(said + held, said_bytes - held, "%s%s %g", held == 0 ? "" : ", ", name, of_folder);
  return of_folder;
}

static void take_settings(tri_generation *g, const tri_generation_settings *folder) {
  const tri_generation_request *given = g->request;
  const bool draws = folder->draws;
  char said[256] = "";
  g->sampling.seed = given->seed;
  g->sampling.temperature =
      choose_sampling_value(given->temperature, folder->temperature, draws, 1, "--temperature", said, sizeof said);
  g->sampling.top_k = (int64_t)choose_sampling_value((double)given->top_k, (double)folder->top_k, draws, 0, "--top-k",
                                                     said, sizeof said);
  g->sampling.top_p = choose_sampling_value(given->top_p, folder->top_p, draws, 1, "--top-p", said, sizeof said);
  g->sampling.min_p = choose_sampling_value(given->min_p, folder->min_p, draws, 0, "--min-p", said, sizeof said);
  /* Which is for the likeliest token, too. */
  g->penalty = choose_sampling_value(given->repetition_penalty, folder->repetition_penalty, true, 1,
                                     "--repetition-penalty", said, sizeof said);
  if (said[0] != '\0') tri_log("as the folder's generation_config.json has it: %s", said);
}

static void take_ends(tri_generation *g) {
  int count = 0;
  const int32_t *ends = tri_tokenizer_ends(g->tokenizer, &count);
  for (int i = 0; i < count && !g->request->ignore_end; i++) g->ends[g->num_ends++] = ends[i];
}

tri_status tri_generation_open(const tri_generation_request *request, tri_generation *out) {
  const tri_checkpoint_use use = tri_model_options_use(&request->model);
  tri_generation_settings folder;
  *out = (tri_generation){.request = request};
  TRI_TRY(tri_merged_open(request->checkpoint, request->model.base, &use, &out->model, &out->weights));
  TRI_TRY(open_tokenizer(out));
  TRI_TRY(tri_tokenizer_find_ends(out->tokenizer, tri_weights_tokenizer_folder(&out->weights)));
  TRI_TRY(tri_generation_settings_read(tri_weights_tokenizer_folder(&out->weights), &folder));
  take_settings(out, &folder);
  take_ends(out);
  return TRI_OK;
}

tri_status tri_generation_load(tri_generation *g, int64_t sequences, int64_t positions, const int64_t *prompts) {
  const tri_model_options *options = &g->request->model;
  const size_t vocabulary = (size_t)g->model.vocab_size;
  g->positions = positions;
  g->device = g->request->lent;
  if (g->device == NULL) TRI_TRY(tri_device_create(options->device, (int)options->threads, &g->device));
  TRI_TRY(tri_generator_create_many(&g->model, options->precision, sequences, positions, prompts, g->device,
                                    &g->generator));
  TRI_TRY(tri_alloc("candidates", vocabulary, sizeof *g->scratch, &g->scratch));
  TRI_TRY(tri_alloc("logits", vocabulary, sizeof *g->penalised, &g->penalised));
  return tri_weights_load(&g->weights, tri_generator_parameters(g->generator), tri_generator_executor(g->generator));
}

void tri_generation_close(tri_generation *g) {
  tri_free(g->scratch);
  tri_free(g->penalised);
  tri_generator_destroy(g->generator);
  if (g->request != NULL && g->request->lent == NULL) tri_device_destroy(g->device);
  tri_encoder_destroy(g->encoder);
  tri_tokenizer_destroy(g->tokenizer);
  tri_merged_close(&g->weights);
}

/* ---- a text ------------------------------------------------------------------------------------------------------ */

const char *tri_text_end_name(tri_text_end end) {
  switch (end) {
    case TRI_TEXT_GOES_ON: return "none";
    case TRI_TEXT_LENGTH: return "length";
    case TRI_TEXT_STOP: return "stop";
    case TRI_TEXT_END: return "end";
  }
  return "?";
}

static tri_status add_token(tri_token_list *list, int32_t id) {
  if (list->count == list->capacity) {
    const int64_t room = 2 * list->capacity + 64;
    TRI_TRY(tri_realloc("tokens", (size_t)room, sizeof *list->ids, &list->ids));
    list->capacity = room;
  }
  list->ids[list->count++] = id;
  return TRI_OK;
}

tri_status tri_prompt_encode(tri_encoder *encoder, const tri_prompt *prompt, tri_token_list *out) {
  if (prompt->rendered) return tri_encoder_encode(encoder, prompt->text, prompt->bytes, 1, out);
  return tri_encoder_encode_text(encoder, prompt->text, prompt->bytes, 1, out);
}

tri_status tri_written_begin(tri_generation *g, const tri_prompt *prompt, int64_t wanted, tri_written *out) {
  const tri_generation_request *given = g->request;
  const int32_t end = tri_tokenizer_end_of_text(g->tokenizer);
  *out = (tri_written){.prompt = prompt->text,
                       .prompt_bytes = prompt->bytes,
                       .wanted = wanted,
                       .text = {.stops = given->stops, .num_stops = given->num_stops}};
  TRI_TRY(tri_prompt_encode(g->encoder, prompt, &out->tokens));
  if (out->tokens.count == 0 && end < 0) {
    return tri_fail(TRI_BAD_USAGE, "generate: the prompt is empty; begin it with --prompt TEXT");
  }
  /* Nothing to begin with: the end of the text before. */
  if (out->tokens.count == 0) TRI_TRY(add_token(&out->tokens, end));
  out->prompt_key = tri_sampling_prompt(out->tokens.ids, out->tokens.count);
  return tri_decoder_create(g->tokenizer, prompt->bytes == 0, &out->decoder);
}

void tri_written_release(tri_written *written) {
  tri_free(written->tokens.ids);
  tri_decoder_destroy(written->decoder);
  tri_stop_text_release(&written->text);
}

static tri_status show(tri_written *w) {
  if (!w->streams) return TRI_OK;
  fwrite(w->text.text + w->shown, 1, w->text.certain - w->shown, stdout);
  w->shown = w->text.certain;
  return fflush(stdout) == 0 ? TRI_OK
                             : tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
}

static tri_status take_piece(tri_written *w, const char *piece, size_t bytes) {
  w->decoded += bytes;
  TRI_TRY(tri_stop_text_add(&w->text, piece, bytes));
  return bytes == 0 ? TRI_OK : show(w);
}

/* With the beginning of a letter that the last tokens left unfinished. */
static tri_status finish(tri_written *w, tri_text_end end) {
  const char *piece = NULL;
  size_t bytes = 0;
  tri_decoder_end(w->decoder, &piece, &bytes);
  TRI_TRY(take_piece(w, piece, bytes));
  w->end = w->text.stop != NULL ? TRI_TEXT_STOP : end;
  tri_stop_text_end(&w->text);
  return show(w);
}

/* No token can be drawn from what is not a number, and the most likely of such is one at random. */
static tri_status check_logits(const tri_generation *g, const double *logits, int64_t position) {
  for (int64_t i = 0; i < g->model.vocab_size; i++) {
    if (isfinite(logits[i])) continue;
    return tri_fail(TRI_DIVERGED,
                    "generate: behind %ld tokens the model's logits are not finite (that of token %ld is %g): it has "
                    "diverged, or its numbers are beyond --precision %s",
                    (long)position, (long)i, logits[i], tri_dtype_name(g->request->model.precision));
  }
  return TRI_OK;
}

static bool is_end(const tri_generation *g, int32_t id) {
  for (int i = 0; i < g->num_ends; i++) {
    if (g->ends[i] == id) return true;
  }
  return false;
}

/* Draws the next token; ends at the end of a text, without writing that token. */
static tri_status take_next(tri_generation *g, tri_written *w, const double *logits) {
  tri_sampling sampling = g->sampling;
  const char *piece = NULL;
  size_t bytes = 0;
  TRI_TRY(check_logits(g, logits, w->tokens.count));
  if (g->penalty != 1) {
    tri_penalise_repetition(logits, g->model.vocab_size, w->tokens.ids, w->tokens.count, g->penalty, g->penalised);
    logits = g->penalised;
  }
  sampling.prompt = w->prompt_key;
  sampling.sample = w->sample;
  const int32_t id = tri_sample_token(logits, g->model.vocab_size, &sampling, w->tokens.count, g->scratch);
  if (is_end(g, id)) return finish(w, TRI_TEXT_END);
  TRI_TRY(add_token(&w->tokens, id));
  w->made++;
  w->nameless += id >= tri_tokenizer_vocab_size(g->tokenizer);
  TRI_TRY(tri_decoder_next(w->decoder, id, &piece, &bytes));
  TRI_TRY(take_piece(w, piece, bytes));
  if (w->text.stop != NULL) return finish(w, TRI_TEXT_STOP);
  return w->made == w->wanted ? finish(w, TRI_TEXT_LENGTH) : TRI_OK;
}

/* ---- side by side ------------------------------------------------------------------------------------------------ */

static void say_slid(tri_generation *g) {
  if (!g->slid && !g->request->quiet) {
    tri_log("the text is longer than the %ld positions; it continues from its last tokens, at least %ld of them",
            (long)g->positions, (long)(g->positions + 1) / 2);
  }
  g->slid = true;
}

/* What the generator reads next: of each text that goes on, its last tokens. */
typedef struct reading {
  int64_t *slots, *lengths;
  const int32_t **ids;
  int64_t count;
} reading;

/* The last `unread` tokens behind those that are held, or where there is no room for them, the last `kept` alone. */
static void add_unread(tri_generation *g, int64_t slot, const tri_written *w, int64_t unread, int64_t kept,
                       reading *to) {
  if (tri_generator_length(g->generator, slot) + unread > g->positions) {
    say_slid(g);
    tri_generator_restart_one(g->generator, slot);
    unread = kept;
  }
  to->slots[to->count] = slot;
  to->lengths[to->count] = unread;
  to->ids[to->count++] = w->tokens.ids + w->tokens.count - unread;
}

/* A token more of all texts that are read. */
static tri_status take_turn(tri_generation *g, tri_written *texts, const reading *r) {
  const double *logits = NULL;
  TRI_TRY(tri_generator_append_each(g->generator, r->count, r->slots, r->ids, r->lengths, &logits));
  for (int64_t i = 0; i < r->count; i++) TRI_TRY(take_next(g, &texts[r->slots[i]], logits + i * g->model.vocab_size));
  return TRI_OK;
}

static tri_status write_all(tri_generation *g, tri_written *texts, int64_t count, int64_t held, reading *r) {
  for (int64_t i = 0; i < count; i++) {
    if (held == 0) tri_generator_restart_one(g->generator, i);
    add_unread(g, i, &texts[i], texts[i].tokens.count - held, g->positions, r);
  }
  while (r->count > 0) {
    TRI_TRY(take_turn(g, texts, r));
    r->count = 0;
    for (int64_t i = 0; i < count; i++) {
      if (texts[i].end == TRI_TEXT_GOES_ON) add_unread(g, i, &texts[i], 1, (g->positions + 1) / 2, r);
    }
  }
  return TRI_OK;
}

tri_status tri_generation_write(tri_generation *g, tri_written *texts, int64_t count, int64_t held) {
  reading r = {0};
  tri_status status = tri_alloc("texts", (size_t)count, sizeof *r.slots, &r.slots);
  if (status == TRI_OK) status = tri_alloc("texts", (size_t)count, sizeof *r.lengths, &r.lengths);
  if (status == TRI_OK) status = tri_alloc("texts", (size_t)count, sizeof *r.ids, &r.ids);
  if (status == TRI_OK) status = write_all(g, texts, count, held, &r);
  tri_free(r.slots);
  tri_free(r.lengths);
  tri_free(r.ids);
  return status;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

json_t *tri_json_text(const char *text, size_t bytes) {
  static const char unknown[] = "\xEF\xBF\xBD"; /* U+FFFD */
  char *clean = NULL;
  size_t length = 0;
  if (tri_alloc("a text", 3 * bytes + 1, 1, &clean) != TRI_OK) return NULL;
  for (size_t at = 0; at < bytes;) {
    const size_t valid = tri_utf8_valid_bytes(text + at, bytes - at);
    memcpy(clean + length, text + at, valid);
    length += valid;
    at += valid;
    if (at == bytes) break;
    at += tri_utf8_invalid_bytes(text + at, bytes - at);
    memcpy(clean + length, unknown, 3);
    length += 3;
  }
  json_t *json = json_stringn(clean, length);
  tri_free(clean);
  return json;
}

json_t *tri_written_json(const tri_written *w) {
  json_t *text = tri_json_text(w->text.text, w->text.bytes);
  json_t *stop = w->text.stop == NULL ? json_null() : tri_json_text(w->text.stop, strlen(w->text.stop));
  return json_pack("{s:o, s:I, s:s, s:o}", "text", text, "tokens", (json_int_t)w->made, "finish",
                   tri_text_end_name(w->end), "stop", stop);
}

/* Of the checkpoint; null if the folder is not a checkpoint. */
static json_t *json_of_step(const tri_generation *g) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(g->weights.named);
  return state == NULL ? json_null() : json_integer(state->step);
}

json_t *tri_generation_json(const tri_generation *g, const tri_written *w) {
  json_t *line = json_pack("{s:o, s:I, s:I, s:o}", "step", json_of_step(g), "number", (json_int_t)w->number, "sample",
                           (json_int_t)w->sample, "prompt", tri_json_text(w->prompt, w->prompt_bytes));
  json_t *rest = tri_written_json(w);
  const bool whole = line != NULL && rest != NULL && json_object_update(line, rest) == 0;
  json_decref(rest);
  if (whole) return line;
  json_decref(line);
  return NULL;
}
