/* `trireme eval`: computes the loss of a checkpoint on a corpus. Every token but the first is predicted once. */
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/run_notes.h"
#include "cli/cli.h"
#include "cli/running/eval_bytes.h"
#include "cli/running/eval_model.h"
#include "cli/running/eval_preferences.h"
#include "cli/running/eval_questions.h"
#include "cli/running/model_options.h"
#include "data/bigram.h"
#include "data/source.h"
#include "engine/evaluate.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "mesh/label.h"
#include "options/options.h"
#include "run/run_config.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct eval_arguments {
  const char *checkpoint, *data, *bigram; /* bigram: corpus to count the baseline on, or NULL */
  char *const *models;                    /* [num_models]: models of an ensemble; the first is `checkpoint` */
  int num_models;
  int64_t sequence, batch;         /* 0: as in training */
  const char *documents, *packing; /* NULL: as in training */
  const char *reference;           /* reference model for a corpus of preferences; NULL: none */
  bool chat;                       /* questions go through the chat template */
  const char *system;              /* system message before each question; NULL: none */
  const char *choices, *answers;   /* files of questions, instead of a corpus; NULL: not given */
  tri_answer_rule rule;
  int64_t samples; /* answers to each question */
  double temperature;
  int64_t seed;
  bool ruled; /* an option about generating or comparing answers was given */
  bool all_checkpoints;
  const char *svg;
  bool json;
  tri_model_options model;
} eval_arguments;

enum {
  OPTION_SEQUENCE = 256,
  OPTION_BATCH,
  OPTION_DOCUMENTS,
  OPTION_PACKING,
  OPTION_BIGRAM,
  OPTION_REFERENCE,
  OPTION_CHAT,
  OPTION_SYSTEM,
  OPTION_CHOICES,
  OPTION_ANSWERS,
  OPTION_TOKENS,
  OPTION_SAMPLES,
  OPTION_TEMPERATURE,
  OPTION_SEED,
  OPTION_UNTIL,
  OPTION_STRIP,
  OPTION_IGNORE_CASE,
  OPTION_IGNORE_PUNCTUATION,
  OPTION_IGNORE_NUMBERS,
  OPTION_ALL_CHECKPOINTS,
  OPTION_SVG,
  OPTION_JSON
};

static tri_status add_until(const char *text, tri_answer_rule *rule) {
  int count = 0;
  while (count < TRI_ANSWER_STOPS && rule->until[count] != NULL) count++;
  if (text[0] == '\0') return tri_fail(TRI_BAD_USAGE, "--until is empty: give a text that ends an answer");
  if (count == TRI_ANSWER_STOPS) return tri_fail(TRI_BAD_USAGE, "--until: %d at most", TRI_ANSWER_STOPS);
  rule->until[count] = text;
  return TRI_OK;
}

/* Handles options about generating and comparing answers; *taken is false for any other option. */
static tri_status read_rule(int result, eval_arguments *out, bool *taken) {
  tri_answer_rule *rule = &out->rule;
  *taken = result >= OPTION_TOKENS && result <= OPTION_IGNORE_NUMBERS;
  out->ruled = out->ruled || *taken;
  switch (result) {
    case OPTION_TOKENS: return tri_option_int("--tokens", optarg, 1, 1 << 24, &rule->tokens);
    case OPTION_SAMPLES: return tri_option_int("--samples", optarg, 1, 1 << 20, &out->samples);
    case OPTION_TEMPERATURE: return tri_option_double("--temperature", optarg, 0.0, 1e6, &out->temperature);
    case OPTION_SEED: return tri_option_int("--seed", optarg, 0, INT64_MAX, &out->seed);
    case OPTION_UNTIL: return add_until(optarg, rule);
    case OPTION_STRIP: rule->strip = true; return TRI_OK;
    case OPTION_IGNORE_CASE: rule->ignore_case = true; return TRI_OK;
    case OPTION_IGNORE_PUNCTUATION: rule->ignore_punctuation = true; return TRI_OK;
    case OPTION_IGNORE_NUMBERS: rule->ignore_numbers = true; return TRI_OK;
    default: return TRI_OK;
  }
}

static const struct option eval_options[] = {
    {"sequence", required_argument, NULL, OPTION_SEQUENCE},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"documents", required_argument, NULL, OPTION_DOCUMENTS},
    {"packing", required_argument, NULL, OPTION_PACKING},
    {"bigram", required_argument, NULL, OPTION_BIGRAM},
    {"reference", required_argument, NULL, OPTION_REFERENCE},
    {"chat", no_argument, NULL, OPTION_CHAT},
    {"system", required_argument, NULL, OPTION_SYSTEM},
    {"choices", required_argument, NULL, OPTION_CHOICES},
    {"answers", required_argument, NULL, OPTION_ANSWERS},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"until", required_argument, NULL, OPTION_UNTIL},
    {"strip", no_argument, NULL, OPTION_STRIP},
    {"ignore-case", no_argument, NULL, OPTION_IGNORE_CASE},
    {"ignore-punctuation", no_argument, NULL, OPTION_IGNORE_PUNCTUATION},
    {"ignore-numbers", no_argument, NULL, OPTION_IGNORE_NUMBERS},
    {"all-checkpoints", no_argument, NULL, OPTION_ALL_CHECKPOINTS},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"json", no_argument, NULL, OPTION_JSON},
    TRI_MODEL_OPTION_ROWS,
    {NULL, 0, NULL, 0},
};

