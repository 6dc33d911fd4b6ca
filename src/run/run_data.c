#include "run/run_data.h"

#include "base/count.h"
#include "checkpoint/checkpoint.h"
#include "model/preference_losses.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* Sets `out` to the path of the tokenizer: the one that data.tokenizer names; with prompts, the one of the model with
 * which the run begins; or the one next to the first corpus that has one. Sets it to "" if there is no tokenizer.
 * open_corpus compares the corpora with it. */
static tri_status find_tokenizer(const tri_run_config *config, char out[TRI_PATH_BYTES]) {
  char directory[TRI_PATH_BYTES];
  if (config->data.prompts[0] != '\0' && config->data.tokenizer[0] == '\0' && config->init[0] != '\0') {
    const tri_checkpoint_use use = {.settings_only = true};
    TRI_TRY(tri_checkpoint_find(config->init, &use, directory));
    TRI_TRY(tri_path_join(out, directory, "tokenizer.json"));
    if (tri_path_exists(out)) return TRI_OK;
  }
  if (config->data.tokenizer[0] != '\0') return tri_tokenizer_path(config->data.tokenizer, out);
  for (int64_t k = 0; k < config->data.num_train; k++) {
    memcpy(directory, config->data.train[k].path, sizeof directory);
    char *slash = strrchr(directory, '/');
    if (slash != NULL) *slash = '\0';
    TRI_TRY(tri_path_join(out, slash == NULL ? "." : directory, "tokenizer.json"));
    if (tri_path_exists(out)) return TRI_OK;
  }
  out[0] = '\0';
  return TRI_OK;
}

static tri_status check_vocabulary(const tri_run_config *config, const tri_tokenizer *tokenizer, const char *path) {
  int64_t size = tri_tokenizer_vocab_size(tokenizer), room = config->model.vocab_size;
  if (size <= room) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "the tokenizer %s has %ld tokens and model.vocab_size is %ld; set model.vocab_size to %ld or more",
                  path, (long)size, (long)room, (long)size);
}

typedef struct opening {
  const tri_run_config *config;
  const tri_tokenizer *tokenizer; /* NULL: none */
  const char *tokenizer_path;
  int32_t end_of_text;
} opening;

/* Opens a corpus, checks that it is of preferences if the objective needs them and of text otherwise, compares it with
 * the tokenizer, and copies its fingerprint. */
static tri_status open_corpus(const opening *o, const char *prefix, tri_corpus **corpus,
                              char fingerprint[TRI_FINGERPRINT_BYTES]) {
  TRI_TRY(tri_corpus_open(prefix, corpus));
  TRI_TRY(tri_objective_is_preference(&o->config->objective) ? tri_corpus_want_preferences(*corpus)
                                                             : tri_corpus_want_text(*corpus));
  TRI_TRY(tri_corpus_check_tokenizer(*corpus, o->tokenizer, o->tokenizer_path));
  snprintf(fingerprint, TRI_FINGERPRINT_BYTES, "%s", tri_corpus_fingerprint(*corpus));
  return TRI_OK;
}

static tri_status create_sampler(const opening *o, tri_corpus *const *corpora, const tri_mixture_shares *shares,
                                 int64_t max_samples, tri_sampler *sampler) {
  const tri_run_config *config = o->config;
  const tri_source_options options = {
      .sequence = config->data.sequence,
      .vocab_size = config->model.vocab_size,
      .seed = config->seed,
      .documents = config->data.documents,
      .packing = config->data.packing,
      .too_long = config->data.too_long,
      .max_samples = max_samples,
      .end_of_text = o->end_of_text,
  };
  return tri_sampler_create((const tri_corpus *const *)corpora, shares, &options, sampler);
}

/* Checks that the training corpus is divided into documents if they are packed or masked, and, if masked, that one of
 * them is long enough to have a label. Validation text is not checked, because it may be a single document. */
static tri_status check_documents(const tri_run_config *config, const tri_source *source) {
  bool plain = config->data.documents == TRI_DOCUMENTS_JOINED && config->data.packing == TRI_PACKING_WINDOWS;
  if (plain) return TRI_OK;
  TRI_TRY(tri_documents_check(&source->documents));
  return source->masked ? tri_documents_check_lengths(&source->documents) : TRI_OK;
}

/* Refuses a corpus with another tokenizer than an earlier one, and a corpus that is listed twice under different names,
 * because an epoch would have its samples twice. */
