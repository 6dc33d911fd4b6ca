#include "cli/running/eval_text.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/run_notes.h"
#include "cli/running/eval_bytes.h"
#include "cli/running/eval_model.h"
#include "cli/running/eval_weights.h"
#include "cli/running/ranks.h"
#include "data/bigram.h"
#include "data/eval_windows.h"
#include "files/json_kind.h"
#include "options/options.h"
#include "run/run_config.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Mark in place of the log-probability of a label that does not count. */
#define UNCOUNTED HUGE_VAL

/* Sums over the models of an ensemble. All models score the same labels. */
typedef struct ensemble {
  double *log_sums; /* [labels]: log of the sum of the models' probabilities; NULL before the first model */
  double *losses;   /* [models]: loss of each single model */
  int models;       /* number of models so far */
} ensemble;

typedef struct session {
  const tri_eval_text *asked;
  const char *checkpoint;
  ensemble *ensemble; /* NULL: a single model */
  int64_t sequence, batch;
  int64_t ignore_token;        /* labels with this id do not count, as in training; -1: unused */
  tri_document_use use;        /* whether documents attend to each other */
  tri_packing_use packing;     /* how documents become sequences */
  tri_too_long too_long;       /* handling of documents that are longer than a sequence */
  bool limited;                /* whether the corpus has more sequences than asked->limit */
  const struct session *first; /* session of an ensemble's first model; NULL: this session is the first */
  tri_eval_windows windows;
  tri_model model;
  tri_merged weights;
  tri_eval_model run;
  tri_tokenizer *tokenizer; /* NULL: bits per byte are not computed, because there is no tokenizer */
  tri_bigram *bigram;       /* baseline; NULL: not requested */
  double bigram_sum;        /* sum of the losses of the counted labels under the bigram model */
  tri_evaluation total;
  double seconds;          /* time that the evaluation took */
  tri_label_bytes text;    /* counter of the bytes of all labels */
  tri_token_place *places; /* [batch, sequence] + 1: places of the tokens, and of the token after the last one */
} session;

static tri_status set_documents(session *s) {
  const tri_eval_text *given = s->asked;
  if (given->documents != NULL &&
      (!tri_run_config_find_documents(given->documents, &s->use) || s->use == TRI_DOCUMENTS_AUTO)) {
    return tri_option_word("--documents", given->documents, (const char *const[]){"joined", "masked"}, 2, &(int){0});
  }
  if (given->packing != NULL &&
      (!tri_run_config_find_packing(given->packing, &s->packing) || s->packing == TRI_PACKING_AUTO)) {
    return tri_option_word("--packing", given->packing, (const char *const[]){"windows", "documents"}, 2, &(int){0});
  }
  return TRI_OK;
}

static bool is_masked(const session *s) { return s->use == TRI_DOCUMENTS_MASKED; }

static bool is_packed(const session *s) { return s->packing == TRI_PACKING_DOCUMENTS; }

/* Logs how texts become sequences. `by`: text about the origin of this choice (origin_of). */
static void log_shape(const session *s, const char *by) {
  tri_log("in sequences of %" PRId64 " tokens (documents: %s, packing: %s%s%s)%s", s->sequence,
          tri_run_config_documents(s->use), tri_run_config_packing(s->packing), is_packed(s) ? ", too_long: " : "",
          is_packed(s) ? tri_run_config_too_long(s->too_long) : "", by);
}

/* Returns a text for the log about the origin of the shape of sequences. `masked`: whether the corpus has a mask;
 * `known`: whether the settings of training are known. */
static const char *origin_of(const session *s, bool masked, bool known) {
  enum { BY_MASK, BY_TRAINING, UNKNOWN, ORIGINS, NO_OPTION = 0, SOME_OPTIONS, ALL_OPTIONS, CHOICES };
  static const char all[] = ", as the options say";
  static const char *const origins[ORIGINS][CHOICES] = {
      [BY_MASK] = {", since the corpus has a mask", ", as set by the options, otherwise as for a corpus with a mask",
                   all},
      [BY_TRAINING] = {", as in training", ", as set by the options, otherwise as in training", all},
      [UNKNOWN] = {", because the settings of training are unknown; change them with --sequence, --documents and "
                   "--packing",
                   ", as set by the options; the settings of training are unknown", all}};
  const int given = (s->asked->sequence > 0) + (s->asked->documents != NULL) + (s->asked->packing != NULL);
  const int choice = given == 0 ? NO_OPTION : given < 3 ? SOME_OPTIONS : ALL_OPTIONS;
  if (masked) return origins[BY_MASK][choice];
  return origins[known ? BY_TRAINING : UNKNOWN][choice];
}

