/* What a run reads: its corpora and their tokenizer, compared with one another. */
#ifndef TRI_RUN_RUN_DATA_H
#define TRI_RUN_RUN_DATA_H

#include "data/preference_source.h"
#include "data/sampler.h"
#include "run/identity.h"
#include "run/run_config.h"

typedef struct tri_run_data {
  tri_corpus *train_corpora[TRI_MOST_SOURCES], *validation_corpus;
  tri_sampler train, validation; /* without sources if there is no such corpus, or it is one of preferences */
  tri_preference_source preferences, validation_preferences; /* else {0} */
  char tokenizer[TRI_PATH_BYTES];                            /* of the tokenizer.json; "": no tokenizer */
  int32_t end_of_text;                                       /* that tokenizer's; -1: it has none */
} tri_run_data;

/* Samples of one pass over what is trained on. */
int64_t tri_run_data_per_epoch(const tri_run_data *data);

/* LOCAL. Opens what the configuration names, and notes the fingerprints. A corpus of another tokenizer, one that is
 * listed twice, or a vocabulary that the model has no room for, is refused by name. Release with tri_run_data_close,
 * also after a failure. */
tri_status tri_run_data_open(const tri_run_config *config, tri_identity *identity, tri_run_data *out);
void tri_run_data_close(tri_run_data *data);

#endif
