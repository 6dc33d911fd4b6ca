/* The peak that a run's MFU is a share of: the highest rate of matrix products ever measured on its device. */
#include "engine/peak.h"
#include "base/format.h"
#include "base/log.h"
#include "comm/comm.h"
#include "files/cache_folder.h"
#include "model/family.h"
#include "train/best_peak.h"
#include "train/train_internal.h"

#include <math.h>

double tri_training_work_flops(const tri_training *t) {
  const tri_run_config *c = t->config;
  int64_t steps = c->optimizer.steps - t->progress.step;
  double tokens = (double)steps * (double)c->optimizer.global_batch * (double)c->data.sequence;
  return tokens * tri_model_flops_per_token(&c->model, c->data.sequence, 1) / t->mesh.world.size;
}

/* Keeps the larger of this run's peak and the stored one. One rank of each node writes it. A failed write is ignored:
 * the next run measures the peak again. */
static void keep_best(tri_training *t) {
  char folder[TRI_PATH_BYTES], key[TRI_PEAK_KEY_BYTES];
  if (!tri_cache_folder(folder)) return;
  tri_best_peak_key(t->device, t->config->precision, t->config->allow_tf32, key);
  const double kept = tri_best_peak_read(folder, key);
  if (t->peak_flops > kept) {
    if (tri_comm_local_rank() == 0) (void)tri_best_peak_write(folder, key, t->peak_flops);
  } else {
    t->peak_flops = kept;
  }
}

tri_status tri_training_measure_peak(tri_training *t) {
  TRI_TRY(tri_peak_flops(t->device, t->config->precision, tri_training_work_flops(t), &t->measured_flops));
  t->peak_flops = t->measured_flops;
  keep_best(t);
  return TRI_OK;
}

bool tri_training_has_small_products(const tri_training *t) {
  const tri_layout *layout = &t->config->layout;
  const double least = 1 << 26; /* multiplications of a GEMM of 1024 rows with a matrix [256, 256] */
  const double rows = (double)layout->micro_batch * (double)t->config->data.sequence / (double)layout->context;
  const double width = (double)t->config->model.hidden_size;
  return rows * width * width / (double)layout->tensor < least;
}

tri_status tri_training_doubt_peak(tri_training *t, double mfu) {
  char before[32], now[32];
  double again = 0;
  if (t->peak_doubted || !(mfu > 1)) return TRI_OK;
  t->peak_doubted = true;
  const double old = t->peak_flops;
  tri_status status = tri_peak_flops(t->device, t->config->precision, INFINITY, &again);
  if (status == TRI_OUT_OF_MEMORY) return TRI_OK; /* not enough memory for the measurement during the run */
  TRI_TRY(status);
  if (again > t->peak_flops) t->peak_flops = again;
  keep_best(t);
  tri_log("step %ld reached %.0f %% of the peak of %s; measured again, the peak is %s", (long)t->progress.step,
          100 * mfu, tri_format_flops(old, before, sizeof before), tri_format_flops(t->peak_flops, now, sizeof now));
  return TRI_OK;
}