/* Chooses and logs the shape of sequences: that of the options, otherwise that of training if the checkpoint has it,
 * otherwise the usual one. A corpus with a mask contains conversations, which are packed and masked. */
static tri_status choose_alone(session *s, const tri_run_notes *notes) {
  const tri_eval_text *given = s->asked;
  const bool masked = tri_corpus_has_mask(s->asked->corpus);
  s->sequence = notes->known ? notes->sequence : s->model.max_sequence < 1024 ? s->model.max_sequence : 1024;
  s->batch = 4;
  s->ignore_token = notes->ignore_token;
  s->use = masked ? TRI_DOCUMENTS_MASKED : TRI_DOCUMENTS_JOINED;
  s->packing = masked ? TRI_PACKING_DOCUMENTS : TRI_PACKING_WINDOWS;
  s->too_long = TRI_TOO_LONG_CUT;
  if (!masked) tri_run_config_find_documents(notes->documents, &s->use);
  if (!masked) tri_run_config_find_packing(notes->packing, &s->packing);
  tri_run_config_find_too_long(notes->too_long, &s->too_long);
  TRI_TRY(set_documents(s));
  if (given->sequence > 0) s->sequence = given->sequence;
  if (given->batch > 0) s->batch = given->batch;
  log_shape(s, origin_of(s, masked, notes->known));
  return TRI_OK;
}

/* Copies the shape of sequences from the first model of an ensemble. Logs a line if this model was trained with
 * another. */
static void choose_like(session *s, const session *first, const tri_run_notes *notes) {
  s->sequence = first->sequence;
  s->batch = first->batch;
  s->ignore_token = first->ignore_token;
  s->use = first->use;
  s->packing = first->packing;
  s->too_long = first->too_long;
  const bool same = !notes->known || (notes->sequence == s->sequence &&
                                      strcmp(notes->documents, tri_run_config_documents(s->use)) == 0 &&
                                      strcmp(notes->packing, tri_run_config_packing(s->packing)) == 0);
  if (!same) {
    tri_log("%s was trained in sequences of %" PRId64
            " tokens (documents: %s, packing: %s); here it is evaluated like the first",
            s->checkpoint, notes->sequence, notes->documents, notes->packing);
  }
}

static tri_status choose_shape(session *s) {
  tri_run_notes notes;
  TRI_TRY(tri_run_notes_of(&s->weights, &notes));
  if (s->first == NULL) TRI_TRY(choose_alone(s, &notes));
  if (s->first != NULL) choose_like(s, s->first, &notes);
  if (s->sequence <= s->model.max_sequence) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--sequence %" PRId64 " is beyond the model's max_sequence of %" PRId64, s->sequence,
                  s->model.max_sequence);
}

static tri_status create_model(session *s) {
  const tri_eval_shape shape = {.purpose = s->ensemble == NULL ? TRI_LIST_EVALUATE : TRI_LIST_SCORE,
                                .batch = s->batch,
                                .sequence = s->sequence,
                                .masked = is_masked(s)};
  return tri_eval_model_create(&s->model, &s->weights, s->asked->options, &shape, s->asked->group, s->asked->tensor,
                               &s->run);
}

static tri_status count_bigrams(session *s) {
  tri_corpus *train = NULL;
  TRI_TRY(tri_corpus_open(s->asked->bigram, &train));
  tri_status status = tri_corpus_check_same_tokenizer(train, s->asked->corpus);
  if (status == TRI_OK && tri_corpus_num_tokens(train) < 2) {
    status = tri_fail(TRI_BAD_FILE, "%s has %" PRId64 " token%s, but at least two are needed to count a pair",
                      s->asked->bigram, tri_corpus_num_tokens(train), TRI_PLURAL(tri_corpus_num_tokens(train)));
  }
  if (status == TRI_OK) status = tri_bigram_create(train, s->model.vocab_size, &s->bigram);
  tri_corpus_close(train);
  return status;
}

