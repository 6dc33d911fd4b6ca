/* What a step and its kernels say to each other, in device memory. */
#ifndef TRI_DEVICE_STEP_VALUES_H
#define TRI_DEVICE_STEP_VALUES_H

#include "base/exact_terms.h"

#include <stdint.h>

/* What changes from step to step, in device memory: kernels read it as they run, so that work that was queued once may
 * be done again in another step. */
typedef struct tri_step_values {
  double lr;
  double gradient_scale; /* multiplies gradients before they are used: clipping                */
  double loss_scale;     /* of the gradient of the loss: 1 / the weights of all labels          */
  double token_scale;    /* 1 / tokens of the global batch, without padding, and               */
  double sequence_scale; /* 1 / its sequences: of losses that routers add                      */
  double average;        /* of schedule-free optimizers: the weight of the newest point        */
  int64_t update;        /* 1 for the first; bias corrections follow from it: 1 - beta^update  */
  int64_t step;          /* of the run, and                                                    */
  int64_t first_sample;  /* the global number of its first sequence: both for randomness       */
  uint64_t seed;
} tri_step_values;

/* What a step leaves behind for its end: read once. */
typedef struct tri_step_results {
  double loss;          /* of the micro-batch at hand, until it is added to */
  double routers;       /* what its routers add to that micro-batch's loss */
  tri_exact_sum losses; /* of all labels of this rank, as they weigh */
  tri_exact_sum router_losses;
  tri_exact_sum squares; /* of this rank's gradients */
} tri_step_results;

#endif
