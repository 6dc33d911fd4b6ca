/* `eval MODEL --choices FILE`: scores the choices of each question with one checkpoint, all checkpoints of a run, or
 * several models. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "cli/running/eval_chat.h"
#include "cli/running/eval_questions.h"
#include "cli/running/eval_weights.h"
#include "cli/running/ranks.h"
#include "comm/agreement.h"
#include "data/same_tokenizer.h"
#include "engine/model_files.h"
#include "engine/rank_device.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "judge/quality.h"
#include "options/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { USUAL_BATCH = 16 };

typedef struct session {
  const tri_eval_questions *asked;
  tri_questions questions;
  tri_choice_set set; /* questions as tokens; created for the first model that can be read */
  bool encoded,
      refused; /* encoded: whether `set` is complete; refused: whether the encoding of the questions has failed */
  int64_t vocabulary, positions; /* vocab_size and max_sequence of the first model */
  tri_device *device;
  tri_replicas replicas; /* replicas of the models; created for the first model */
  bool grouped;          /* whether `replicas` was created */
  double seconds;        /* time that the last evaluation took */
  double weights_bytes;  /* memory of the weights in the last evaluation, in bytes */
} session;

/* ---- one checkpoint ---------------------------------------------------------------------------------------------- */

static void warn_of_shortened(const session *s) {
  const tri_choice_set *set = &s->set;
  if (set->shortened == 0) return;
  tri_warn("%s line %" PRId64 ": with a choice the question is longer than the model's %" PRId64
           " positions, and its beginning is left out; so it is with %" PRId64 " of %" PRId64 " choices of the file",
           s->asked->file, set->first_shortened, s->positions, set->shortened, set->num_texts);
}

/* Opens the tokenizer of a model's weights and an encoder of questions for it. The caller releases both, also after a
 * failure. */
static tri_status open_tokenizer(const tri_merged *weights, const tri_model *model, const tri_model_options *options,
                                 char source[TRI_PATH_BYTES], tri_tokenizer **tokenizer, tri_pair_encoder **encoder) {
  TRI_TRY(tri_model_files_tokenizer(weights, options->tokenizer, !options->no_verify, source));
  if (source[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "%s has no tokenizer.json; name one with --tokenizer",
                    tri_checkpoint_path(weights->named));
  }
  TRI_TRY(tri_tokenizer_create(source, tokenizer));
  TRI_TRY(tri_same_tokenizer(tri_model_files_tokenizer_folder(weights), options->tokenizer, *tokenizer));
  TRI_TRY(tri_tokenizer_fits_model(*tokenizer, model->vocab_size));
  tri_tokenizer_log_class(*tokenizer);
  return tri_pair_encoder_create(*tokenizer, encoder);
}

/* Turns the questions into prompts, and logs the first one. With --chat, renders each question with the model's chat
 * template; otherwise puts the description of the question's form before it. */
static tri_status phrase_questions(session *s, const char *tokenizer_file, tri_pair_encoder *encoder) {
  const tri_eval_questions *asked = s->asked;
  tri_eval_chat chat = {.system = NULL};
  tri_status status = TRI_OK;
  if (asked->chat) {
    status = tri_eval_chat_open(tokenizer_file, asked->system, &chat);
    tri_pair_encoder_expect_rendered(encoder);
  } else {
    tri_eval_chat_warn_unused(tokenizer_file, asked->model);
  }
  for (int64_t i = 0; i < s->questions.count && status == TRI_OK; i++) {
    tri_question *q = &s->questions.list[i];
    status = asked->chat ? tri_eval_chat_apply(&chat, &q->description, &q->context) : tri_question_join(q);
  }
  tri_eval_chat_close(&chat);
  if (status == TRI_OK) tri_eval_log_prompt(s->questions.list[0].form, &s->questions.list[0].context);
  for (int64_t i = 1; i < s->questions.count && status == TRI_OK; i++) {
    if (s->questions.list[i].form == s->questions.list[0].form) continue;
    tri_log("line %" PRId64 " has another form: %s", s->questions.list[i].line, s->questions.list[i].form);
    break;
  }
  return status;
}

/* Encodes the questions with the tokenizer of the first checkpoint, and warns of shortened ones. All checkpoints of a
 * run use the result. */