static tri_status create_windows(session *s) {
  const tri_eval_windows_options options = {
      .sequence = s->sequence,
      .vocab_size = s->model.vocab_size,
      .end_of_text = s->tokenizer == NULL ? -1 : tri_tokenizer_end_of_text(s->tokenizer),
      .ignore_token = s->ignore_token,
      .documents = s->use,
      .packing = s->packing,
      .too_long = s->too_long};
  TRI_TRY(tri_eval_windows_create(s->asked->corpus, &options, &s->windows));
  s->limited = s->asked->limit > 0 && s->asked->limit < s->windows.count;
  if (!s->limited) return TRI_OK;
  if (s->first == NULL) {
    tri_log("the first %" PRId64 " of the %" PRId64 " sequences of %s (--limit)", s->asked->limit, s->windows.count,
            s->asked->data);
  }
  s->windows.count = s->asked->limit;
  return TRI_OK;
}

static tri_status open_data(session *s) {
  const tri_model_options *options = s->asked->options;
  const tri_checkpoint_use use = tri_model_options_use(options);
  const tri_corpus *corpus = s->asked->corpus;
  TRI_TRY(tri_merged_open(s->checkpoint, options->base, &use, &s->model, &s->weights));
  TRI_TRY(tri_model_options_apply(options, &s->model));
  TRI_TRY(choose_shape(s));
  if (tri_corpus_num_tokens(corpus) < 2) {
    return tri_fail(TRI_BAD_FILE, "%s has %" PRId64 " token%s, but at least two are needed to predict one",
                    s->asked->data, tri_corpus_num_tokens(corpus), TRI_PLURAL(tri_corpus_num_tokens(corpus)));
  }
  TRI_TRY(tri_eval_corpus_tokenizer(&s->weights, options, corpus, &s->tokenizer));
  (void)tri_corpus_log_vocabulary(corpus, s->model.vocab_size);
  if (s->asked->bigram != NULL) TRI_TRY(count_bigrams(s));
  TRI_TRY(create_windows(s));
  TRI_TRY(tri_alloc("evaluation tokens", (size_t)(s->batch * s->sequence + 1), sizeof *s->places, &s->places));
  if (s->tokenizer != NULL) {
    s->text.unknown_token = tri_tokenizer_unknown(s->tokenizer);
    TRI_TRY(tri_decoder_create(s->tokenizer, true, &s->text.decoder));
  }
  return TRI_OK;
}

static tri_status eval_set_up(session *s) {
  TRI_TRY(tri_ranks_agree(s->asked->group, open_data(s)));
  if (s->first == NULL) tri_eval_log_idle(s->asked->group, s->asked->tensor, s->windows.count, s->batch);
  return create_model(s);
}

/* Adds the number of bytes of a batch's labels. */
static tri_status count_bytes(session *s, const tri_scored_batch *batch) {
  const tri_label_rows rows = {.tokens = batch->rows.ids,
                               .labels = batch->rows.labels,
                               .places = s->places,
                               .count = s->batch * s->sequence,
                               .sequence = s->sequence,
                               .packed = is_packed(s),
                               .masked = is_masked(s)};
  for (int64_t row = 0; row < s->batch; row++) {
    tri_token_place *places = s->places + row * s->sequence;
    if (row < batch->count) TRI_TRY(tri_eval_windows_places(&s->windows, batch->first + row, places));
    for (int64_t i = 0; i < s->sequence && row >= batch->count; i++) places[i] = TRI_TOKEN_NONE;
  }
  return tri_label_bytes_add(&s->text, &rows);
}

/* Returns log(exp(a) + exp(b)). */
static double log_of_sum(double a, double b) { return fmax(a, b) + log1p(exp(-fabs(a - b))); }

/* Adds the scores of a batch's labels by one model of an ensemble to the sums over the models. */
static void add_scores(session *s, const tri_scored_batch *batch) {
  ensemble *e = s->ensemble;
  double *sums = e->log_sums + batch->first * s->sequence;
  for (int64_t i = 0; i < s->batch * s->sequence; i++) {
    if (batch->rows.labels[i] < 0) continue;
    s->total.counted++;
    s->total.loss_sum -= batch->scores[i];
    sums[i] = e->models == 0 ? batch->scores[i] : log_of_sum(sums[i], batch->scores[i]);
  }
}

