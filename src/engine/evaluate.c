#include "engine/evaluate.h"

#include "base/memory.h"
#include "device/exact_sum.h"

/* Runs the executor's only list on its sequences. */
static tri_status forward_batch(tri_executor *executor, const tri_step_results **results) {
  const tri_op_list *list = executor->chunks[0].list;
  tri_run run = tri_executor_run(executor, 0, 0);
  run.batch = list->batch;
  run.sequence = list->sequence;
  TRI_TRY(tri_executor_make_batch(executor, 0));
  tri_executor_set_batch(executor, 0, &run);
  run.loss_sum = &tri_executor_step_results(executor)->loss;
  TRI_TRY(tri_executor_upload_batch(executor, 0));
  TRI_TRY(tri_executor_forward(executor, 0, &run));
  return tri_executor_read_results(executor, results);
}

tri_status tri_evaluate_batch(tri_executor *executor, tri_evaluation *total) {
  const tri_op_list *list = executor->chunks[0].list;
  const tri_step_results *results = NULL;
  const tri_batch host = tri_executor_host_batch(executor, 0);
  const int64_t tokens = list->batch * list->sequence;
  TRI_TRY(forward_batch(executor, &results));
  total->loss_sum += results->loss;
  for (int64_t i = 0; i < tokens; i++) total->counted += host.labels[i] >= 0 ? (double)host.weights[i] : 0;
  return TRI_OK;
}

/* Computes the log-probabilities from the losses of the labels, which are the output of the list's last call. */
tri_status tri_evaluate_labels(tri_executor *executor, double *out) {
  const tri_op_list *list = executor->chunks[0].list;
  const tri_op_call *last = &list->calls[list->num_calls - 1];
  const tri_step_results *results = NULL;
  const tri_dtype wide = tri_dtype_wide(executor->type);
  const int64_t tokens = list->batch * list->sequence;
  void *losses = NULL;
  TRI_TRY(tri_alloc("labels' losses", (size_t)tokens, sizeof(double), &losses));
  tri_status status = forward_batch(executor, &results);
  if (status == TRI_OK) {
    const tri_run run = tri_executor_run(executor, 0, 0);
    status = tri_queue_download_now(executor->device->queue, losses, run.slots[last->outputs[0]],
                                    (size_t)tokens * tri_dtype_bytes(wide));
  }
  for (int64_t i = 0; i < tokens && status == TRI_OK; i++) out[i] = -tri_wide_get(wide, losses, i);
  tri_free(losses);
  return status;
}

tri_status tri_score_batch_read(const tri_score_batch *batch) {
  int64_t sequence = batch->sequence;
  for (int64_t row = 0; row < batch->batch; row++) {
    const tri_sample to = tri_sample_from(&batch->into, row * sequence);
    if (batch->first + row < batch->samples) {
      TRI_TRY(tri_feed_read(batch->feed, batch->first + row, &to));
    } else {
      tri_sample_fill_padding(sequence, &to);
    }
  }
  return TRI_OK;
}

/* The results of a batch: a tri_evaluation, or the scores of the labels [batch * sequence]. */
typedef struct batch_results {
  size_t bytes; /* bytes of the results of one batch */
  void *own;    /* results of this rank's batch */
  char *all;    /* results of the batches of all ranks [size * bytes] */
} batch_results;

static tri_status run_batch(const tri_feed_scoring *s, const tri_score_batch *batch, void *out) {
  tri_evaluation *sums = out;
  TRI_TRY(tri_score_batch_read(batch));
  if (s->total == NULL) return tri_evaluate_labels(s->executor, out);
  *sums = (tri_evaluation){0};
  return tri_evaluate_batch(s->executor, sums);
}

/* Adds the results of a batch of any rank, whose rows are in the executor's arrays. */
static tri_status add_batch_results(const tri_feed_scoring *s, const tri_score_batch *batch, const void *results) {
  const tri_evaluation *sums = results;
  const int64_t left = batch->samples - batch->first;
  if (s->total != NULL) {
    s->total->loss_sum += sums->loss_sum;
    s->total->counted += sums->counted;
  }
  const tri_scored_batch scored = {.first = batch->first,
                                   .count = left < batch->batch ? left : batch->batch,
                                   .rows = batch->into,
                                   .scores = s->total == NULL ? results : NULL};
  return s->done(s->context, &scored);
}

/* Scores all batches in rounds. Each round runs one batch on every rank. */
static tri_status score_batches(const tri_feed_scoring *s, const tri_group *group, const batch_results *results) {
  const tri_op_list *list = s->executor->chunks[0].list;
  tri_sample rows = tri_executor_sequence(s->executor, 0);
  rows.weights = NULL; /* the feed's weights are not read: each label counts once */
  tri_score_batch batch = {
      .feed = s->feed, .samples = s->samples, .batch = list->batch, .sequence = list->sequence, .into = rows};
  for (int64_t round = 0; round < s->samples; round += group->size * list->batch) {
    batch.first = round + group->rank * list->batch;
    if (batch.first < s->samples) TRI_TRY(run_batch(s, &batch, results->own));
    TRI_TRY(tri_gather_bytes(group, results->bytes, results->own, results->all));
    for (int r = 0; r < group->size; r++) {
      batch.first = round + r * list->batch;
      if (batch.first >= s->samples) break;
      if (group->size > 1) TRI_TRY(tri_score_batch_read(&batch));
      TRI_TRY(add_batch_results(s, &batch, results->all + (size_t)r * results->bytes));
    }
  }
  return TRI_OK;
}

tri_status tri_feed_score(const tri_feed_scoring *scoring) {
  const tri_op_list *list = scoring->executor->chunks[0].list;
  const tri_group group = scoring->group == NULL ? tri_group_alone("evaluation") : *scoring->group;
  const size_t labels = (size_t)(list->batch * list->sequence);
  batch_results results = {.bytes = scoring->total == NULL ? labels * sizeof(double) : sizeof(tri_evaluation)};
  tri_status status = tri_alloc("results of a batch", 1, results.bytes, &results.own);
  if (status == TRI_OK) status = tri_alloc("results of batches", (size_t)group.size, results.bytes, &results.all);
  if (status == TRI_OK) status = score_batches(scoring, &group, &results);
  tri_free(results.own);
  tri_free(results.all);
  return status;
}

bool tri_evaluation_counts(const tri_mesh *mesh) {
  for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) {
    bool differs =
        tri_domain_has(TRI_DOMAIN_LOSS, (tri_axis)axis) || tri_domain_has(TRI_DOMAIN_PIPELINE, (tri_axis)axis);
    if (!differs && mesh->place.at[axis] > 0) return false;
  }
  return true;
}

tri_status tri_evaluation_join(const tri_mesh *mesh, const tri_exact_sum *loss, const tri_exact_sum *counted,
                               tri_evaluation *out) {
  tri_exact_sum sum = *loss, weights = *counted;
  if (!tri_evaluation_counts(mesh)) sum = (tri_exact_sum){0};
  tri_exact_sum_normalise(&sum);
  tri_exact_sum_normalise(&weights);
  const int64_t words = (int64_t)(sizeof sum / sizeof(int64_t));
  TRI_TRY(tri_all_sum_int64(&mesh->world, words, (int64_t *)(void *)&sum));
  TRI_TRY(tri_all_sum_int64(tri_mesh_group(mesh, TRI_DOMAIN_LOSS), words, (int64_t *)(void *)&weights));
  *out = (tri_evaluation){tri_exact_sum_value(&sum), tri_exact_sum_value(&weights)};
  return TRI_OK;
}
