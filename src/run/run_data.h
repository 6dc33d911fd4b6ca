/* The data of a run: its corpora and their tokenizer, checked against one another. */
#ifndef TRI_RUN_RUN_DATA_H
#define TRI_RUN_RUN_DATA_H

#include "data/preference_source.h"
#include "data/prompt_source.h"
#include "data/sampler.h"
#include "run/identity.h"
#include "run/run_config.h"

/* A kind of data, which determines the function that opens it (run_data.c). */
typedef struct tri_run_data_kind tri_run_data_kind;
extern const tri_run_data_kind tri_run_data_text, tri_run_data_preferences, tri_run_data_prompts;

typedef struct tri_run_data {
  tri_corpus *train_corpora[TRI_MOST_SOURCES], *validation_corpus;
  tri_sampler train, validation; /* no sources if the run has no such corpus, or if it is a corpus of preferences */
  tri_preference_source preferences, validation_preferences; /* {0} if the run has no such corpus */
  tri_prompt_source prompts, validation_prompts;             /* {0} if the run has no prompts */
  char tokenizer[TRI_PATH_BYTES];                            /* path of tokenizer.json; "": no tokenizer */
  int32_t end_of_text; /* id of the end-of-text token in that tokenizer; -1: none */
} tri_run_data;

/* Returns the number of samples, or of prompts, of one pass over the training data. */
int64_t tri_run_data_per_epoch(const tri_run_data *data);

/* Returns the number of tokens of the longest prompt, of training and held-out prompts together; 0 without prompts. */
int64_t tri_run_data_longest_prompt(const tri_run_data *data);

/* LOCAL. Opens the corpora or files of prompts that the configuration names, and sets the fingerprints in the identity.
 * Refuses a corpus of another tokenizer, one that is listed twice, and a vocabulary that is too large for the model;
 * messages name the corpus or the tokenizer. Release with tri_run_data_close, also after a failure. */
tri_status tri_run_data_open(const tri_run_config *config, const tri_run_data_kind *kind, tri_identity *identity,
                             tri_run_data *out);
void tri_run_data_close(tri_run_data *data);

#endif
