/* `eval MODEL --answers FILE`: the model generates an answer to each question, and the answer is compared with the
 * right one. */
#include "base/log.h"
#include "base/memory.h"
#include "cli/running/eval_chat.h"
#include "cli/running/eval_questions.h"
#include "cli/running/ranks.h"
#include "files/json_kind.h"
#include "generation/texts.h"
#include "options/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_BATCH = 8 };

typedef struct session {
  const tri_eval_questions *asked;
  tri_asked_list questions;
  tri_generation_request request;
  tri_generation generation;
  tri_eval_chat chat;
  tri_prompt *prompts; /* [questions.count] */
  tri_texts texts;
  /* A list with an object for each question. */
  json_t *results;
  json_t *written;        /* answers to the current question */
  int64_t right;          /* number of right answers */
  int64_t solved;         /* number of questions with at least one right answer */
  int64_t right_here;     /* number of right answers to the current question */
  double shares, squares; /* sums over the questions: of the share of right answers, and of the square of this share */
} session;

/* Removes the beginning of each prompt that leaves no room for an answer, with one warning for all. Fails with
 * TRI_BAD_USAGE if an answer alone fills the model's positions. */
static tri_status shorten_prompts(session *s) {
  const int64_t positions = s->generation.model.max_sequence, tokens = s->asked->rule.tokens;
  int64_t shortened = 0, first = 0;
  if (tokens >= positions) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokens %" PRId64 " leaves nothing of the model's %" PRId64 " positions to a prompt", tokens,
                    positions);
  }
  for (int64_t i = 0; i < s->texts.count; i++) {
    tri_written *text = &s->texts.list[i];
    if (text->prompt_tokens <= positions - tokens) continue;
    tri_written_keep_last(text, positions - tokens);
    if (i % s->texts.samples == 0 && shortened++ == 0) first = s->questions.list[text->number].line;
  }
  if (shortened == 0) return TRI_OK;
  tri_warn("%s line %" PRId64 ": with an answer the prompt is longer than the model's %" PRId64
           " positions, and its beginning is left out; so it is with %" PRId64 " of %" PRId64 " prompts of the file",
           s->asked->file, first, positions, shortened, s->questions.count);
  return TRI_OK;
}

/* Renders the questions with the chat template, if that is requested; otherwise logs a line if the model has one. Adds
 * the text with which the template ends a turn to the texts that end an answer. */
static tri_status apply_template(session *s) {
  const tri_eval_questions *asked = s->asked;
  const tri_generation *g = &s->generation;
  const tri_judge_text nothing = {0};
  if (!asked->chat) {
    tri_eval_chat_warn_unused(g->tokenizer_file, asked->model);
    return TRI_OK;
  }
  TRI_TRY(tri_eval_chat_open(g->tokenizer_file, asked->system, &s->chat));
  if (s->chat.prompts.turn_end[0] != '\0') s->request.stops[s->request.num_stops++] = s->chat.prompts.turn_end;
  for (int64_t i = 0; i < s->questions.count; i++) {
    TRI_TRY(tri_eval_chat_apply(&s->chat, &nothing, &s->questions.list[i].prompt));
  }
  return TRI_OK;
}

static tri_status begin_texts(session *s) {
  const size_t count = (size_t)s->questions.count;
  TRI_TRY(apply_template(s));
  tri_eval_log_prompt(NULL, &s->questions.list[0].prompt);
  TRI_TRY(tri_alloc("prompts", count, sizeof *s->prompts, &s->prompts));
  for (size_t i = 0; i < count; i++) {
    const tri_judge_text *prompt = &s->questions.list[i].prompt;
    s->prompts[i] = (tri_prompt){.text = prompt->text, .bytes = prompt->bytes, .rendered = s->asked->chat};
  }
  const tri_texts_request request = {.prompts = s->prompts,
                                     .num_prompts = s->questions.count,
                                     .samples = s->asked->samples,
                                     .batch = s->asked->batch > 0 ? s->asked->batch : USUAL_BATCH,
                                     .tokens = s->asked->rule.tokens};
  TRI_TRY(tri_texts_begin(&s->generation, &request, &s->texts));
  return shorten_prompts(s);
}