static tri_status add_batch(void *context, const tri_scored_batch *batch) {
  session *s = context;
  const tri_sample *rows = &batch->rows;
  TRI_TRY(count_bytes(s, batch));
  for (int64_t i = 0; s->bigram != NULL && i < s->batch * s->sequence; i++) {
    if (rows->labels[i] < 0) continue;
    s->bigram_sum -= log(tri_bigram_probability(s->bigram, rows->ids[i], rows->labels[i]));
  }
  if (s->ensemble != NULL) add_scores(s, batch);
  if (s->total.counted == 0) return TRI_OK;
  tri_log_progress("%5.1f %%  loss %.4f",
                   fmin(100.0, 100.0 * (double)(batch->first + s->batch) / (double)s->windows.count),
                   s->total.loss_sum / s->total.counted);
  return TRI_OK;
}

/* Decides the number of bytes of the labels' text. If each token of the corpus is either one label or one of the
 * counted other tokens, and the corpus has no mask and records the bytes of its text, the number is the recorded bytes
 * of the corpus' text minus the bytes of the other tokens; it then includes the text of unknown tokens. This does not
 * hold for packed documents that are joined, because some of their labels occur twice. Otherwise, if a label is the
 * unknown token, sets the number to 0, so that bits per byte are left out, and logs that. */
static void settle_bytes(session *s) {
  const int64_t recorded = tri_corpus_text_bytes(s->asked->corpus);
  const bool whole = !is_packed(s) || (is_masked(s) && s->windows.packed.pieces.left_out == 0);
  const bool all = whole && !s->limited;
  if (s->text.decoder == NULL) return;
  if (all && recorded > 0 && !tri_corpus_has_mask(s->asked->corpus)) {
    s->text.bytes = recorded > s->text.others ? recorded - s->text.others : 0;
  } else if (s->text.unknown > 0) {
    tri_log("bits per byte are left out, because %" PRId64
            " labels are the tokenizer's unknown token, so their text is unknown%s",
            s->text.unknown,
            s->limited || recorded > 0 || tri_corpus_has_mask(s->asked->corpus)
                ? ""
                : "; a corpus that `prepare` makes "
                  "anew records the bytes of its texts");
    s->text.bytes = 0;
  }
}

/* Returns the number of labels of all batches, including padding. */
static int64_t labels_of_all(const session *s) {
  return (s->windows.count + s->batch - 1) / s->batch * s->batch * s->sequence;
}

static tri_status eval_evaluate(session *s) {
  const tri_feed feed = tri_eval_windows_feed(&s->windows);
  tri_feed_scoring scoring = {.feed = &feed,
                              .samples = s->windows.count,
                              .total = s->ensemble == NULL ? &s->total : NULL,
                              .done = add_batch,
                              .context = s};
  if (s->ensemble != NULL && s->ensemble->log_sums == NULL) {
    const int64_t labels = labels_of_all(s);
    TRI_TRY(tri_alloc("an ensemble's labels", (size_t)labels, sizeof *s->ensemble->log_sums, &s->ensemble->log_sums));
    for (int64_t i = 0; i < labels; i++) s->ensemble->log_sums[i] = UNCOUNTED;
  }
  const double begin_s = tri_clock_s();
  TRI_TRY(tri_eval_model_score(&s->run, &scoring));
  s->seconds = tri_clock_s() - begin_s;
  settle_bytes(s);
  return TRI_OK;
}

typedef struct results {
  double loss, bits_per_byte, bigram_loss; /* NAN: not computed */
} results;

static double bits_per_byte(const session *s, double loss_sum) {
  return s->text.bytes == 0 ? NAN : loss_sum / log(2.0) / (double)s->text.bytes;
}