static tri_status encode_questions(session *s, const tri_merged *weights, const tri_model *model) {
  tri_tokenizer *tokenizer = NULL;
  tri_pair_encoder *encoder = NULL;
  s->vocabulary = model->vocab_size;
  s->positions = model->max_sequence;
  char file[TRI_PATH_BYTES];
  tri_status status = open_tokenizer(weights, model, s->asked->options, file, &tokenizer, &encoder);
  if (status == TRI_OK) status = phrase_questions(s, file, encoder);
  if (status == TRI_OK) {
    status = tri_choice_set_create(s->asked->file, &s->questions, encoder, s->positions, &s->set);
  }
  if (status == TRI_OK) warn_of_shortened(s);
  tri_pair_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

/* Encodes the questions, unless that is done. Fails with TRI_BAD_FILE if the model has another vocabulary or another
 * number of positions than the one whose tokenizer encoded them. */
static tri_status use_questions(session *s, const tri_merged *weights, const tri_model *model) {
  if (!s->encoded) {
    tri_status status = encode_questions(s, weights, model);
    s->encoded = status == TRI_OK;
    s->refused = status != TRI_OK;
    return status;
  }
  if (s->vocabulary == model->vocab_size && s->positions == model->max_sequence) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s is another model than the checkpoints before it",
                  tri_checkpoint_path(weights->named));
}

/* Creates a scorer for batches of --batch texts, or of all texts of the set if these are fewer. */
static tri_status create_scorer(const session *s, const tri_model *model, tri_scorer **out) {
  const int64_t batch = s->asked->batch > 0 ? s->asked->batch : USUAL_BATCH;
  return tri_scorer_create(model, s->asked->options->precision, batch < s->set.num_texts ? batch : s->set.num_texts,
                           s->set.longest, &s->replicas, s->device, out);
}

static void show_progress(int64_t done, int64_t all) {
  tri_log_progress("%5.1f %%", 100.0 * (double)done / (double)all);
}

/* COLLECTIVE. Returns the common status of all ranks. With --all-checkpoints a failure of one checkpoint does not end
 * the evaluation, so all ranks get its error message. */
static tri_status agree(const session *s, tri_status status) {
  return s->asked->all_checkpoints ? tri_common_failure(s->asked->group, status)
                                   : tri_ranks_agree(s->asked->group, status);
}

/* COLLECTIVE. Creates a scorer with the weights of a checkpoint. The caller destroys *out, also after a failure. */
static tri_status load_scorer(session *s, const tri_merged *weights, const tri_model *model, tri_scorer **out) {
  if (!s->grouped) TRI_TRY(tri_replicas_create(s->asked->group, s->asked->tensor, model, weights, &s->replicas));
  s->grouped = true;
  TRI_TRY(agree(s, create_scorer(s, model, out)));
  tri_executor *executor = tri_scorer_executor(*out);
  TRI_TRY(agree(s, tri_model_files_load(weights, TRI_MODEL_FILES_WHOLE, tri_scorer_parameters(*out),
                                        &s->replicas.replica, executor)));
  return tri_model_files_agree(s->asked->group, weights, executor);
}

static tri_status judge_checkpoint(session *s, const char *path, tri_judgement *out) {
  const tri_model_options *options = s->asked->options;
  const tri_checkpoint_use use = tri_model_options_use(options);
  tri_model model;
  tri_merged weights = {0};
  tri_scorer *scorer = NULL;
  tri_status status = tri_merged_open(path, options->base, &use, &model, &weights);
  if (status == TRI_OK) status = tri_model_options_apply(options, &model);
  if (status == TRI_OK) status = use_questions(s, &weights, &model);
  status = agree(s, status);
  if (status == TRI_OK) status = load_scorer(s, &weights, &model, &scorer);
  const double begin_s = tri_clock_s();
  if (status == TRI_OK) status = tri_choices_judge(scorer, &s->set, show_progress, out);
  s->seconds = tri_clock_s() - begin_s;
  if (status == TRI_OK) s->weights_bytes = tri_weights_row_bytes(tri_scorer_executor(scorer));
  tri_log_progress_end();
  tri_scorer_destroy(scorer);
  tri_merged_close(&weights);
  return status;
}

/* Sets the key NAME_stderr of an object; null if the error is not finite, because JSON has no such number. */
static void set_error(json_t *object, const char *name, double error) {
  char key[64];
  snprintf(key, sizeof key, "%s_stderr", name);
  json_object_set_new(object, key, tri_json_number(error));
}

