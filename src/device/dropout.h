/* Which elements a dropout keeps: the same on every device, for the host and kernels of GPUs. */
#ifndef TRI_DEVICE_DROPOUT_H
#define TRI_DEVICE_DROPOUT_H

#include "base/philox.h"
#include "device/step_values.h"

/* Element i of the call is element first_sample * sample_elements + first + i of those that `site` drops in the step.
 * Where the call is given numbers of rows, element c of its row r is element first_sample * sample_elements + first +
 * rows[r] * width + c: so a rank that has some rows of a sequence drops what one that has all of them does. */
typedef struct tri_dropout {
  double probability;
  int64_t site;            /* of the model, below 2^16 */
  int64_t sample_elements; /* of one sequence */
  int64_t first;
  int64_t width; /* of a row; means nothing without numbers of rows */
} tri_dropout;

/* For kernels: the stream that a dropout draws from, and the index in it of the call's first element. */
TRI_HOST_AND_GPU tri_random_key tri_dropout_stream(const tri_dropout *options, const tri_step_values *values,
                                                   uint64_t *first) {
  *first = (uint64_t)values->first_sample * (uint64_t)options->sample_elements + (uint64_t)options->first;
  /* 2^16 places in a model, 2^40 steps. */
  return tri_philox_key(values->seed, TRI_RANDOM_DROPOUT, (uint64_t)values->step << 16 | (uint64_t)options->site);
}

#endif
