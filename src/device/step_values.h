/* Values that a step passes to its kernels, and results that they compute, in device memory. */
#ifndef TRI_DEVICE_STEP_VALUES_H
#define TRI_DEVICE_STEP_VALUES_H

#include "device/exact_sum.h"

#include <stdint.h>

/* Values that change from step to step. Kernels read them from device memory when they run, so that recorded work can
 * be launched again in another step. */
typedef struct tri_step_values {
  double lr;             /* learning rate */
  double gradient_scale; /* factor of gradients before they are used: clipping */
  double loss_scale;     /* multiplies the gradient of the loss: 1 / sum of the weights of all labels */
  double segment_scale;  /* multiplies the losses of completions: 1 / pairs, or completions, of the global batch */
  double kl;             /* for losses of completions: KL divergence from the reference on the global batch */
  double token_scale;    /* for losses of routers: 1 / tokens of the global batch without padding */
  double sequence_scale; /* for losses of routers: 1 / sequences of the global batch */
  double average;        /* schedule-free optimizers: weight of the newest point in the average */
  int64_t update;        /* number of the update from 1; bias corrections are 1 - beta^update */
  int64_t step;          /* number of the step in the run, for random numbers */
  int64_t first_sample;  /* number of the step's first sequence over all ranks, for random numbers */
  uint64_t seed;
} tri_step_values;

/* Results of a step, which the host reads once at its end. */
typedef struct tri_step_results {
  double loss;                 /* loss of the current micro-batch, before it is added to `losses` */
  double routers;              /* loss of the current micro-batch's routers, before it is added to `router_losses` */
  tri_exact_sum losses;        /* sum of the losses of this rank's labels, times their weights */
  tri_exact_sum router_losses; /* sum of the routers' losses */
  tri_exact_sum squares;       /* sum of squares of this rank's gradients */
} tri_step_results;

#endif
