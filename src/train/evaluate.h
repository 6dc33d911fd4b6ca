/* The loss of a model on text, every token counted once. */
#ifndef TRI_TRAIN_EVALUATE_H
#define TRI_TRAIN_EVALUATE_H

#include "data/corpus.h"
#include "train/executor.h"

/* Sums over labels. Divide at the end, never in between. */
typedef struct tri_evaluation {
  double loss_sum; /* natural logarithm */
  int64_t counted; /* labels */
} tri_evaluation;

/* Adds the loss of one full batch of the executor's list, ids and labels [batch, sequence], to *total. Negative labels
 * do not count: that is how a batch is filled up. Packed weights must be up to date. */
tri_status tri_evaluate_batch(tri_executor *executor, const int32_t *ids, const int32_t *labels, tri_evaluation *total);

/* `windows` windows spread evenly over the sampler's (all of them if it has fewer), the same ones every time. Labels
 * equal to ignore_token do not count. `scratch` has room for ids and labels of a batch of the executor's list. */
tri_status tri_evaluate_windows(tri_executor *executor, const tri_sampler *sampler, int64_t windows,
                                int32_t ignore_token, int32_t *scratch, tri_evaluation *out);

#endif