static tri_status answers_set_up(session *s) {
  const tri_eval_questions *asked = s->asked;
  const double usual = asked->samples > 1 ? 1 : 0;
  s->request = (tri_generation_request){.checkpoint = asked->model,
                                        .num_stops = tri_answer_stops(&asked->rule),
                                        .temperature = asked->temperature >= 0 ? asked->temperature : usual,
                                        .top_k = 0,
                                        .top_p = 1,
                                        .min_p = 0,
                                        .repetition_penalty = 1,
                                        .seed = asked->seed,
                                        .group = asked->group,
                                        .tensor = asked->tensor,
                                        .model = *asked->options};
  memcpy(s->request.stops, asked->rule.until, (size_t)s->request.num_stops * sizeof *s->request.stops);
  TRI_TRY(tri_asked_read(asked->file, asked->limit, &s->questions));
  TRI_TRY(tri_generation_open(&s->request, &s->generation));
  return begin_texts(s);
}

/* Returns an answer as a JSON string; null if the answer is not UTF-8. */
static json_t *json_of_answer(const tri_judge_text *text) {
  json_t *written = json_string(text->text);
  return written == NULL ? json_null() : written;
}

/* Adds a line to the results, and the counts of the question to the sums. Called when all samples of the question are
 * complete. */
static void end_question(session *s, const tri_asked *a) {
  const int64_t samples = s->texts.samples;
  const double share = (double)s->right_here / (double)samples;
  json_t *line = json_pack("{s:I}", "line", (json_int_t)a->line);
  if (samples == 1) {
    json_object_set(line, "text", json_array_get(s->written, 0));
    json_object_set_new(line, "exact_match", json_boolean(s->right_here > 0));
  } else {
    json_object_set_new(line, "texts", json_copy(s->written));
    json_object_set_new(line, "right", json_integer((json_int_t)s->right_here));
  }
  json_array_append_new(s->results, line);
  json_array_clear(s->written);
  s->right += s->right_here;
  s->solved += s->right_here > 0;
  s->shares += share;
  s->squares += share * share;
  s->right_here = 0;
}

static tri_status judge_answer(void *context, tri_written *written) {
  session *s = context;
  const tri_asked *a = &s->questions.list[written->number];
  const int64_t last = s->texts.samples - 1;
  tri_judge_text text = {0};
  bool right = false;
  tri_status status = tri_answer_text(written->text.text, written->text.bytes, &text);
  if (status == TRI_OK) status = tri_answer_matches(&s->asked->rule, a, &text, &right);
  if (status == TRI_OK) {
    json_array_append_new(s->written, json_of_answer(&text));
    s->right_here += right;
    if ((int64_t)written->sampling.sample == last) end_question(s, a);
  }
  tri_judge_text_release(&text);
  tri_log_progress("%5.1f %%", 100.0 * (double)(s->texts.reported + 1) / (double)s->texts.count);
  return status;
}

static tri_status answers_report(session *s) {
  const double n = (double)s->questions.count, share = s->shares / n, samples = (double)s->texts.samples;
  const double error = n < 2 ? NAN : sqrt(fmax(s->squares / n - share * share, 0) / (n - 1));
  const double solved = (double)s->solved / n;
  if (s->asked->json) {
    json_t *object = json_pack("{s:I, s:f, s:o}", "questions", (json_int_t)s->questions.count, "exact_match", share,
                               "exact_match_stderr", tri_json_number(error));
    if (samples > 1) {
      json_object_set_new(object, "samples", json_integer((json_int_t)s->texts.samples));
      json_object_set_new(object, "avg_at_k", json_real(share));
      json_object_set_new(object, "pass_at_k", json_real(solved));
    }
    json_object_set(object, "results", s->results);
    return tri_print_json(object);
  }
  printf("questions       %" PRId64 "\nexact_match     %.4f", s->questions.count, share);
  if (isfinite(error)) printf(" +- %.4f", error);
  putchar('\n');
  if (samples > 1)
    printf("avg@%-11" PRId64 " %.4f\npass@%-10" PRId64 " %.4f\n", s->texts.samples, share, s->texts.samples, solved);
  return TRI_OK;
}

tri_status tri_eval_answers(const tri_eval_questions *asked) {
  session *s = NULL;
  TRI_TRY(tri_alloc("a session", 1, sizeof *s, &s));
  s->asked = asked;
  s->results = json_array();
  s->written = json_array();
  tri_status status = tri_ranks_agree(asked->group, answers_set_up(s));
  if (status == TRI_OK) status = tri_texts_load(&s->texts);
  if (status == TRI_OK) status = tri_texts_write(&s->texts, judge_answer, s);
  tri_log_progress_end();
  if (status == TRI_OK && asked->group->rank == 0) status = answers_report(s);
  json_decref(s->results);
  json_decref(s->written);
  tri_texts_release(&s->texts);
  tri_generation_close(&s->generation);
  tri_eval_chat_close(&s->chat);
  tri_free(s->prompts);
  tri_asked_release(&s->questions);
  tri_free(s);
  return status;
}