static json_t *question_json(const tri_question *q, const tri_judged_question *judged, const tri_scored_text *texts) {
  json_t *likelihoods = json_array(), *tokens = json_array();
  json_t *object = json_pack("{s:I, s:I}", "line", (json_int_t)q->line, "answer", (json_int_t)q->answer);
  for (int64_t i = 0; i < q->num_choices; i++) {
    json_array_append_new(likelihoods, json_real(judged->log_likelihoods[i]));
    json_array_append_new(tokens, json_integer(texts[i].count - texts[i].first));
  }
  json_object_set_new(object, "log_likelihoods", likelihoods);
  json_object_set_new(object, "tokens", tokens);
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) {
    json_object_set_new(object, tri_choice_measure_name((tri_choice_measure)m),
                        json_boolean(judged->chosen[m] == q->answer));
  }
  json_object_set_new(object, "chosen", json_integer(judged->chosen[TRI_CHOICE_ACC]));
  json_object_set_new(object, "probability", json_real(judged->probability));
  return object;
}

static void add_measures(json_t *object, const tri_judgement *j) {
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) {
    const char *name = tri_choice_measure_name((tri_choice_measure)m);
    json_object_set_new(object, name, json_real(j->accuracy[m]));
    set_error(object, name, j->error[m]);
  }
  json_object_set_new(object, "probability", json_real(j->probability));
  set_error(object, "probability", j->probability_error);
}

static tri_status print_one_json(const session *s, const tri_judgement *j) {
  json_t *results = json_array();
  json_t *object =
      json_pack("{s:I, s:I}", "questions", (json_int_t)j->count, "shortened", (json_int_t)s->set.shortened);
  add_measures(object, j);
  const tri_scored_text *texts = s->set.texts;
  for (int64_t i = 0; i < j->count; i++) {
    const tri_question *q = &s->questions.list[i];
    json_array_append_new(results, question_json(q, &j->questions[i], texts));
    texts += q->num_choices;
  }
  json_object_set_new(object, "results", results);
  return tri_print_json(object);
}

static void print_line(const char *name, double value, double error, const char *what) {
  char spread[32] = "";
  if (isfinite(error)) snprintf(spread, sizeof spread, "+- %.4f", error);
  printf("%-15s %.4f %-9s  %s\n", name, value, spread, what);
}

static void print_one(const tri_judgement *j) {
  static const char *const what[] = {"by likelihood of the whole choice", "by likelihood per character",
                                     "by likelihood per byte"};
  printf("questions       %" PRId64 "\n", j->count);
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) {
    print_line(tri_choice_measure_name((tri_choice_measure)m), j->accuracy[m], j->error[m], what[m]);
  }
  print_line("probability", j->probability, j->probability_error,
             "mean probability of the right choice among the given ones");
}

static tri_status judge_one(session *s) {
  tri_judgement judgement = {0};
  tri_status status = judge_checkpoint(s, s->asked->model, &judgement);
  if (status == TRI_OK && s->asked->json) status = print_one_json(s, &judgement);
  if (status == TRI_OK && !s->asked->json) print_one(&judgement);
  tri_judgement_release(&judgement);
  return status;
}

/* ---- all checkpoints --------------------------------------------------------------------------------------------- */

static tri_status print_all_json(const session *s, const tri_quality *q) {
  json_t *points = json_array(), *noise = json_object(), *with_steps = json_object();
  for (int64_t i = 0; i < q->count; i++) {
    const tri_quality_point *p = &q->points[i];
    json_t *object = json_pack("{s:I}", "step", (json_int_t)p->step);
    for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) {
      json_object_set_new(object, tri_quality_name(quality), json_real(p->value[quality]));
      set_error(object, tri_quality_name(quality), p->error[quality]);
    }
    json_object_set_new(object, "rank_correlation_with_end", tri_json_number(p->with_end));
    json_array_append_new(points, object);
  }
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) {
    json_object_set_new(noise, tri_quality_name(quality), tri_json_number(q->noise[quality]));
    json_object_set_new(with_steps, tri_quality_name(quality), tri_json_number(q->with_steps[quality]));
  }
  return tri_print_json(json_pack("{s:I, s:I, s:o, s:I, s:o, s:o}", "questions", (json_int_t)s->questions.count,
                                  "shortened", (json_int_t)s->set.shortened, "checkpoints", points, "last",
                                  (json_int_t)q->last, "noise", noise, "rank_correlation_with_step", with_steps));
}

