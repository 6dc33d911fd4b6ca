/* What updates run on. Only what runs includes it. */
#ifndef TRI_OPTIMIZERS_RUN_H
#define TRI_OPTIMIZERS_RUN_H

#include "device/kernels.h"
#include "ops/run.h"
#include "optimizers/optimizer.h"

/* The first `count` singular vectors of matrix[side, length] along its shorter side, in host memory
 * (checkpoint/singular_vectors.h): plans do without LAPACK. */
typedef tri_status tri_singular_finder(int64_t side, int64_t length, const double *matrix, int64_t count,
                                       double *vectors);

/* Filled in by the engine for the call at hand. Pointers up to the workspace are device memory. */
struct tri_update_run {
  tri_queue *queue;
  const tri_step_values *values;
  void *value, *gradient;             /* of the call's first element, wide; the gradient may be written over */
  void *states[TRI_OPTIMIZER_STATES]; /* wide */
  void *narrow;                       /* the copy in the activations' type, or NULL */
  void *workspace;
  int64_t update; /* 1 for the first, as the values' */
  tri_singular_finder *singular_vectors;
  const tri_collectives *collectives;
  const tri_ranks *ranks;
};

/* What AdamW and its kin give their kernels. */
static inline tri_adamw tri_update_adamw(const tri_update_call *call) {
  const tri_optimizer_settings *settings = call->settings;
  return (tri_adamw){.beta1 = settings->betas[0],
                     .beta2 = settings->betas[1],
                     .eps = settings->eps,
                     .weight_decay = call->weight_decay,
                     .lr_scale = call->lr_scale};
}

/* Runs a call whose states lie at `states`, as they are kept: those that are not wide are made so in the workspace, a
 * piece after the other, and put back. */
tri_status tri_update_run_call(const tri_update_run *run, const tri_update_call *call);

/* Queues the making of a state of a call that is not kept wide, wide[count], and its putting back. */
tri_status tri_update_widen(tri_queue *queue, const tri_update_call *call, int64_t state, void *kept, void *wide);
tri_status tri_update_narrow(tri_queue *queue, const tri_update_call *call, int64_t state, const void *wide,
                             void *kept);

#endif