static tri_status read_option(int result, char **arguments, eval_arguments *out) {
  bool taken = false;
  switch (result) {
    case OPTION_SEQUENCE: return tri_option_int("--sequence", optarg, 1, 1 << 30, &out->sequence);
    case OPTION_BATCH: return tri_option_int("--batch", optarg, 1, 1 << 20, &out->batch);
    case OPTION_DOCUMENTS: out->documents = optarg; return TRI_OK;
    case OPTION_PACKING: out->packing = optarg; return TRI_OK;
    case OPTION_BIGRAM: out->bigram = optarg; return TRI_OK;
    case OPTION_REFERENCE: out->reference = optarg; return TRI_OK;
    case OPTION_CHAT: out->chat = true; return TRI_OK;
    case OPTION_SYSTEM: out->system = optarg; return TRI_OK;
    case OPTION_CHOICES: out->choices = optarg; return TRI_OK;
    case OPTION_ANSWERS: out->answers = optarg; return TRI_OK;
    case OPTION_ALL_CHECKPOINTS: out->all_checkpoints = true; return TRI_OK;
    case OPTION_SVG: out->svg = optarg; return TRI_OK;
    case OPTION_JSON: out->json = true; return TRI_OK;
    default: break;
  }
  TRI_TRY(read_rule(result, out, &taken));
  if (taken) return TRI_OK;
  TRI_TRY(tri_model_option(result, optarg, &out->model, &taken));
  return taken ? TRI_OK : tri_option_fault("eval", result, arguments, eval_options);
}

static bool asks(const eval_arguments *given) { return given->choices != NULL || given->answers != NULL; }

/* Refuses combinations of options about questions. */
static tri_status check_questions(const eval_arguments *given) {
  if (given->choices != NULL && given->answers != NULL) {
    return tri_fail(TRI_BAD_USAGE, "eval: --choices or --answers, one at a time");
  }
  if ((given->chat || given->system != NULL) && !asks(given)) {
    return tri_fail(TRI_BAD_USAGE, "eval: --chat and --system go with --choices FILE or --answers FILE");
  }
  if (given->system != NULL && !given->chat) {
    return tri_fail(TRI_BAD_USAGE, "eval: --system is a message of the chat template: it goes with --chat");
  }
  if (given->choices == NULL && (given->all_checkpoints || given->svg != NULL)) {
    return tri_fail(TRI_BAD_USAGE, "eval: --all-checkpoints and --svg go with --choices FILE");
  }
  if (given->answers == NULL && given->ruled) {
    return tri_fail(TRI_BAD_USAGE,
                    "eval: --tokens, --samples, --temperature, --seed, --until, --strip and --ignore-... go with "
                    "--answers FILE");
  }
  if (given->answers != NULL && given->samples > 1 && given->temperature == 0) {
    return tri_fail(TRI_BAD_USAGE, "eval: --samples %" PRId64 " at --temperature 0 are all the same answer",
                    given->samples);
  }
  if (given->svg == NULL || given->all_checkpoints) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "eval: --svg draws quality over steps; it goes with --all-checkpoints");
}

/* Checks the number of names, and that options for a corpus and options for questions are not mixed. */
static tri_status check_options(const eval_arguments *given, int named) {
  const bool of_corpus = given->documents != NULL || given->packing != NULL || given->bigram != NULL ||
                         given->sequence > 0 || given->reference != NULL;
  TRI_TRY(check_questions(given));
  if (!asks(given) && named < 2) {
    return tri_fail(TRI_BAD_USAGE, "eval: name a checkpoint and a corpus (the prefix of its .bin and .idx)");
  }
  if (asks(given) && named != 1 && (named == 0 || given->choices == NULL || given->all_checkpoints)) {
    return tri_fail(TRI_BAD_USAGE,
                    "eval: with --answers or --all-checkpoints name a checkpoint, or a run, and nothing else; with "
                    "--choices one or several");
  }
  if (!asks(given) || !of_corpus) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE,
                  "eval: --sequence, --documents, --packing, --bigram and --reference are for a corpus, not for "
                  "questions");
}