static void print_cell(double value) {
  if (isfinite(value)) printf("  %11.4f", value);
  if (!isfinite(value)) printf("  %11s", "-");
}

static void print_row(const char *name, const double values[TRI_NUM_QUALITIES]) {
  printf("%-12s", name);
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) print_cell(values[quality]);
  putchar('\n');
}

static void print_all(const tri_quality *q) {
  char name[32];
  printf("%-12s", "step");
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) printf("  %11s", tri_quality_name(quality));
  printf("  %11s\n", "as at end");
  for (int64_t i = 0; i < q->count; i++) {
    printf("%-12" PRId64, q->points[i].step);
    for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) print_cell(q->points[i].value[quality]);
    print_cell(q->points[i].with_end);
    putchar('\n');
  }
  print_row("+- at end", q->points[q->count - 1].error);
  snprintf(name, sizeof name, "noise of %" PRId64, q->last);
  print_row(name, q->noise);
  print_row("with steps", q->with_steps);
}

static tri_status report_all(const session *s, const tri_judgement *judgements, const int64_t *steps, int64_t count) {
  tri_quality quality = {0};
  tri_status status = tri_quality_of(judgements, steps, count, &quality);
  if (status == TRI_OK && s->asked->svg != NULL && s->asked->group->rank == 0)
    status = tri_quality_draw(&quality, s->asked->model, s->asked->svg);
  if (status == TRI_OK && s->asked->json) status = print_all_json(s, &quality);
  if (status == TRI_OK && !s->asked->json) print_all(&quality);
  tri_quality_release(&quality);
  return status;
}

/* Evaluates each checkpoint. Skips a damaged checkpoint with a warning, because the others can be evaluated without it.
 * Fails with TRI_BAD_FILE if none is left. Sets `steps` and done to the steps and the number of those that were
 * evaluated. */
static tri_status judge_each(session *s, const tri_checkpoint_found *found, int64_t count, tri_judgement *judgements,
                             int64_t *steps, int64_t *done) {
  for (int64_t i = 0; i < count; i++) {
    tri_log("step %" PRId64, found[i].step);
    tri_status status = judge_checkpoint(s, found[i].path, &judgements[*done]);
    if (status == TRI_BAD_FILE && !s->refused) {
      tri_warn("passing over the checkpoint %s: %s", found[i].path, tri_status_message());
      tri_judgement_release(&judgements[*done]);
      continue;
    }
    steps[*done] = found[i].step;
    *done += 1;
    TRI_TRY(status);
  }
  if (*done > 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "none of the %" PRId64 " checkpoints of %s can be judged", count, s->asked->model);
}

static tri_status find_all(const char *run, tri_checkpoint_found **found, int64_t *count) {
  char root[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(root, run, "checkpoints"));
  TRI_TRY(tri_checkpoint_list(tri_path_is_directory(root) ? root : run, found, count));
  if (*count > 0) return TRI_OK;
  tri_free(*found);
  *found = NULL;
  return tri_fail(TRI_BAD_FILE, "%s has no checkpoints: --all-checkpoints is for a run's output", run);
}

static tri_status judge_all(session *s) {
  tri_checkpoint_found *found = NULL;
  tri_judgement *judgements = NULL;
  int64_t *steps = NULL, count = 0, done = 0;
  TRI_TRY(find_all(s->asked->model, &found, &count));
  tri_status status = tri_alloc("judgements", (size_t)count, sizeof *judgements, &judgements);
  if (status == TRI_OK) status = tri_alloc("steps", (size_t)count, sizeof *steps, &steps);
  if (status == TRI_OK) status = judge_each(s, found, count, judgements, steps, &done);
  if (status == TRI_OK) status = report_all(s, judgements, steps, done);
  for (int64_t i = 0; i < done && judgements != NULL; i++) tri_judgement_release(&judgements[i]);
  tri_free(steps);
  tri_free(judgements);
  tri_free(found);
  return status;
}

/* ---- several models ---------------------------------------------------------------------------------------------- */

static tri_status open_session(session *s) {
  TRI_TRY(tri_ranks_agree(s->asked->group, tri_questions_read(s->asked->file, s->asked->limit, &s->questions)));
  return tri_rank_device_create(s->asked->options->device, (int)s->asked->options->threads, &s->device);
}