static tri_status check_others(const tri_run_config *config, const tri_run_data *data, int64_t number) {
  const tri_corpus *corpus = data->train_corpora[number];
  for (int64_t k = 0; k < number; k++) {
    const tri_corpus *other = data->train_corpora[k];
    TRI_TRY(tri_corpus_check_same_tokenizer(corpus, other));
    if (strcmp(tri_corpus_fingerprint(corpus), tri_corpus_fingerprint(other)) != 0) continue;
    const double sum = config->data.train[k].weight + config->data.train[number].weight;
    char weight[48] = "";
    if (sum > 0) snprintf(weight, sizeof weight, ", with weight %g", sum);
    return tri_fail(TRI_BAD_CONFIG,
                    "`data.train` lists one corpus twice: %.200s and %.200s have the same content; name it once%s",
                    tri_corpus_name(other), tri_corpus_name(corpus), weight);
  }
  return TRI_OK;
}

static tri_status weigh_labels(const tri_run_config *config, tri_sampler *sampler) {
  double weights[TRI_MOST_SOURCES];
  for (int64_t k = 0; k < config->data.num_train; k++) weights[k] = config->data.train[k].label_weight;
  return tri_sampler_weigh(sampler, weights);
}

static tri_status open_training(const opening *o, tri_identity *identity, tri_run_data *out) {
  const tri_run_config *config = o->config;
  tri_mixture_shares shares = {.num_sources = config->data.num_train};
  if (!tri_run_config_mixes_by_size(config)) TRI_TRY(tri_run_config_shares(config, &shares));
  for (int64_t k = 0; k < config->data.num_train; k++) {
    TRI_TRY(open_corpus(o, config->data.train[k].path, &out->train_corpora[k], identity->train[k]));
    TRI_TRY(check_others(config, out, k));
  }
  TRI_TRY(create_sampler(o, out->train_corpora, &shares, config->data.max_samples, &out->train));
  TRI_TRY(weigh_labels(config, &out->train));
  for (int64_t k = 0; k < config->data.num_train; k++) TRI_TRY(check_documents(config, &out->train.sources[k]));
  bool said = false; /* whether a line has been logged; one is enough, because all corpora have the same tokenizer */
  for (int64_t k = 0; k < config->data.num_train && !said; k++) {
    said = tri_corpus_log_vocabulary(out->train_corpora[k], config->model.vocab_size);
  }
  said = false;
  for (int64_t k = 0; k < config->data.num_train && !said; k++) {
    said = tri_corpus_log_beginning(out->train_corpora[k], o->tokenizer);
  }
  return TRI_OK;
}

/* Creates the source of pairs or single answers that a loss of preferences needs. */
static tri_status create_preferences(const opening *o, const tri_corpus *corpus, int64_t max_samples,
                                     tri_preference_source *out) {
  const tri_run_config *config = o->config;
  const tri_preference_rules rules = tri_preference_rules_of(tri_objective_preference_loss(&config->objective));
  tri_preference_source_options options = {
      .sequence = config->data.sequence,
      .vocab_size = config->model.vocab_size,
      .seed = config->seed,
      .paired = rules.paired,
      .mismatched = rules.kl,
      .weights = tri_objective_config_weights(&config->objective),
      .too_long = config->data.too_long,
      .max_samples = max_samples,
  };
  if (o->tokenizer != NULL) {
    const int32_t *beginning = tri_tokenizer_beginning(o->tokenizer, &options.num_beginning);
    memcpy(options.beginning, beginning, (size_t)options.num_beginning * sizeof *beginning);
  }
  return tri_preference_source_create(corpus, &options, out);
}

static tri_status open_preferences(const opening *o, tri_identity *identity, tri_run_data *out) {
  const tri_run_config *config = o->config;
  TRI_TRY(open_corpus(o, config->data.train[0].path, &out->train_corpora[0], identity->train[0]));
  TRI_TRY(create_preferences(o, out->train_corpora[0], config->data.max_samples, &out->preferences));
  tri_corpus_log_vocabulary(out->train_corpora[0], config->model.vocab_size);
  if (config->data.validation[0] == '\0' || config->evaluation.every == 0) return TRI_OK;
  TRI_TRY(open_corpus(o, config->data.validation, &out->validation_corpus, identity->validation));
  return create_preferences(o, out->validation_corpus, 0, &out->validation_preferences);
}

static tri_status open_corpora(const opening *o, tri_identity *identity, tri_run_data *out) {
  const tri_run_config *config = o->config;
  const tri_mixture_shares alone = {.num_sources = 1, .period = 1, .counts = {1}};
  TRI_TRY(open_training(o, identity, out));
  if (config->data.validation[0] == '\0' || config->evaluation.every == 0) return TRI_OK;
  TRI_TRY(open_corpus(o, config->data.validation, &out->validation_corpus, identity->validation));
  return create_sampler(o, &out->validation_corpus, &alone, 0, &out->validation);
}

