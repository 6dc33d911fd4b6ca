/* A model that `eval` runs on sequences of a fixed shape. */
#ifndef TRI_CLI_RUNNING_EVAL_MODEL_H
#define TRI_CLI_RUNNING_EVAL_MODEL_H

#include "checkpoint/merged.h"
#include "data/corpus.h"
#include "engine/evaluate.h"
#include "engine/model_options.h"
#include "generation/replicas.h"
#include "model/family.h"

typedef struct tri_eval_shape {
  tri_list_purpose purpose; /* TRI_LIST_EVALUATE or TRI_LIST_SCORE */
  int64_t batch, sequence;  /* sequences of a batch; tokens of a sequence */
  bool masked;              /* whether documents of a sequence do not attend to each other */
} tri_eval_shape;

/* Starts as {0}. */
typedef struct tri_eval_model {
  tri_device *device;
  tri_parameter_table *table;
  tri_op_list *list;
  tri_weights *weights;
  tri_executor *executor;
  tri_replicas replicas; /* copies of the model on all ranks of the group */
} tri_eval_model;

/* COLLECTIVE over the group. Creates the replicas, each on `tensor` ranks (0 or 1: on one rank), the device and the
 * executor, and loads the weights. `model` and `group` must outlive *out. Release with tri_eval_model_release, also
 * after a failure. */
tri_status tri_eval_model_create(const tri_model *model, const tri_merged *weights, const tri_model_options *options,
                                 const tri_eval_shape *shape, const tri_group *group, int64_t tensor,
                                 tri_eval_model *out);
void tri_eval_model_release(tri_eval_model *model);

/* Logs a line if `samples` samples make fewer batches than the group has replicas, so that some replicas are idle.
 * `tensor`: number of ranks of a replica; 0 or 1: one rank. */
void tri_eval_log_idle(const tri_group *group, int64_t tensor, int64_t samples, int64_t batch);

/* COLLECTIVE. Scores all samples of a feed. The replicas share the batches. Sets the group and the executor of
 * *scoring, and ends the line of progress in the log. */
tri_status tri_eval_model_score(const tri_eval_model *model, tri_feed_scoring *scoring);

/* Opens the tokenizer that the options name, or else the tokenizer of a model's weights. *out stays NULL if there is
 * none. Fails with TRI_BAD_FILE if the corpus was made with another tokenizer. The caller destroys *out, also after a
 * failure. */
tri_status tri_eval_corpus_tokenizer(const tri_merged *weights, const tri_model_options *options,
                                     const tri_corpus *corpus, tri_tokenizer **out);

#endif
