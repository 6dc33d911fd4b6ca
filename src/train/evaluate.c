#include "train/evaluate.h"

tri_status tri_evaluate_batch(tri_executor *executor, const int32_t *ids, const int32_t *labels,
                              tri_evaluation *total) {
  tri_run run = tri_executor_run(executor, 0);
  run.batch = executor->list->batch;
  run.sequence = executor->list->sequence;
  run.ids = ids;
  run.labels = labels;
  TRI_TRY(tri_executor_forward(executor, &run));
  total->loss_sum += run.loss_sum;
  for (int64_t i = 0; i < run.batch * run.sequence; i++) total->counted += labels[i] >= 0;
  return TRI_OK;
}

tri_status tri_evaluate_windows(tri_executor *executor, const tri_sampler *sampler, int64_t windows,
                                int32_t ignore_token, int32_t *scratch, tri_evaluation *out) {
  int64_t sequence = sampler->sequence;
  int64_t batch = executor->list->batch;
  int64_t count = windows < sampler->per_epoch ? windows : sampler->per_epoch;
  int32_t *ids = scratch;
  int32_t *labels = scratch + batch * sequence;
  tri_evaluation total = {0};
  for (int64_t first = 0; first < count; first += batch) {
    for (int64_t row = 0; row < batch; row++) {
      bool filler = first + row >= count;
      int64_t window = filler ? 0 : (first + row) * sampler->per_epoch / count;
      TRI_TRY(tri_sampler_read_in_order(sampler, window, ids + row * sequence, labels + row * sequence));
      for (int64_t i = row * sequence; i < (row + 1) * sequence; i++) {
        if (filler || labels[i] == ignore_token) labels[i] = -1;
      }
    }
    TRI_TRY(tri_evaluate_batch(executor, ids, labels, &total));
  }
  *out = total;
  return TRI_OK;
}