static tri_status eval_parse(int count, char **arguments, eval_arguments *out) {
  optind = 1;
  opterr = 0;
  for (int result; (result = getopt_long(count, arguments, ":", eval_options, NULL)) != -1;) {
    TRI_TRY(read_option(result, arguments, out));
  }
  TRI_TRY(check_options(out, count - optind));
  out->checkpoint = arguments[optind];
  out->models = arguments + optind;
  out->num_models = asks(out) ? count - optind : count - optind - 1;
  if (!asks(out) && out->num_models > 1) TRI_TRY(tri_models_drop_doubles(arguments + optind, &out->num_models));
  out->data = asks(out) ? NULL : arguments[count - 1];
  return TRI_OK;
}

/* Marks labels that do not count, in place of their log-probabilities. */
#define UNCOUNTED HUGE_VAL

/* Sums over the models of an ensemble, which score the same labels. */
typedef struct ensemble {
  double *log_sums; /* [labels]: log of the sum of the models' probabilities; NULL before the first model */
  double *losses;   /* [models]: loss of each model alone */
  int models;       /* number of models so far */
} ensemble;

typedef struct session {
  const eval_arguments *arguments;
  ensemble *ensemble; /* NULL: a single model */
  int64_t sequence, batch;
  int64_t ignore_token;        /* labels with this id do not count, as in training; -1: unused */
  tri_document_use use;        /* whether documents attend to each other */
  tri_packing_use packing;     /* how documents become sequences */
  tri_too_long too_long;       /* what happens to documents longer than a sequence */
  const struct session *first; /* session of an ensemble's first model; NULL: this is the first */
  tri_documents documents;
  tri_source packed; /* unused if sequences are windows */
  tri_model model;
  tri_merged weights;
  tri_corpus *corpus;
  tri_eval_model run;
  tri_tokenizer *tokenizer; /* NULL: bits per byte cannot be computed */
  int32_t *tokens, *labels; /* [batch, sequence] + 1 */
  tri_bigram *bigram;       /* NULL: not requested */
  double bigram_sum;
  tri_evaluation total;
  tri_label_bytes text;    /* text of all labels */
  tri_token_place *places; /* [batch, sequence] + 1: places of the tokens and of the next token */
} session;

static tri_status set_documents(session *s) {
  const eval_arguments *given = s->arguments;
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

/* Logs how text becomes sequences, and what determined that. */
static void say_shape(const session *s, const char *by) {
  tri_log("in sequences of %" PRId64 " tokens (documents: %s, packing: %s%s%s)%s", s->sequence,
          tri_run_config_documents(s->use), tri_run_config_packing(s->packing), is_packed(s) ? ", too_long: " : "",
          is_packed(s) ? tri_run_config_too_long(s->too_long) : "", by);
}

/* Chooses sequences as in training if the checkpoint records that. A corpus with a mask contains conversations, which
 * are packed and masked. */
static tri_status choose_alone(session *s, const tri_run_notes *notes) {
  const eval_arguments *given = s->arguments;
  const bool masked = tri_corpus_has_mask(s->corpus);
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
  const bool all_given = given->sequence > 0 && given->documents != NULL && given->packing != NULL;
  const bool some_given = given->sequence > 0 || given->documents != NULL || given->packing != NULL;
  say_shape(
      s,
      all_given    ? ", as the options say"
      : some_given ? masked         ? ", as set by the options, otherwise as for a corpus with a mask"
                     : notes->known ? ", as set by the options, otherwise as in training"
                                    : ", as set by the options; the settings of training are unknown"
      : masked     ? ", since the corpus has a mask"
      : notes->known
          ? ", as in training"
          : ", because the settings of training are unknown; change them with --sequence, --documents and --packing");
  return TRI_OK;
}

/* Copies the shape of sequences from an ensemble's first model. */
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
            s->arguments->checkpoint, notes->sequence, notes->documents, notes->packing);
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
  return tri_eval_model_create(&s->model, &s->weights, &s->arguments->model, &shape, &s->run);
}

/* Creates a source that yields each document once, in the order of the corpus; the seed is not used. */
static tri_status create_packed(session *s) {
  const tri_source_options options = {
      .sequence = s->sequence,
      .vocab_size = s->model.vocab_size,
      .documents = s->use,
      .packing = s->packing,
      .too_long = s->too_long,
      .end_of_text = s->documents.end_of_text,
  };
  return tri_source_create(s->corpus, &options, &s->packed);
}