/* Reads a file of prompts, and takes its fingerprint. */
static tri_status open_prompt_file(const opening *o, const char *key, const char *path, tri_prompt_source *out,
                                   char fingerprint[TRI_FINGERPRINT_BYTES]) {
  const tri_run_config *config = o->config;
  const char *chat_set[TRI_MOST_CHAT_VARIABLES];
  for (int64_t i = 0; i < config->data.num_chat_set; i++) chat_set[i] = config->data.chat_set[i].text;
  const tri_prompt_source_options options = {
      .tokenizer = o->tokenizer,
      .tokenizer_file = o->tokenizer_path,
      .chat_set = chat_set,
      .num_chat_set = (int)config->data.num_chat_set,
      .longest = config->data.sequence - config->rollout.max_completion_length + 1,
      .skip_long = config->data.skip_long,
  };
  const tri_status status = tri_prompt_source_open(path, &options, out);
  if (status != TRI_OK) return tri_fail(status, "`%s`: %s", key, tri_status_message());
  memcpy(fingerprint, out->fingerprint, sizeof out->fingerprint);
  return TRI_OK;
}

static tri_status open_prompts(const opening *o, tri_identity *identity, tri_run_data *out) {
  const tri_run_config *config = o->config;
  if (o->tokenizer == NULL) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`data.prompts`: the run has no tokenizer; set data.tokenizer to a tokenizer.json or its folder, or "
        "begin with a model (`init`) that has one in its folder");
  }
  TRI_TRY(open_prompt_file(o, "data.prompts", config->data.prompts, &out->prompts, identity->train[0]));
  if (config->data.validation_prompts[0] == '\0') return TRI_OK;
  return open_prompt_file(o, "data.validation_prompts", config->data.validation_prompts, &out->validation_prompts,
                          identity->validation);
}

struct tri_run_data_kind {
  /* Opens the corpora or the files of prompts, and creates the samplers or sources of corpora. */
  tri_status (*open)(const opening *o, tri_identity *identity, tri_run_data *out);
};

const tri_run_data_kind tri_run_data_text = {open_corpora};
const tri_run_data_kind tri_run_data_preferences = {open_preferences};
const tri_run_data_kind tri_run_data_prompts = {open_prompts};

int64_t tri_run_data_per_epoch(const tri_run_data *data) {
  if (data->prompts.count > 0) return data->prompts.count;
  return data->preferences.corpus != NULL ? data->preferences.per_epoch : data->train.per_epoch;
}

int64_t tri_run_data_longest_prompt(const tri_run_data *data) {
  return tri_larger(data->prompts.longest, data->validation_prompts.longest);
}

tri_status tri_run_data_open(const tri_run_config *config, const tri_run_data_kind *kind, tri_identity *identity,
                             tri_run_data *out) {
  tri_tokenizer *tokenizer = NULL;
  TRI_TRY(find_tokenizer(config, out->tokenizer));
  tri_status status = out->tokenizer[0] == '\0' ? TRI_OK : tri_tokenizer_create(out->tokenizer, &tokenizer);
  if (status == TRI_OK && tokenizer != NULL) status = check_vocabulary(config, tokenizer, out->tokenizer);
  if (status == TRI_OK && tokenizer != NULL) status = tri_tokenizer_fingerprint(tokenizer, identity->tokenizer);
  if (status == TRI_OK && tokenizer != NULL) {
    status = tri_tokenizer_fingerprint_before(tokenizer, identity->tokenizer_before);
  }
  out->end_of_text = status == TRI_OK && tokenizer != NULL ? tri_tokenizer_end_of_text(tokenizer) : -1;
  const opening o = {config, tokenizer, out->tokenizer, out->end_of_text};
  if (status == TRI_OK) status = kind->open(&o, identity, out);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

void tri_run_data_close(tri_run_data *data) {
  tri_prompt_source_release(&data->validation_prompts);
  tri_prompt_source_release(&data->prompts);
  tri_preference_source_destroy(&data->validation_preferences);
  tri_preference_source_destroy(&data->preferences);
  tri_sampler_destroy(&data->validation);
  tri_sampler_destroy(&data->train);
  tri_corpus_close(data->validation_corpus);
  for (int64_t k = 0; k < TRI_MOST_SOURCES; k++) tri_corpus_close(data->train_corpora[k]);
}
