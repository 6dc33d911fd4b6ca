/* Context in which updates run. Included only by code that runs them. */
#ifndef TRI_OPTIMIZERS_RUN_H
#define TRI_OPTIMIZERS_RUN_H

#include "device/kernels.h"
#include "ops/run.h"
#include "optimizers/optimizer.h"

/* Computes the first `count` singular vectors of matrix[side, length] along its shorter side, vectors[count, side], in
 * host memory (checkpoint/singular_vectors.h). It is a function pointer, so that plans need no LAPACK. */
typedef tri_status tri_singular_finder(int64_t side, int64_t length, const double *matrix, int64_t count,
                                       double *vectors);

/* Filled in by the engine for each call. The pointers up to `workspace` are device memory. */
struct tri_update_run {
  tri_queue *queue;
  const tri_step_values *values;
  void *value, *gradient; /* address of the call's first element, wide; the update may overwrite the gradient */
  void *states[TRI_OPTIMIZER_STATES]; /* address of each state, wide */
  void *narrow;                       /* copy of the values in the activations' type, or NULL */
  void *workspace;
  int64_t update; /* number of the update, 1 for the first, the same as in `values` */
  tri_singular_finder *singular_vectors;
  const tri_collectives *collectives;
  const tri_ranks *ranks;
};

/* Returns the options of the kernels of AdamW and related optimizers. */
static inline tri_adamw tri_update_adamw(const tri_update_call *call) {
  const tri_optimizer_settings *settings = call->settings;
  return (tri_adamw){.beta1 = settings->betas[0],
                     .beta2 = settings->betas[1],
                     .eps = settings->eps,
                     .weight_decay = call->weight_decay,
                     .lr_scale = call->lr_scale};
}

/* Runs a call whose states are at `states`, as they are stored. States that are not wide are converted in the
 * workspace, piece by piece, and converted back. */
tri_status tri_update_run_call(const tri_update_run *run, const tri_update_call *call);

/* Queues a copy of a call's stored state, which has one number per element, to wide[count]. */
tri_status tri_update_widen(tri_queue *queue, const tri_update_call *call, int64_t state, void *kept, void *wide);
/* Queues a copy of wide[count] to a call's stored state `kept`, which has one number per element. For an int8 state
 * with signs the function waits for the queue, and restores the stored bits of blocks whose values had been dequantised
 * from such a state. */
tri_status tri_update_narrow(tri_queue *queue, const tri_update_call *call, int64_t state, const void *wide,
                             void *kept);

#endif