static tri_status eval_set_up(session *s) {
  const tri_model_options *options = &s->arguments->model;
  const tri_checkpoint_use use = tri_model_options_use(options);
  if (s->corpus == NULL) TRI_TRY(tri_corpus_open(s->arguments->data, &s->corpus));
  TRI_TRY(tri_merged_open(s->arguments->checkpoint, options->base, &use, &s->model, &s->weights));
  TRI_TRY(choose_shape(s));
  if (tri_corpus_num_tokens(s->corpus) < 2) {
    return tri_fail(TRI_BAD_FILE, "%s has %" PRId64 " token%s, but at least two are needed to predict one",
                    s->arguments->data, tri_corpus_num_tokens(s->corpus), TRI_PLURAL(tri_corpus_num_tokens(s->corpus)));
  }
  TRI_TRY(tri_eval_corpus_tokenizer(&s->weights, options, s->corpus, &s->tokenizer));
  (void)tri_corpus_say_vocabulary(s->corpus, s->model.vocab_size);
  s->documents = tri_documents_of(s->corpus, s->tokenizer == NULL ? -1 : tri_tokenizer_end_of_text(s->tokenizer));
  if (s->arguments->bigram != NULL) {
    tri_corpus *train = NULL;
    TRI_TRY(tri_corpus_open(s->arguments->bigram, &train));
    tri_status status = tri_corpus_check_same_tokenizer(train, s->corpus);
    if (status == TRI_OK && tri_corpus_num_tokens(train) < 2) {
      status = tri_fail(TRI_BAD_FILE, "%s has %" PRId64 " token%s, but at least two are needed to count a pair",
                        s->arguments->bigram, tri_corpus_num_tokens(train), TRI_PLURAL(tri_corpus_num_tokens(train)));
    }
    if (status == TRI_OK) status = tri_bigram_create(train, s->model.vocab_size, &s->bigram);
    tri_corpus_close(train);
    TRI_TRY(status);
  }
  if (is_packed(s)) TRI_TRY(create_packed(s));
  size_t room = (size_t)(s->batch * s->sequence + 1);
  TRI_TRY(tri_alloc("evaluation tokens", room, sizeof *s->tokens, &s->tokens));
  TRI_TRY(tri_alloc("evaluation tokens", room, sizeof *s->labels, &s->labels));
  TRI_TRY(tri_alloc("evaluation tokens", room, sizeof *s->places, &s->places));
  if (s->tokenizer != NULL) {
    s->text.unknown_token = tri_tokenizer_unknown(s->tokenizer);
    TRI_TRY(tri_decoder_create(s->tokenizer, true, &s->text.decoder));
  }
  return create_model(s);
}

static tri_status count_bytes(session *s) {
  const tri_label_rows rows = {.tokens = s->tokens,
                               .labels = s->labels,
                               .places = s->places,
                               .count = s->batch * s->sequence,
                               .sequence = s->sequence,
                               .packed = is_packed(s),
                               .masked = is_masked(s)};
  return tri_label_bytes_add(&s->text, &rows);
}

/* Returns the number of sequences of an evaluation. Windows are consecutive, and the last has as many tokens as labels
 * remain. */
static int64_t num_sequences(const session *s) {
  if (is_packed(s)) return s->packed.per_epoch;
  return (tri_corpus_num_tokens(s->corpus) - 1 + s->sequence - 1) / s->sequence;
}

/* Sets the positions of windows' tokens first .. first + count - 1 within their documents, and removes labels that
 * cross from one document to the next. */
static void mask_windows(session *s, int64_t first, int64_t count, int32_t *positions) {
  for (int64_t row = 0; row < count; row += s->sequence) {
    int64_t size = count - row < s->sequence ? count - row : s->sequence;
    bool ends = false;
    tri_documents_positions(&s->documents, first + row, size, s->tokens + row, positions + row, &ends);
    for (int64_t i = row; i < row + size; i++) {
      if (i + 1 < row + size ? positions[i + 1] == 0 : ends) s->labels[i] = TRI_LABEL_NONE;
    }
  }
}

/* Sets the places of tokens first .. first + count. The last of them is only a label if no window follows. positions:
 * room for [count + 1]. */
static void place_windows(session *s, int64_t first, int64_t count, int32_t *positions) {
  const int64_t room = s->batch * s->sequence;
  const tri_token_place begins = first == 0 ? TRI_TOKEN_BEGINS : s->places[room]; /* place where the last batch ended */
  const bool last = first + count + 1 == tri_corpus_num_tokens(s->corpus);
  bool ends = false;
  tri_documents_positions(&s->documents, first, count + 1, s->tokens, positions, &ends);
  for (int64_t i = 1; i <= count; i++) s->places[i] = positions[i] == 0 ? TRI_TOKEN_BEGINS : TRI_TOKEN_INSIDE;
  s->places[0] = begins;
  for (int64_t i = count; i <= room && last; i++) s->places[i] = TRI_TOKEN_NONE;
}

static tri_status read_windows(session *s, int64_t row, int32_t *positions) {
  int64_t room = s->batch * s->sequence, first = row * s->sequence;
  int64_t labels = tri_corpus_num_tokens(s->corpus) - 1 - first, count = labels < room ? labels : room;
  TRI_TRY(tri_corpus_read(s->corpus, first, count + 1, s->model.vocab_size, s->tokens));
  place_windows(s, first, count, s->labels);
  memcpy(s->labels, s->tokens + 1, (size_t)count * sizeof *s->labels);
  tri_corpus_mask_labels(s->corpus, first + 1, count, s->labels);
  for (int64_t i = 0; i < room; i++) positions[i] = (int32_t)(i % s->sequence);
  if (is_masked(s)) mask_windows(s, first, count, positions);
  for (int64_t i = count; i < room; i++) {
    s->tokens[i] = 0;
    s->labels[i] = TRI_LABEL_PADDING;
  }
  return TRI_OK;
}

