/* The choice of the elements that a dropout keeps: the same on every device. For the host and for kernels of GPUs. */
#ifndef TRI_DEVICE_DROPOUT_H
#define TRI_DEVICE_DROPOUT_H

#include "base/philox.h"
#include "device/step_values.h"

/* Element i of the call has the index first_sample * sample_elements + first + i among the elements that `site` drops
 * in the step. If the call has row numbers, or only some columns of rows, element c of its row r has the index
 * first_sample * sample_elements + first + rows[r] * row_elements + c. So a rank that has some rows or columns of a
 * sequence drops the same elements as a rank that has all. */
typedef struct tri_dropout {
  double probability;
  int64_t site;            /* number of the dropout in the model, below 2^16 */
  int64_t sample_elements; /* elements of one sequence */
  int64_t first;           /* index of the call's first element in the first sequence */
  int64_t width;           /* elements of a row of the call; only used with row numbers or row_elements */
  int64_t row_elements;    /* elements of the whole row; 0: the same as width */
} tri_dropout;

/* Return, for kernels, the distance between the indices of two adjacent rows; and whether the elements of a call
 * have consecutive indices. */
TRI_HOST_AND_GPU int64_t tri_dropout_row(const tri_dropout *options) {
  return options->row_elements == 0 ? options->width : options->row_elements;
}
TRI_HOST_AND_GPU int tri_dropout_is_flat(const tri_dropout *options, const int32_t *rows) {
  return rows == 0 && (options->row_elements == 0 || options->row_elements == options->width);
}

/* Returns, for kernels, the random stream of a dropout, and sets *first to the index in it of the call's first
 * element. */
TRI_HOST_AND_GPU tri_random_key tri_dropout_stream(const tri_dropout *options, const tri_step_values *values,
                                                   uint64_t *first) {
  *first = (uint64_t)values->first_sample * (uint64_t)options->sample_elements + (uint64_t)options->first;
  /* 2^16 sites in a model, 2^40 steps. */
  return tri_philox_key(values->seed, TRI_RANDOM_DROPOUT, (uint64_t)values->step << 16 | (uint64_t)options->site);
}

#endif
