/* The loss of a model on text, every token counted once. */
#ifndef TRI_ENGINE_EVALUATE_H
#define TRI_ENGINE_EVALUATE_H

#include "base/exact_terms.h"
#include "comm/mesh.h"
#include "data/feed.h"
#include "engine/executor.h"

/* Sums over labels, each as it weighs. Divide at the end, never in between. */
typedef struct tri_evaluation {
  double loss_sum; /* natural logarithm */
  double counted;  /* labels */
} tri_evaluation;

/* Adds the loss of the executor's only list on its sequences (tri_executor_sequence) to *total. Negative labels do not
 * count: that is how a batch is padded. Packed weights must be up to date. */
tri_status tri_evaluate_batch(tri_executor *executor, tri_evaluation *total);

/* The same of a list of scores (TRI_LIST_SCORE), where out[batch * sequence] gets the log of each label's probability
 * times its weight, 0 if it does not count. */
tri_status tri_evaluate_labels(tri_executor *executor, double *out);

/* A batch of the samples that are scored: [first, first + batch) of `samples`. Those beyond the last are filled up with
 * labels that do not count. */
typedef struct tri_score_batch {
  const tri_feed *feed;
  int64_t samples, first, batch, sequence;
  tri_sample into; /* each [batch, sequence] */
} tri_score_batch;

tri_status tri_score_batch_read(const tri_score_batch *batch);

/* Whether this rank's loss counts in a sum over the mesh: of the ranks that have the same labels, on the first. */
bool tri_evaluation_counts(const tri_mesh *mesh);

/* COLLECTIVE over the mesh. From each rank's share of an evaluation to the whole: losses are those of last stages. */
tri_status tri_evaluation_join(const tri_mesh *mesh, const tri_exact_sum *loss, const tri_exact_sum *counted,
                               tri_evaluation *out);

#endif