/* Reads a batch of packed sequences. The last batch is padded with sequences that have neither labels nor bytes. */
static tri_status read_packed_rows(session *s, int64_t first, int32_t *positions) {
  for (int64_t row = 0; row < s->batch; row++) {
    int64_t at = row * s->sequence, index = first + row;
    bool padding = index >= s->packed.per_epoch;
    const tri_sample to = {.ids = s->tokens + at, .labels = s->labels + at, .positions = positions + at};
    TRI_TRY(tri_source_read_in_order(&s->packed, padding ? 0 : index, &to));
    TRI_TRY(tri_source_places_in_order(&s->packed, padding ? 0 : index, s->places + at));
    for (int64_t i = at; i < at + s->sequence && padding; i++) {
      s->labels[i] = TRI_LABEL_PADDING;
      s->places[i] = TRI_TOKEN_NONE;
    }
  }
  return TRI_OK;
}

/* Reads a batch of sequences, starting with sequence `first`. */
static tri_status read_batch(session *s, int64_t first) {
  int64_t room = s->batch * s->sequence;
  const tri_sample batch = tri_executor_sequence(s->run.executor, 0); /* arrays of the whole batch */
  if (is_packed(s)) TRI_TRY(read_packed_rows(s, first, batch.positions));
  if (!is_packed(s)) TRI_TRY(read_windows(s, first, batch.positions));
  for (int64_t i = 0; i < room; i++) {
    if (s->labels[i] == s->ignore_token) s->labels[i] = TRI_LABEL_NONE;
  }
  memcpy(batch.ids, s->tokens, (size_t)room * sizeof *batch.ids);
  memcpy(batch.labels, s->labels, (size_t)room * sizeof *batch.labels);
  return TRI_OK;
}

/* Returns log(exp(a) + exp(b)). */
static double log_of_sum(double a, double b) { return fmax(a, b) + log1p(exp(-fabs(a - b))); }

/* Scores the labels of a batch with one model of an ensemble, and adds to the sums. */
static tri_status evaluate_one_of(session *s, int64_t first, double *scores) {
  ensemble *e = s->ensemble;
  double *sums = e->log_sums + first * s->sequence;
  TRI_TRY(tri_evaluate_labels(s->run.executor, scores));
  for (int64_t i = 0; i < s->batch * s->sequence; i++) {
    if (s->labels[i] < 0) continue;
    s->total.counted++;
    s->total.loss_sum -= scores[i];
    sums[i] = e->models == 0 ? scores[i] : log_of_sum(sums[i], scores[i]);
  }
  return TRI_OK;
}

static tri_status evaluate_batch(session *s, int64_t first, double *scores) {
  return scores == NULL ? tri_evaluate_batch(s->run.executor, &s->total) : evaluate_one_of(s, first, scores);
}

static tri_status evaluate_batches(session *s, double *scores) {
  int64_t sequences = num_sequences(s), room = s->batch * s->sequence;
  for (int64_t first = 0; first < sequences; first += s->batch) {
    TRI_TRY(read_batch(s, first));
    TRI_TRY(count_bytes(s));
    for (int64_t i = 0; s->bigram != NULL && i < room; i++) {
      if (s->labels[i] < 0) continue;
      s->bigram_sum -= log(tri_bigram_probability(s->bigram, s->tokens[i], s->labels[i]));
    }
    TRI_TRY(evaluate_batch(s, first, scores));
    if (s->total.counted == 0) continue;
    tri_log_progress("%5.1f %%  loss %.4f", fmin(100.0, 100.0 * (double)(first + s->batch) / (double)sequences),
                     s->total.loss_sum / s->total.counted);
  }
  tri_log_progress_end();
  return TRI_OK;
}

/* Settles the number of bytes of the labels' text. If each token of the corpus is a label or among the other tokens,
 * this is the corpus' recorded text without the other tokens' bytes, which includes the text of unknown tokens. Packed
 * documents that are joined have some labels twice. */
static void settle_bytes(session *s) {
  const int64_t recorded = tri_corpus_text_bytes(s->corpus);
  const bool all = !is_packed(s) || (is_masked(s) && s->packed.pieces.left_out == 0);
  if (s->text.decoder == NULL) return;
  if (all && recorded > 0 && !tri_corpus_has_mask(s->corpus)) {
    s->text.bytes = recorded > s->text.others ? recorded - s->text.others : 0;
  } else if (s->text.unknown > 0) {
    tri_log("bits per byte are left out, because %" PRId64
            " labels are the tokenizer's unknown token, so their text is unknown%s",
            s->text.unknown,
            recorded > 0 || tri_corpus_has_mask(s->corpus) ? ""
                                                           : "; a corpus that `prepare` makes "
                                                             "anew records the bytes of its texts");
    s->text.bytes = 0;
  }
}

