/* Chooses the layout of a run: the given one, or the nearest one for the available ranks. */
#include "train/train_internal.h"

#include "base/count.h"
#include "base/log.h"
#include "comm/comm.h"
#include "run/rollout_keys.h"

static void log_nearest(const tri_layout *wanted, const tri_layout *found, int64_t ranks, int64_t batch) {
  const bool other = found->context > 1 && found->context_exchange != wanted->context_exchange;
  const bool folded = wanted->expert * wanted->expert_tensor > 1;
  char experts[80] = "";
  if (folded) {
    snprintf(experts, sizeof experts, ", experts over expert_tensor %ld x expert %ld", (long)found->expert_tensor,
             (long)found->expert);
  }
  tri_log(
      "elastic: tensor %ld x pipeline %ld x context %ld x data %s does not fit %ld ranks; the nearest that does is "
      "tensor %ld x pipeline %ld x context %ld x data %ld with micro-batches of %ld%s%s (nearest tensor first, then "
      "pipeline, context,%s schedule and micro-batch; the global batch stays %ld)",
      (long)wanted->tensor, (long)wanted->pipeline, (long)wanted->context, wanted->data == 0 ? "auto" : "as given",
      (long)ranks, (long)found->tensor, (long)found->pipeline, (long)found->context, (long)found->data,
      (long)found->micro_batch, experts, other ? ", which gathers keys instead of exchanging heads" : "",
      folded ? " expert, expert_tensor," : "", (long)batch);
}

tri_status tri_training_choose_layout(tri_run_config *config, int64_t ranks) {
  tri_layout *layout = &config->layout, found;
  const int64_t others = layout->tensor * layout->pipeline * layout->context;
  tri_rollout_keys_set_batch(config, layout->data > 0 ? layout->data : tri_larger(1, ranks / others));
  int64_t batch = config->optimizer.global_batch;
  tri_layout wanted = *layout;
  tri_status status = tri_layout_resolve(layout, &config->model, config->data.sequence, batch, ranks);
  if (status != TRI_BAD_LAYOUT || !config->elastic) return status;
  TRI_TRY(tri_layout_nearest(&wanted, &config->model, config->data.sequence, batch, ranks, &found));
  if (tri_comm_rank() == 0) log_nearest(&wanted, &found, ranks, batch);
  *layout = found;
  return TRI_OK;
}
