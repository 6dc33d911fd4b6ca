/* `eval` with a corpus of texts or conversations: the loss of a model, or of the mean of several. */
#ifndef TRI_CLI_RUNNING_EVAL_TEXT_H
#define TRI_CLI_RUNNING_EVAL_TEXT_H

#include "comm/comm.h"
#include "data/corpus.h"
#include "engine/model_options.h"

typedef struct tri_eval_text {
  char *const *models; /* [num_models]: several are an ensemble */
  int num_models;
  const tri_corpus *corpus;
  const char *data, *bigram; /* name of the corpus; corpus to count the baseline on, or NULL */
  const tri_group *group;    /* ranks that share the work */
  int64_t tensor;            /* tensor ranks of each replica; 0 or 1: one */
  const tri_model_options *options;
  int64_t sequence, batch;         /* 0: the sequence of training; a batch of 4 */
  const char *documents, *packing; /* NULL: as in training */
  bool json;
} tri_eval_text;

/* Computes the loss and prints it. TRI_DIVERGED if it is not a number. */
tri_status tri_eval_text_run(const tri_eval_text *asked);

#endif