static tri_status eval_evaluate(session *s) {
  double *scores = NULL;
  if (s->ensemble == NULL) {
    TRI_TRY(evaluate_batches(s, NULL));
    settle_bytes(s);
    return TRI_OK;
  }
  const size_t batches = (size_t)((num_sequences(s) + s->batch - 1) / s->batch),
               room = (size_t)(s->batch * s->sequence);
  if (s->ensemble->log_sums == NULL) {
    TRI_TRY(tri_alloc("an ensemble's labels", batches * room, sizeof *s->ensemble->log_sums, &s->ensemble->log_sums));
    for (size_t i = 0; i < batches * room; i++) s->ensemble->log_sums[i] = UNCOUNTED;
  }
  TRI_TRY(tri_alloc("labels' scores", room, sizeof *scores, &scores));
  tri_status status = evaluate_batches(s, scores);
  settle_bytes(s);
  tri_free(scores);
  return status;
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
    printf("loss of %s  %.6f", s->arguments->models[i], s->ensemble->losses[i]);
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

/* JSON has no number for NaN and infinity; tri_json_number writes null. */

/* Returns a list with the loss of each model of an ensemble. */
static json_t *models_json(const session *s) {
  json_t *out = json_array();
  for (int i = 0; i < s->ensemble->models; i++) {
    const double loss = s->ensemble->losses[i];
    json_array_append_new(out,
                          json_pack("{s:s, s:o, s:o}", "model", s->arguments->models[i], "loss", tri_json_number(loss),
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
  if (s->bigram != NULL) json_object_set_new(document, "bigram_loss", tri_json_number(r->bigram_loss));
  if (s->ensemble != NULL) json_object_set_new(document, "models", models_json(s));
  json_dumpf(document, stdout, JSON_INDENT(2));
  json_decref(document);
  putchar('\n');
  return TRI_OK;
}

static tri_status eval_report(const session *s) {
  double counted = s->total.counted;
  results r = {.loss = s->total.loss_sum / counted,
               .bits_per_byte = bits_per_byte(s, s->total.loss_sum),
               .bigram_loss = s->bigram == NULL ? NAN : s->bigram_sum / counted};
  if (s->arguments->json) TRI_TRY(eval_print_json(s, &r));
  if (!s->arguments->json) eval_print_text(s, &r);
  if (s->total.counted == 0 && s->ignore_token < 0 && tri_corpus_has_mask(s->corpus)) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: no label counts, since none of its answers is within the first %" PRId64
                    " tokens of a conversation (too_long: %s); --sequence takes another length",
                    s->arguments->data, s->sequence, tri_run_config_too_long(s->too_long));
  }
  if (s->total.counted == 0 && s->ignore_token < 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: no label counts, since no document has more than one token and documents do not see each "
                    "other; --documents joined lets them",
                    s->arguments->data);
  }
  if (s->total.counted == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: every label is the token %" PRId64
                    ", which does not count (the run's data.ignore_token), so there is no loss",
                    s->arguments->data, s->ignore_token);
  }
  if (isfinite(r.loss)) return TRI_OK;
  return tri_fail(TRI_DIVERGED, "the loss is %s: the model has diverged, or its numbers are beyond --precision %s",
                  isnan(r.loss) ? "not a number" : "infinite", tri_dtype_name(s->arguments->model.precision));
}

static void release_parts(session *s) {
  tri_bigram_destroy(s->bigram);
  tri_source_destroy(&s->packed);
  tri_decoder_destroy(s->text.decoder);
  tri_free(s->places);
  tri_free(s->labels);
  tri_free(s->tokens);
  tri_tokenizer_destroy(s->tokenizer);
  tri_eval_model_release(&s->run);
  tri_corpus_close(s->corpus);
  tri_merged_close(&s->weights);
}

/* ---- several models ---------------------------------------------------------------------------------------------- */

/* Turns the sums over the models into the loss of the mean probability, stored in the last model's session. */
static void compute_mean(session *s) {
  const ensemble *e = s->ensemble;
  const int64_t labels = (num_sequences(s) + s->batch - 1) / s->batch * s->batch * s->sequence;
  s->total.loss_sum = 0;
  for (int64_t i = 0; i < labels; i++) {
    if (e->log_sums[i] != UNCOUNTED) s->total.loss_sum -= e->log_sums[i] - log((double)e->models);
  }
}

