/* `trireme eval`: reads the options, and evaluates models on a corpus of texts (eval_text.c), on a corpus of
 * preferences (eval_preferences.c), or with questions (eval_choices.c, eval_answers.c). */
#include "cli/cli.h"
#include "cli/running/eval_preferences.h"
#include "cli/running/eval_questions.h"
#include "cli/running/eval_text.h"
#include "cli/running/model_options.h"
#include "cli/running/ranks.h"
#include "files/file.h"
#include "train/startup_checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct eval_arguments {
  const char *checkpoint, *data, *bigram; /* bigram: corpus on which the baseline is counted, or NULL */
  char *const *models;             /* [num_models]: an ensemble, or models to ask; the first model is `checkpoint` */
  int64_t sequence, batch;         /* sequence: 0 means the sequence of training; batch: 0 means the usual batch */
  int64_t limit;                   /* sequences or questions to evaluate; 0: all */
  const char *documents, *packing; /* NULL: the same as in training */
  const char *reference;           /* reference model for a corpus of preferences; NULL: none */
  const char *system;              /* system message before each question; NULL: none */
  const char *choices, *answers;   /* files of questions, in place of a corpus; NULL: not given */
  const char *svg;
  tri_answer_rule rule;
  int64_t samples; /* number of answers to each question */
  double temperature;
  int64_t seed;
  int64_t ranks;          /* number of ranks to start */
  int64_t tensor;         /* number of tensor ranks of each replica */
  const tri_group *group; /* ranks that share the work */
  tri_model_options model;
  int num_models;
  bool chat;  /* whether questions go through the chat template */
  bool ruled; /* whether an option about the generation or the comparison of answers was given */
  bool all_checkpoints;
  bool json;
} eval_arguments;

static tri_status add_until(void *values, const char *text) {
  tri_answer_rule *rule = &((eval_arguments *)values)->rule;
  int count = 0;
  while (count < TRI_ANSWER_STOPS && rule->until[count] != NULL) count++;
  if (text[0] == '\0') return tri_fail(TRI_BAD_USAGE, "--until is empty: give a text that ends an answer");
  if (count == TRI_ANSWER_STOPS) return tri_fail(TRI_BAD_USAGE, "--until: %d at most", TRI_ANSWER_STOPS);
  rule->until[count] = text;
  return TRI_OK;
}

