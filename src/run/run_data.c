#include "run/run_data.h"

#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* The one that is named, or the one beside the corpus. */
static tri_status find_tokenizer(const tri_run_config *config, char out[TRI_PATH_BYTES]) {
  char directory[TRI_PATH_BYTES];
  if (config->data.tokenizer[0] != '\0') {
    memcpy(out, config->data.tokenizer, TRI_PATH_BYTES);
    return TRI_OK;
  }
  memcpy(directory, config->data.train, sizeof directory);
  char *slash = strrchr(directory, '/');
  if (slash != NULL) *slash = '\0';
  TRI_TRY(tri_path_join(out, slash == NULL ? "." : directory, "tokenizer.json"));
  if (!tri_path_exists(out)) out[0] = '\0';
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
  const tri_tokenizer *tokenizer; /* or NULL */
  const char *tokenizer_path;
} opening;

/* Opens a corpus, compares it with the tokenizer and takes its fingerprint. */
static tri_status open_corpus(const opening *o, const char *prefix, tri_corpus **corpus, tri_sampler *sampler,
                              char fingerprint[TRI_FINGERPRINT_BYTES]) {
  const tri_run_config *config = o->config;
  TRI_TRY(tri_corpus_open(prefix, corpus));
  TRI_TRY(tri_corpus_check_tokenizer(*corpus, o->tokenizer, o->tokenizer_path));
  snprintf(fingerprint, TRI_FINGERPRINT_BYTES, "%s", tri_corpus_fingerprint(*corpus));
  const tri_sampler_options options = {
      .sequence = config->data.sequence,
      .vocab_size = config->model.vocab_size,
      .seed = config->seed,
      .documents = config->data.documents,
      .packing = config->data.packing,
      .end_of_text = o->tokenizer == NULL ? -1 : tri_tokenizer_end_of_text(o->tokenizer),
  };
  return tri_sampler_create(*corpus, &options, sampler);
}

/* Held-out text may be one document. */
static tri_status check_documents(const tri_run_config *config, const tri_sampler *train) {
  bool plain = config->data.documents == TRI_DOCUMENTS_JOINED && config->data.packing == TRI_PACKING_WINDOWS;
  if (plain) return TRI_OK;
  TRI_TRY(tri_documents_check(&train->documents));
  return train->masked ? tri_documents_check_lengths(&train->documents) : TRI_OK;
}

static tri_status open_corpora(const opening *o, tri_identity *identity, tri_run_data *out) {
  const tri_run_config *config = o->config;
  TRI_TRY(open_corpus(o, config->data.train, &out->train_corpus, &out->train, identity->train));
  TRI_TRY(check_documents(config, &out->train));
  (void)tri_corpus_say_vocabulary(out->train_corpus, config->model.vocab_size);
  if (config->data.validation[0] == '\0' || config->evaluation.every == 0) return TRI_OK;
  return open_corpus(o, config->data.validation, &out->validation_corpus, &out->validation, identity->validation);
}

tri_status tri_run_data_open(const tri_run_config *config, tri_identity *identity, tri_run_data *out) {
  tri_tokenizer *tokenizer = NULL;
  TRI_TRY(find_tokenizer(config, out->tokenizer));
  tri_status status = out->tokenizer[0] == '\0' ? TRI_OK : tri_tokenizer_create(out->tokenizer, &tokenizer);
  if (status == TRI_OK && tokenizer != NULL) status = check_vocabulary(config, tokenizer, out->tokenizer);
  if (status == TRI_OK && tokenizer != NULL) status = tri_tokenizer_fingerprint(tokenizer, identity->tokenizer);
  if (status == TRI_OK) status = open_corpora(&(opening){config, tokenizer, out->tokenizer}, identity, out);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

void tri_run_data_close(tri_run_data *data) {
  tri_sampler_destroy(&data->validation);
  tri_sampler_destroy(&data->train);
  tri_corpus_close(data->validation_corpus);
  tri_corpus_close(data->train_corpus);
}