static void eval_print_text(const session *s, const results *r) {
  if (s->total.counted == 0) return;
  for (int i = 0; s->ensemble != NULL && i < s->ensemble->models; i++) {
    const double bits = bits_per_byte(s, s->ensemble->losses[i] * s->total.counted);
    printf("loss of %s  %.6f", s->asked->models[i], s->ensemble->losses[i]);
    if (isfinite(bits)) printf("  (bits per byte %.4f)", bits);
    putchar('\n');
  }
  if (s->ensemble != NULL) printf("the mean of their probabilities:\n");
  printf("loss            %.6f\n", r->loss);
  if (!isfinite(r->loss)) return;
  printf("perplexity      %.4f\n", exp(r->loss));
  if (s->text.bytes > 0) printf("bits per byte   %.4f\n", r->bits_per_byte);
  if (s->bigram != NULL) printf("bigram loss     %.6f (perplexity %.4f)\n", r->bigram_loss, exp(r->bigram_loss));
  printf("tokens          %.0f\n", s->total.counted);
}

/* Returns a list with the loss of each model of an ensemble. A loss that is not finite is null, because JSON has no
 * such number. */
static json_t *models_json(const session *s) {
  json_t *out = json_array();
  for (int i = 0; i < s->ensemble->models; i++) {
    const double loss = s->ensemble->losses[i];
    json_array_append_new(out, json_pack("{s:s, s:o, s:o}", "model", s->asked->models[i], "loss", tri_json_number(loss),
                                         "bits_per_byte", tri_json_number(bits_per_byte(s, loss * s->total.counted))));
  }
  return out;
}

static tri_status eval_print_json(const session *s, const results *r) {
  json_t *document =
      json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:s}", "loss", tri_json_number(r->loss), "perplexity",
                tri_json_number(exp(r->loss)), "bits_per_byte", tri_json_number(r->bits_per_byte), "tokens",
                (json_int_t)s->total.counted, "bytes", (json_int_t)s->text.bytes, "sequence", (json_int_t)s->sequence,
                "documents", tri_run_config_documents(s->use), "packing", tri_run_config_packing(s->packing));
  if (document == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the report of an evaluation");
  if (s->limited) json_object_set_new(document, "limit", json_integer(s->asked->limit));
  if (s->bigram != NULL) json_object_set_new(document, "bigram_loss", tri_json_number(r->bigram_loss));
  if (s->ensemble != NULL) json_object_set_new(document, "models", models_json(s));
  json_dumpf(document, stdout, JSON_INDENT(2));
  json_decref(document);
  putchar('\n');
  return TRI_OK;
}

/* Checks that there is a loss, and that it is finite. */
static tri_status check_loss(const session *s, double loss) {
  if (s->total.counted == 0 && s->ignore_token < 0 && tri_corpus_has_mask(s->asked->corpus)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: no label counts, since none of its answers is within the first %" PRId64
                    " tokens of a conversation (too_long: %s); --sequence takes another length",
                    s->asked->data, s->sequence, tri_run_config_too_long(s->too_long));
  }
  if (s->total.counted == 0 && s->ignore_token < 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: no label counts, since no document has more than one token and documents do not see each "
                    "other; --documents joined lets them",
                    s->asked->data);
  }
  if (s->total.counted == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: every label is the token %" PRId64
                    ", which does not count (the run's data.ignore_token), so there is no loss",
                    s->asked->data, s->ignore_token);
  }
  if (isfinite(loss)) return TRI_OK;
  return tri_fail(TRI_DIVERGED, "the loss is %s: the model has diverged, or its numbers are beyond --precision %s",
                  isnan(loss) ? "not a number" : "infinite", tri_dtype_name(s->asked->options->precision));
}

static tri_status eval_report(const session *s) {
  double counted = s->total.counted;
  results r = {.loss = s->total.loss_sum / counted,
               .bits_per_byte = bits_per_byte(s, s->total.loss_sum),
               .bigram_loss = s->bigram == NULL ? NAN : s->bigram_sum / counted};
  if (s->asked->json) TRI_TRY(eval_print_json(s, &r));
  if (!s->asked->json) eval_print_text(s, &r);
  return check_loss(s, r.loss);
}

static void release_parts(session *s) {
  tri_bigram_destroy(s->bigram);
  tri_eval_windows_release(&s->windows);
  tri_decoder_destroy(s->text.decoder);
  tri_free(s->places);
  tri_tokenizer_destroy(s->tokenizer);
  tri_eval_model_release(&s->run);
  tri_merged_close(&s->weights);
}

/* ---- several models ---------------------------------------------------------------------------------------------- */

