/* `eval MODEL --answers FILE`: the model writes, and what it writes is compared. */
#include "base/json_kind.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/running/eval_questions.h"
#include "engine/weights.h"
#include "options/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

typedef struct session {
  const tri_eval_questions *asked;
  tri_asked_list questions;
  tri_model model;
  tri_merged weights;
  tri_tokenizer *tokenizer;
  tri_pair_encoder *encoder;
  tri_device *device;
  tri_generator *generator;
  tri_token_list *prompts; /* [questions.count] */
  int64_t room;            /* tokens of a prompt that are read */
  json_t *results;
  int64_t right;
} session;

/* As many positions as the longest prompt and an answer take. */
static tri_status encode_prompts(session *s) {
  const int64_t positions = s->model.max_sequence, tokens = s->asked->rule.tokens;
  int64_t longest = 1, shortened = 0, first = 0;
  if (tokens >= positions) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokens %" PRId64 " leaves nothing of the model's %" PRId64 " positions to a prompt", tokens,
                    positions);
  }
  s->room = positions - tokens;
  TRI_TRY(tri_alloc("prompts", (size_t)s->questions.count, sizeof *s->prompts, &s->prompts));
  for (int64_t i = 0; i < s->questions.count; i++) {
    const tri_asked *a = &s->questions.list[i];
    TRI_TRY(tri_pair_encode_prompt(s->encoder, &a->prompt, &s->prompts[i]));
    if (s->prompts[i].count > longest) longest = s->prompts[i].count;
    if (s->prompts[i].count <= s->room) continue;
    if (shortened++ == 0) first = a->line;
  }
  if (longest < s->room) s->room = longest;
  if (shortened == 0) return TRI_OK;
  tri_warn("%s line %" PRId64 ": with an answer the prompt is longer than the model's %" PRId64
           " positions, and its beginning is left out; so it is with %" PRId64 " of %" PRId64 " prompts of the file",
           s->asked->file, first, positions, shortened, s->questions.count);
  return TRI_OK;
}

static tri_status answers_set_up(session *s) {
  const tri_model_options *options = s->asked->options;
  const tri_checkpoint_use use = tri_model_options_use(options);
  TRI_TRY(tri_asked_read(s->asked->file, &s->questions));
  TRI_TRY(tri_merged_open(s->asked->model, options->base, &use, &s->model, &s->weights));
  TRI_TRY(tri_eval_tokenizer(&s->weights, &s->model, options, &s->tokenizer, &s->encoder));
  TRI_TRY(encode_prompts(s));
  TRI_TRY(tri_device_create(options->device, (int)options->threads, &s->device));
  TRI_TRY(tri_generator_create(&s->model, options->precision, s->room + s->asked->rule.tokens, s->room, s->device,
                               &s->generator));
  return tri_weights_load(&s->weights, tri_generator_parameters(s->generator), tri_generator_executor(s->generator));
}

/* What the model wrote need not be UTF-8: then null stands for it. */
static void note(session *s, const tri_asked *a, const tri_judge_text *text, bool right) {
  json_t *written = json_string(text->text);
  json_array_append_new(s->results, json_pack("{s:I, s:o, s:b}", "line", (json_int_t)a->line, "text",
                                              written == NULL ? json_null() : written, "exact_match", right));
  s->right += right;
}

static tri_status ask(session *s, int64_t i) {
  const tri_asked *a = &s->questions.list[i];
  tri_judge_text text = {0};
  bool right = false;
  tri_status status =
      tri_answer_make(s->generator, s->tokenizer, s->model.vocab_size, &s->asked->rule, &s->prompts[i], s->room, &text);
  if (status == TRI_OK) status = tri_answer_matches(&s->asked->rule, a, &text, &right);
  if (status == TRI_OK) note(s, a, &text, right);
  tri_judge_text_release(&text);
  return status;
}

static tri_status answers_report(session *s) {
  const double n = (double)s->questions.count, share = (double)s->right / n;
  const double error = n < 2 ? NAN : sqrt(share * (1 - share) / (n - 1));
  if (s->asked->json) {
    json_t *object = json_pack("{s:I, s:f, s:o, s:O}", "questions", (json_int_t)s->questions.count, "exact_match",
                               share, "exact_match_stderr", tri_json_number(error), "results", s->results);
    return tri_print_json(object);
  }
  printf("questions       %" PRId64 "\nexact_match     %.4f", s->questions.count, share);
  if (isfinite(error)) printf(" +- %.4f", error);
  putchar('\n');
  return TRI_OK;
}

static tri_status ask_all(session *s) {
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < s->questions.count && status == TRI_OK; i++) {
    status = ask(s, i);
    tri_log_progress("%5.1f %%", 100.0 * (double)(i + 1) / (double)s->questions.count);
  }
  tri_log_progress_end();
  return status;
}

tri_status tri_eval_answers(const tri_eval_questions *asked) {
  session s = {.asked = asked, .results = json_array()};
  tri_status status = answers_set_up(&s);
  if (status == TRI_OK) status = ask_all(&s);
  if (status == TRI_OK) status = answers_report(&s);
  json_decref(s.results);
  for (int64_t i = 0; i < s.questions.count && s.prompts != NULL; i++) tri_free(s.prompts[i].ids);
  tri_free(s.prompts);
  tri_generator_destroy(s.generator);
  tri_device_destroy(s.device);
  tri_pair_encoder_destroy(s.encoder);
  tri_tokenizer_destroy(s.tokenizer);
  tri_merged_close(&s.weights);
  tri_asked_release(&s.questions);
  return status;
}