#define TRI_OPTION_VALUES eval_arguments
static const tri_option eval_options[] = {
    {TRI_LENGTH("sequence", sequence, 1, 1 << 30),
     .help = "  --sequence T        tokens of context at most; as in training unless given\n"},
    {TRI_INT("batch", batch, 1, 1 << 20), .help = "  --batch B           windows (4), or texts of questions (16 "
                                                  "choices, 8 answers), that are computed together\n"},
    {TRI_INT("limit", limit, 1, INT64_MAX),
     .help = "  --limit N           evaluate only the first N sequences of the corpus, or the first N questions\n"},
    {TRI_INT("ranks", ranks, 1, 1 << 24), .letter = 'n',
     .help = "  -n, --ranks N       N processes share the work, through this machine's mpiexec; the results are the "
             "same. Under\n"
             "                      mpirun, srun or flux run leave it out\n"},
    {TRI_INT("tensor", tensor, 1, 1 << 16),
     .help =
         "  --tensor T          T of the N ranks hold one copy of the weights, for a model that one rank cannot hold "
         "(1)\n"},
    {TRI_TEXT("documents", documents),
     .help =
         "  --documents D       masked: documents in a sequence do not see each other; or joined; as in training\n"},
    {TRI_TEXT("packing", packing),
     .help = "  --packing P         documents: whole documents side by side; or windows; as in training\n"},
    {TRI_PATH("bigram", bigram),
     .help = "  --bigram TRAIN      also print the loss of a bigram model that is counted on this corpus\n"},
    {TRI_PATH("reference", reference),
     .help = "  --reference FOLDER  with a corpus of preferences: the model that training began with; rewards, "
             "margins, accuracies\n"
             "                      and the loss of the run's objective are then printed as in training\n"},
    {TRI_PATH("choices", choices), .help = "  --choices FILE      instead of a corpus: questions with given choices, a "
                                           "JSON line each (docs/judging.md), and\n"
                                           "                      how often the likeliest is the right one: acc and "
                                           "acc_norm as in lm-evaluation-harness\n"},
    {TRI_PATH("answers", answers),
     .help = "  --answers FILE      instead of a corpus: prompts with right answers, a JSON line each, and how often "
             "the text that\n"
             "                      the model finds likeliest, token by token, is one of them (exact_match)\n"},
    {TRI_FLAG("chat", chat),
     .help = "  --chat              with --choices or --answers: the folder's chat template is applied, the question "
             "is the user's\n"
             "                      message and the model's answer begins after the generation prompt\n"},
    {TRI_TEXT("system", system), .help = "  --system TEXT       with --chat: the system message\n"},
    {TRI_INT("tokens", rule.tokens, 1, 1 << 24), TRI_GIVEN(ruled),
     .help = "  --tokens N          maximum number of tokens of an answer (64)\n"},
    {TRI_INT("samples", samples, 1, 1 << 20), TRI_GIVEN(ruled),
     .help = "  --samples K         independently sampled answers to each question (1): their mean (avg@K), and the "
             "share of\n"
             "                      questions with a right one (pass@K)\n"},
    {TRI_DOUBLE("temperature", temperature, 0.0, 1e6), TRI_GIVEN(ruled),
     .help =
         "  --temperature T     temperature of sampling; 0: always the likeliest token (0; with several samples 1)\n"},
    {TRI_INT("seed", seed, 0, INT64_MAX), TRI_GIVEN(ruled), .help = "  --seed N            seed of sampling (1234)\n"},
    {TRI_READ("until", add_until), TRI_GIVEN(ruled),
     .help = "  --until TEXT        an answer ends before it (an empty line); may be given several times\n"},
    {TRI_FLAG("strip", rule.match.strip), TRI_GIVEN(ruled),
     .help = "  --strip             spaces around an answer are ignored; --ignore-case, --ignore-punctuation and\n"
             "                      --ignore-numbers ignore case, punctuation and numbers\n"},
    {TRI_FLAG("ignore-case", rule.match.ignore_case), TRI_GIVEN(ruled)},
    {TRI_FLAG("ignore-punctuation", rule.match.ignore_punctuation), TRI_GIVEN(ruled)},
    {TRI_FLAG("ignore-numbers", rule.match.ignore_numbers), TRI_GIVEN(ruled)},
    {TRI_FLAG("all-checkpoints", all_checkpoints), .help = "  --all-checkpoints   evaluate all checkpoints of a run, "
                                                           "in order; prints the noise of the last ones and rank\n"
                                                           "                      correlations, too\n"},
    {TRI_PATH("svg", svg), .help = "  --svg FILE          draw these results\n"},
    {TRI_FLAG("json", json),
     .help = "  --json              one JSON document on standard output; for questions, with the result of each\n"},
    {TRI_GROUP(model, tri_model_options, tri_model_option_rows)},
    {0}};

static bool asks(const eval_arguments *given) { return given->choices != NULL || given->answers != NULL; }

/* Fails with TRI_BAD_USAGE if options about questions do not go together. */
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

/* Fails with TRI_BAD_USAGE if the number of names on the command line is wrong, or if options for a corpus and options
 * for questions are mixed. */
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
  const tri_option_table table = {.command = "eval", .rows = eval_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  TRI_TRY(check_options(out, count - first));
  TRI_TRY(tri_check_weights_option("eval", &out->model));
  out->checkpoint = arguments[first];
  out->models = arguments + first;
  out->num_models = asks(out) ? count - first : count - first - 1;
  if (!asks(out) && out->num_models > 1) TRI_TRY(tri_models_drop_doubles(arguments + first, &out->num_models));
  out->data = asks(out) ? NULL : arguments[count - 1];
  return TRI_OK;
}

static tri_status ask_questions(const eval_arguments *given) {
  const tri_eval_questions asked = {.model = given->checkpoint,
                                    .models = given->models,
                                    .num_models = given->num_models,
                                    .file = given->choices != NULL ? given->choices : given->answers,
                                    .group = given->group,
                                    .tensor = given->tensor,
                                    .options = &given->model,
                                    .batch = given->batch,
                                    .limit = given->limit,
                                    .json = given->json,
                                    .chat = given->chat,
                                    .system = given->system,
                                    .all_checkpoints = given->all_checkpoints,
                                    .svg = given->svg,
                                    .rule = given->rule,
                                    .samples = given->samples,
                                    .temperature = given->temperature,
                                    .seed = (uint64_t)given->seed};
  if (given->choices != NULL) return tri_eval_choices(&asked);
  if (given->model.num_forms > 1)
    return tri_fail(TRI_BAD_USAGE,
                    "eval: several --weights are compared on a corpus or by --choices; --answers takes "
                    "one of them");
  return tri_eval_answers(&asked);
}