/* Sets total.loss_sum of the last model's session to the sum of the losses of the models' mean probability. */
static void compute_mean(session *s) {
  const ensemble *e = s->ensemble;
  const int64_t labels = labels_of_all(s);
  s->total.loss_sum = 0;
  for (int64_t i = 0; i < labels; i++) {
    if (e->log_sums[i] != UNCOUNTED) s->total.loss_sum -= e->log_sums[i] - log((double)e->models);
  }
}

/* Evaluates the next model of the ensemble with a new session in *s. The caller must have released the parts of the
 * session that *s had before. */
static tri_status evaluate_member(session *s, const tri_eval_text *asked, ensemble *e, session *first) {
  *s = (session){
      .asked = asked, .checkpoint = asked->models[e->models], .ensemble = e, .first = e->models > 0 ? first : NULL};
  tri_log("%s", s->checkpoint);
  tri_status status = eval_set_up(s);
  if (e->models == 0) *first = *s;
  return status == TRI_OK ? eval_evaluate(s) : status;
}

/* Evaluates the models one after the other, so that at most one is in memory. */
static tri_status evaluate_ensemble(session *s, const tri_eval_text *asked, ensemble *e) {
  session first = {.asked = asked};
  while (e->models < asked->num_models) {
    release_parts(s);
    TRI_TRY(evaluate_member(s, asked, e, &first));
    e->losses[e->models++] = s->total.loss_sum / s->total.counted;
  }
  compute_mean(s);
  return TRI_OK;
}

static tri_status eval_ensemble(session *s, const tri_eval_text *asked) {
  ensemble e = {.models = 0};
  tri_status status = tri_alloc("an ensemble", (size_t)asked->num_models, sizeof *e.losses, &e.losses);
  if (status == TRI_OK) status = evaluate_ensemble(s, asked, &e);
  if (status == TRI_OK) status = eval_report(s);
  tri_free(e.log_sums);
  tri_free(e.losses);
  return status;
}

static tri_status eval_single(session *s) {
  TRI_TRY(eval_set_up(s));
  TRI_TRY(eval_evaluate(s));
  return eval_report(s);
}

/* ---- several forms of the weights -------------------------------------------------------------------------------- */

/* Evaluates the model with one form of its weights. */
static tri_status evaluate_form(session *s, tri_weights_row *row) {
  TRI_TRY(eval_set_up(s));
  TRI_TRY(eval_evaluate(s));
  const double loss = s->total.loss_sum / s->total.counted;
  *row = (tri_weights_row){.values = {loss, exp(loss), bits_per_byte(s, s->total.loss_sum)},
                           .bytes = tri_weights_row_bytes(s->run.executor),
                           .tokens = s->total.counted,
                           .seconds = s->seconds};
  return check_loss(s, loss);
}

static tri_status eval_forms(session *s, const tri_eval_text *asked) {
  tri_weights_table table = {.columns = {"loss", "perplexity", "bits_per_byte"}};
  tri_model_options options = *asked->options;
  tri_eval_text own = *asked;
  session first = {.asked = asked};
  own.options = &options;
  for (int i = 0; i < asked->options->num_forms; i++) {
    tri_model_options_choose(&options, i);
    tri_log("--weights %s", options.forms[i]->name);
    release_parts(s);
    *s = (session){.asked = &own, .checkpoint = asked->models[0], .first = i > 0 ? &first : NULL};
    TRI_TRY(evaluate_form(s, &table.rows[i]));
    if (i == 0) first = *s;
  }
  return tri_weights_table_print(&table, &options, asked->json);
}

tri_status tri_eval_text_run(const tri_eval_text *asked) {
  session *s = NULL;
  const bool forms = asked->options->num_forms > 1;
  if (forms && asked->num_models > 1)
    return tri_fail(TRI_BAD_USAGE, "eval: several --weights are compared for one model, not for an ensemble");
  if (forms && asked->bigram != NULL) return tri_fail(TRI_BAD_USAGE, "eval: --bigram goes with one type of --weights");
  TRI_TRY(tri_alloc("an evaluation", 1, sizeof *s, &s));
  *s = (session){.asked = asked, .checkpoint = asked->models[0]};
  const tri_status status = forms                   ? eval_forms(s, asked)
                            : asked->num_models > 1 ? eval_ensemble(s, asked)
                                                    : eval_single(s);
  release_parts(s);
  tri_free(s);
  return status;
}