static void close_session(session *s) {
  tri_choice_set_release(&s->set);
  tri_questions_release(&s->questions);
  tri_device_destroy(s->device);
  if (s->grouped) tri_replicas_destroy(&s->replicas);
}

/* Evaluates one of several models. Each model has its own tokenizer and chat template, so the questions are read for
 * each model. Logs the name of the model. */
static tri_status judge_model(const tri_eval_questions *asked, const char *model, tri_judgement *out) {
  tri_eval_questions own = *asked;
  own.model = model;
  session s = {.asked = &own};
  tri_log("%s", model);
  tri_status status = open_session(&s);
  if (status == TRI_OK) status = judge_checkpoint(&s, model, out);
  close_session(&s);
  return status;
}

static json_t *model_json(const char *model, const tri_judgement *j) {
  json_t *object = json_pack("{s:s, s:I}", "model", model, "questions", (json_int_t)j->count);
  add_measures(object, j);
  return object;
}

static void print_model(const char *model, const tri_judgement *j) {
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) printf("%-12.4f", j->accuracy[m]);
  printf("%-12.4f  %s\n", j->probability, model);
}

static tri_status judge_models(const tri_eval_questions *asked) {
  json_t *rows = json_array();
  tri_status status = TRI_OK;
  for (int i = 0; i < asked->num_models && status == TRI_OK; i++) {
    tri_judgement judgement = {0};
    status = judge_model(asked, asked->models[i], &judgement);
    if (status == TRI_OK && i == 0 && !asked->json) {
      for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) printf("%-12s", tri_choice_measure_name((tri_choice_measure)m));
      printf("%-12s  of %" PRId64 " questions\n", "probability", judgement.count);
    }
    if (status == TRI_OK && !asked->json) print_model(asked->models[i], &judgement);
    if (status == TRI_OK) json_array_append_new(rows, model_json(asked->models[i], &judgement));
    tri_judgement_release(&judgement);
  }
  if (status == TRI_OK && asked->json) return tri_print_json(json_pack("{s:o}", "models", rows));
  json_decref(rows);
  return status;
}

/* ---- several forms of the weights -------------------------------------------------------------------------------- */

/* Evaluates the model with one form of its weights. */
static tri_status judge_form(const tri_eval_questions *asked, tri_weights_row *row) {
  session s = {.asked = asked};
  tri_judgement j = {0};
  tri_status status = open_session(&s);
  if (status == TRI_OK) status = judge_checkpoint(&s, asked->model, &j);
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) row->values[m] = j.accuracy[m];
  row->values[TRI_NUM_CHOICE_MEASURES] = j.probability;
  for (int64_t i = 0; i < s.set.num_texts; i++) row->tokens += (double)s.set.texts[i].count;
  row->bytes = s.weights_bytes;
  row->seconds = s.seconds;
  tri_judgement_release(&j);
  close_session(&s);
  return status;
}

static tri_status judge_forms(const tri_eval_questions *asked) {
  tri_weights_table table = {.columns = {NULL}};
  tri_model_options options = *asked->options;
  tri_eval_questions own = *asked;
  own.options = &options;
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) table.columns[m] = tri_choice_measure_name((tri_choice_measure)m);
  table.columns[TRI_NUM_CHOICE_MEASURES] = "probability";
  for (int i = 0; i < options.num_forms; i++) {
    tri_model_options_choose(&options, i);
    tri_log("--weights %s", options.forms[i]->name);
    TRI_TRY(judge_form(&own, &table.rows[i]));
  }
  return tri_weights_table_print(&table, &options, asked->json);
}

tri_status tri_eval_choices(const tri_eval_questions *asked) {
  session s = {.asked = asked};
  if (asked->options->num_forms > 1 && (asked->num_models > 1 || asked->all_checkpoints))
    return tri_fail(TRI_BAD_USAGE, "eval: several --weights are compared for one model or checkpoint");
  if (asked->options->num_forms > 1) return judge_forms(asked);
  if (asked->num_models > 1) return judge_models(asked);
  tri_status status = open_session(&s);
  if (status == TRI_OK) status = asked->all_checkpoints ? judge_all(&s) : judge_one(&s);
  close_session(&s);
  return status;
}
