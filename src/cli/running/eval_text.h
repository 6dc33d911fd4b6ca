/* `eval` with a corpus of texts or conversations. It computes the loss of a model, or of the mean of several models. */
#ifndef TRI_CLI_RUNNING_EVAL_TEXT_H
#define TRI_CLI_RUNNING_EVAL_TEXT_H

#include "comm/comm.h"
#include "data/corpus.h"
#include "engine/model_options.h"

typedef struct tri_eval_text {
  char *const *models; /* [num_models]: folders of the models; several models are an ensemble */
  int num_models;
  const tri_corpus *corpus;
  const char *data, *bigram; /* data: name of the corpus; bigram: corpus on which the baseline is counted, or NULL */
  const tri_group *group;    /* ranks that share the work */
  int64_t tensor;            /* tensor ranks of each replica; 0 or 1: one rank */
  const tri_model_options *options;
  /* `sequence`: tokens of a sequence; 0: those of training or, if these are unknown, 1024, at most the model's
   * positions. `batch`: sequences of a batch; 0: 4. */
  int64_t sequence, batch;
  int64_t limit;                   /* number of sequences to evaluate, the first of the corpus; 0: all */
  const char *documents, *packing; /* NULL: the same as in training */
  bool json;
} tri_eval_text;

/* COLLECTIVE over asked->group. Computes the loss and prints it. Logs the shape of sequences. Fails with TRI_DIVERGED
 * if the loss is not a finite number, and with TRI_BAD_FILE if no label counts. */
tri_status tri_eval_text_run(const tri_eval_text *asked);

#endif