/* Evaluates one model of the ensemble. The parts of an earlier session must have been released. */
static tri_status evaluate_member(session *s, const eval_arguments *given, ensemble *e, session *first) {
  eval_arguments *own = NULL;
  TRI_TRY(tri_alloc("arguments", 1, sizeof *own, &own));
  *own = *given;
  own->checkpoint = given->models[e->models];
  *s = (session){.arguments = own, .ensemble = e, .first = e->models > 0 ? first : NULL};
  tri_log("%s", own->checkpoint);
  tri_status status = eval_set_up(s);
  if (e->models == 0) *first = *s;
  if (status == TRI_OK) status = eval_evaluate(s);
  s->arguments = given;
  tri_free(own);
  return status;
}

/* Evaluates the models one after the other; at most one is in memory. */
static tri_status evaluate_ensemble(session *s, const eval_arguments *given, ensemble *e) {
  session first = {.arguments = given};
  while (e->models < given->num_models) {
    release_parts(s);
    TRI_TRY(evaluate_member(s, given, e, &first));
    e->losses[e->models++] = s->total.loss_sum / s->total.counted;
  }
  compute_mean(s);
  return TRI_OK;
}

static tri_status eval_ensemble(session *s, const eval_arguments *given) {
  ensemble e = {.models = 0};
  tri_status status = tri_alloc("an ensemble", (size_t)given->num_models, sizeof *e.losses, &e.losses);
  if (status == TRI_OK) status = evaluate_ensemble(s, given, &e);
  if (status == TRI_OK) status = eval_report(s);
  tri_free(e.log_sums);
  tri_free(e.losses);
  return status;
}

static tri_status ask_questions(const eval_arguments *given) {
  const tri_eval_questions asked = {.model = given->checkpoint,
                                    .models = given->models,
                                    .num_models = given->num_models,
                                    .file = given->choices != NULL ? given->choices : given->answers,
                                    .options = &given->model,
                                    .batch = given->batch,
                                    .json = given->json,
                                    .chat = given->chat,
                                    .system = given->system,
                                    .all_checkpoints = given->all_checkpoints,
                                    .svg = given->svg,
                                    .rule = given->rule,
                                    .samples = given->samples,
                                    .temperature = given->temperature,
                                    .seed = (uint64_t)given->seed};
  return given->choices != NULL ? tri_eval_choices(&asked) : tri_eval_answers(&asked);
}

static tri_status eval_text(session *s) {
  if (s->arguments->reference != NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "eval: --reference is for a corpus of preferences (`trireme prepare --preferences`), and %s is one "
                    "of texts or conversations",
                    s->arguments->data);
  }
  if (s->arguments->num_models > 1) return eval_ensemble(s, s->arguments);
  TRI_TRY(eval_set_up(s));
  TRI_TRY(eval_evaluate(s));
  return eval_report(s);
}

static tri_status eval_preferences(const session *s) {
  const eval_arguments *given = s->arguments;
  const tri_eval_preferences asked = {.model = given->checkpoint,
                                      .reference = given->reference,
                                      .corpus = s->corpus,
                                      .options = &given->model,
                                      .sequence = given->sequence,
                                      .batch = given->batch,
                                      .json = given->json};
  if (given->documents != NULL || given->packing != NULL || given->bigram != NULL || given->num_models > 1) {
    return tri_fail(TRI_BAD_USAGE,
                    "eval: %s is a corpus of preferences, which takes one model, and no --documents, --packing or "
                    "--bigram: each answer is read by itself",
                    given->data);
  }
  return tri_eval_preferences_run(&asked);
}

static tri_status eval_corpus(session *s) {
  switch (tri_corpus_preferences(s->corpus)) {
    case TRI_PREFERENCES_NONE: break;
    case TRI_PREFERENCES_PAIRS:
    case TRI_PREFERENCES_LABELS: return eval_preferences(s);
  }
  return eval_text(s);
}

/* Refuses files of questions or of text that was not prepared, in place of a corpus. */
static tri_status check_corpus_name(const char *data) {
  static const char *const endings[] = {".jsonl", ".jsonl.zst", ".json", ".csv"};
  const size_t length = strlen(data);
  char index[TRI_PATH_BYTES];
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const size_t end = strlen(endings[i]);
    if (length <= end || strcmp(data + length - end, endings[i]) != 0) continue;
    if (snprintf(index, sizeof index, "%s.idx", data) < (int)sizeof index && tri_path_exists(index)) return TRI_OK;
    return tri_fail(
        TRI_BAD_USAGE,
        "eval: %s is not a corpus, which is the prefix of a .bin and .idx that `trireme prepare` writes; "
        "of questions: did you mean --choices %s or --answers %s? Of text or conversations, prepare it first "
        "(conversations: prepare --chat)",
        data, data, data);
  }
  return TRI_OK;
}