static tri_status eval_text(const eval_arguments *given, const tri_corpus *corpus) {
  const tri_eval_text asked = {.models = given->models,
                               .num_models = given->num_models,
                               .corpus = corpus,
                               .data = given->data,
                               .bigram = given->bigram,
                               .group = given->group,
                               .tensor = given->tensor,
                               .options = &given->model,
                               .sequence = given->sequence,
                               .batch = given->batch,
                               .limit = given->limit,
                               .documents = given->documents,
                               .packing = given->packing,
                               .json = given->json};
  if (given->reference == NULL) return tri_eval_text_run(&asked);
  return tri_fail(TRI_BAD_USAGE,
                  "eval: --reference is for a corpus of preferences (`trireme prepare --preferences`), and %s is one "
                  "of texts or conversations",
                  given->data);
}

static tri_status eval_preferences(const eval_arguments *given, const tri_corpus *corpus) {
  const tri_eval_preferences asked = {.model = given->checkpoint,
                                      .reference = given->reference,
                                      .corpus = corpus,
                                      .group = given->group,
                                      .tensor = given->tensor,
                                      .options = &given->model,
                                      .sequence = given->sequence,
                                      .batch = given->batch,
                                      .limit = given->limit,
                                      .json = given->json};
  if (given->model.num_forms > 1)
    return tri_fail(TRI_BAD_USAGE,
                    "eval: several --weights are compared on a corpus of texts or by --choices; %s, a "
                    "corpus of preferences, takes one of them",
                    given->data);
  if (given->documents != NULL || given->packing != NULL || given->bigram != NULL || given->num_models > 1) {
    return tri_fail(TRI_BAD_USAGE,
                    "eval: %s is a corpus of preferences, which takes one model, and no --documents, --packing or "
                    "--bigram: each answer is read by itself",
                    given->data);
  }
  return tri_eval_preferences_run(&asked);
}

static tri_status eval_corpus(const eval_arguments *given, const tri_corpus *corpus) {
  switch (tri_corpus_preferences(corpus)) {
    case TRI_PREFERENCES_NONE: break;
    case TRI_PREFERENCES_PAIRS:
    case TRI_PREFERENCES_LABELS: return eval_preferences(given, corpus);
  }
  return eval_text(given, corpus);
}

/* Fails with TRI_BAD_USAGE if the name of the corpus is that of a file of questions, or of text that was not
 * prepared. */
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

static tri_status eval_work(void *context, const tri_group *group, int threads) {
  eval_arguments *given = context;
  given->group = group;
  if (given->model.threads == 0) given->model.threads = threads;
  if (asks(given)) return ask_questions(given);
  tri_corpus *corpus = NULL;
  TRI_TRY(tri_ranks_agree(group, tri_corpus_open(given->data, &corpus)));
  tri_status status = tri_ranks_agree(group, tri_startup_check_corpus(group, corpus, INT32_MAX, "corpus"));
  if (status == TRI_OK) status = eval_corpus(given, corpus);
  tri_corpus_close(corpus);
  return status;
}

static tri_status eval_run(int count, char **arguments) {
  eval_arguments parsed = {
      .model = tri_model_options_default(), .rule = {.tokens = 64}, .samples = 1, .temperature = -1, .seed = 1234};
  TRI_TRY(eval_parse(count, arguments, &parsed));
  if (parsed.rule.until[0] == NULL) parsed.rule.until[0] = "\n\n";
  if (!asks(&parsed)) TRI_TRY(check_corpus_name(parsed.data));
  const tri_ranks_work work = {
      .ranks = parsed.ranks, .tensor = parsed.tensor, .arguments = arguments, .work = eval_work, .context = &parsed};
  return tri_ranks_run(&work);
}

const tri_command tri_command_eval = {
    .name = "eval",
    .summary = "loss, perplexity and bits per byte of a checkpoint on a corpus; or questions it gets right",
    .usage =
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
        "token of every document but its first, in sequences of T tokens into which documents are packed.\n"
        "CHECKPOINT is a checkpoint's folder, a run's output, or a Hugging Face folder. Labels that did not count in\n"
        "training (data.ignore_token) do not count here, and documents are handled as in training, but masked and "
        "packed if\n"
        "the corpus has a mask; a line of the output reports this. The exit status is not 0 if the loss is not a "
        "number.\n"
        "Several checkpoints are an ensemble: the loss is that of the mean of their probabilities, printed with the "
        "loss of\n"
        "each. Several types of --weights, such as fp32,q8_0,q4_0, give a table with a row for each.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme eval runs/gpt2-demo corpus/validation\n",
    .options = eval_options,
    .holds_signals = true,
    .run = eval_run,
};
