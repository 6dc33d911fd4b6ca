/* Computes the loss of a model on text, or the log-probabilities of its labels. */
#ifndef TRI_ENGINE_EVALUATE_H
#define TRI_ENGINE_EVALUATE_H

#include "comm/mesh.h"
#include "data/feed.h"
#include "device/exact_sum.h"
#include "engine/executor.h"

/* Sums over the labels of a text. The mean loss is loss_sum / counted; results of several texts are added before the
 * division. */
typedef struct tri_evaluation {
  double loss_sum; /* sum of the losses of the labels times their weights, in nats */
  double counted;  /* sum of the labels' weights */
} tri_evaluation;

/* Adds the loss of the executor's only list on its sequences (tri_executor_sequence) to *total. Negative labels, such
 * as padding, do not count. Packed weights must be up to date. */
tri_status tri_evaluate_batch(tri_executor *executor, tri_evaluation *total);

/* Computes log-probabilities with a list that scores labels (TRI_LIST_SCORE): out[batch, sequence] has each label's
 * log-probability times its weight, 0 if the label does not count. */
tri_status tri_evaluate_labels(tri_executor *executor, double *out);

/* A batch of samples to score: samples [first, first + batch) of a feed with `samples` samples. Rows after the last
 * sample are padding. */
typedef struct tri_score_batch {
  const tri_feed *feed;
  int64_t samples, first, batch, sequence;
  tri_sample into; /* columns into which the samples are read, each [batch, sequence] */
} tri_score_batch;

tri_status tri_score_batch_read(const tri_score_batch *batch);

/* A batch that was scored: samples [first, first + count) of the feed, in the executor's arrays. */
typedef struct tri_scored_batch {
  int64_t first, count;
  tri_sample rows;      /* ids, labels and positions, each [batch, sequence]; rows after `count` are padding */
  const double *scores; /* result of tri_evaluate_labels [batch, sequence]; NULL unless labels are scored */
} tri_scored_batch;

typedef struct tri_feed_scoring {
  const tri_group *group; /* ranks that share the batches; NULL: this rank alone */
  tri_executor *executor; /* executor with a single list, which has the shape of a batch */
  const tri_feed *feed;   /* feed with ids, labels and positions */
  int64_t samples;
  /* Sums to which the loss of every batch is added; NULL: labels are scored instead (TRI_LIST_SCORE). */
  tri_evaluation *total;
  tri_status (*done)(void *context, const tri_scored_batch *batch);
  void *context;
} tri_feed_scoring;

/* COLLECTIVE over the group. Scores all samples of a feed; each label counts once. Each rank runs every size-th batch.
 * All ranks get all results and call `done` for each batch, in the order of the batches, so the sums do not depend on
 * the number of ranks. */
tri_status tri_feed_score(const tri_feed_scoring *scoring);

/* Returns whether this rank's loss counts in a sum over the mesh: only the first of the ranks with the same labels
 * counts. */
bool tri_evaluation_counts(const tri_mesh *mesh);

/* COLLECTIVE over the mesh. Adds up the sums of all ranks. Only ranks of the last stage have losses. */
tri_status tri_evaluation_join(const tri_mesh *mesh, const tri_exact_sum *loss, const tri_exact_sum *counted,
                               tri_evaluation *out);

#endif