static tri_status eval_run(int count, char **arguments) {
  eval_arguments parsed = {
      .model = tri_model_options_default(), .rule = {.tokens = 64}, .samples = 1, .temperature = -1, .seed = 1234};
  TRI_TRY(eval_parse(count, arguments, &parsed));
  if (parsed.rule.until[0] == NULL) parsed.rule.until[0] = "\n\n";
  if (asks(&parsed)) return ask_questions(&parsed);
  session *s = NULL;
  TRI_TRY(tri_alloc("an evaluation", 1, sizeof *s, &s));
  s->arguments = &parsed;
  tri_status status = check_corpus_name(parsed.data);
  if (status == TRI_OK) status = tri_corpus_open(parsed.data, &s->corpus);
  if (status == TRI_OK) status = eval_corpus(s);
  release_parts(s);
  tri_free(s);
  return status;
}

const tri_command tri_command_eval = {
    .name = "eval",
    .summary = "loss, perplexity and bits per byte of a checkpoint on a corpus; or questions it gets right",
    .help =
        "usage: trireme eval CHECKPOINT DATA [--sequence T] [--batch B] [--documents D] [--packing P] [--bigram "
        "TRAIN]\n"
        "                    [--json] [options]\n"
        "       trireme eval CHECKPOINT CHECKPOINT... DATA ...\n"
        "       trireme eval CHECKPOINT PREFERENCES [--reference FOLDER] [--sequence T] [--batch B] [--json] "
        "[options]\n"
        "       trireme eval CHECKPOINT... --choices FILE.jsonl [--chat [--system TEXT]] [--batch B] [--json] "
        "[options]\n"
        "       trireme eval CHECKPOINT --answers FILE.jsonl [--chat [--system TEXT]] [--tokens N] [--until TEXT] "
        "[--strip] [--ignore-case]\n"
        "                    [--ignore-punctuation] [--ignore-numbers] [--json] [options]\n"
        "       trireme eval RUN --choices FILE.jsonl --all-checkpoints [--svg FILE.svg] [--json] [options]\n"
        "\n"
        "Predicts every token of the corpus (prefix of a .bin and .idx) but the first, in windows of T tokens, or "
        "every\n"
        "token of every document but its first, in sequences of T tokens that documents are packed into.\n"
        "CHECKPOINT is a checkpoint's folder, a run's output, or a Hugging Face folder. Labels that did not count in\n"
        "training (data.ignore_token) do not count here, and documents are handled as in training, but masked and "
        "packed "
        "if\n"
        "the corpus has a mask; a line of the output reports this. The exit status is not\n"
        "0 if the loss is not a number. Several checkpoints are an ensemble: the loss is that of the mean of their\n"
        "probabilities, printed with the loss of each.\n"
        "\n"
        "  --sequence T        tokens of context at most; as in training unless given\n"
        "  --batch B           windows at a time; of questions, texts side by side (16 choices, 8 answers)\n"
        "  --documents D       masked: documents in a sequence do not see each other; or joined; as in training\n"
        "  --packing P         documents: whole documents side by side; or windows; as in training\n"
        "  --bigram TRAIN      also print the loss of a bigram model that is counted on this corpus\n"
        "  --reference FOLDER  with a corpus of preferences: the model that training began with; rewards, margins, "
        "accuracies\n"
        "                      and the loss of the run's objective are then printed as training has them\n"
        "  --choices FILE      instead of a corpus: questions with given choices, a JSON line each (docs/judging.md), "
        "and\n"
        "                      how often the likeliest is the right one: acc and acc_norm as lm-evaluation-harness has "
        "them\n"
        "  --answers FILE      instead of a corpus: prompts with right answers, a JSON line each, and how often the "
        "text that\n"
        "                      the model finds likeliest, token by token, is one of them (exact_match)\n"
        "  --chat              with --choices or --answers: the folder's chat template is applied, the question is the "
        "user's\n"
        "                      message and the model's answer begins after the generation prompt\n"
        "  --system TEXT       with --chat: the system message\n"
        "  --tokens N          maximum number of tokens of an answer (64)\n"
        "  --samples K         independently sampled answers to each question (1): their mean (avg@K), and the share "
        "of\n"
        "                      questions with a right one (pass@K)\n"
        "  --temperature T     temperature of sampling; 0: always the likeliest token (0; with several samples 1)\n"
        "  --seed N            seed of sampling (1234)\n"
        "  --until TEXT        an answer ends before it (an empty line); may be given several times\n"
        "  --strip             spaces around an answer are ignored; --ignore-case, --ignore-punctuation "
        "and\n"
        "                      --ignore-numbers ignore case, punctuation and numbers\n"
        "  --all-checkpoints   all checkpoints of a run, in order; the noise between the last ones, and rank "
        "correlations\n"
        "  --svg FILE          draw these results\n"
        "  --json              one JSON document on standard output; for questions, with the result of "
        "each\n" TRI_MODEL_OPTION_HELP
        "\n"
        "example: trireme eval runs/gpt2-demo corpus/validation\n",
    .options = eval_options,
    .paths = "bigram reference choices answers svg base tokenizer",
    .run = eval_run,
};
