#include "checkpoint/base_matrix.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "checkpoint/four_bits.h"
#include "device/kernels.h"
#include "device/nf4.h"
#include "device/queue.h"

#include <math.h>

tri_status tri_base_matrix_quantiser(tri_quantise quantise, tri_device **out) {
  switch (quantise) {
    case TRI_QUANTISE_NONE: return TRI_OK;
    case TRI_QUANTISE_NF4: break;
  }
  return tri_device_create("cpu", 0, out);
}

/* Quantises values to 4 bits and back; `kept` is scratch for the codes. */
static tri_status round_to_nf4(tri_device *device, int64_t count, float *values, void *kept) {
  TRI_KERNEL_CALL(device->queue, quantise_nf4, TRI_FP32, count, values, kept);
  const tri_nf4_cut whole = tri_nf4_whole(count);
  TRI_KERNEL_CALL(device->queue, dequantise_nf4, TRI_FP32, &whole, 0, count, kept, values);
  return tri_queue_finish(device->queue);
}

static tri_status read_quantised(const tri_checkpoint *base, const tri_parameter *tensor, tri_device *quantiser,
                                 int64_t count, double *out) {
  const tri_four_bits *already = tri_checkpoint_four_bits(base, tensor->name);
  float *values = NULL;
  void *kept = NULL;
  tri_status status = tri_alloc("a matrix", (size_t)count, sizeof *values, &values);
  if (status == TRI_OK) {
    status = tri_checkpoint_read(base, tensor->name, TRI_FP32, tensor->num_dims, tensor->shape, NULL, values);
  }
  if (status == TRI_OK && already != NULL) status = tri_four_bits_check_kind(already);
  if (status == TRI_OK && already == NULL) {
    status = tri_alloc("a matrix in 4 bits", tri_nf4_bytes(count), 1, &kept);
    if (status == TRI_OK) status = round_to_nf4(quantiser, count, values, kept);
  }
  for (int64_t i = 0; i < count && status == TRI_OK; i++) out[i] = (double)values[i];
  tri_free(kept);
  tri_free(values);
  return status;
}

tri_status tri_base_matrix_read(const tri_checkpoint *base, const tri_parameter *tensor, tri_device *quantiser,
                                double **out) {
  const int64_t count = tri_parameter_global_count(tensor);
  double *values = NULL;
  TRI_TRY(tri_alloc("a matrix", (size_t)count, sizeof *values, &values));
  tri_status status =
      quantiser != NULL && tri_trainable_can_quantise(tensor)
          ? read_quantised(base, tensor, quantiser, count, values)
          : tri_checkpoint_read(base, tensor->name, TRI_FP64, tensor->num_dims, tensor->shape, NULL, values);
  if (status == TRI_OK) *out = values;
  if (status != TRI_OK) tri_free(values);
  return status;
}

static void norms_of_rows(int64_t rows, int64_t columns, const double *matrix, double *norms) {
#pragma omp parallel for num_threads(tri_loop_threads())
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += matrix[i * columns + j] * matrix[i * columns + j];
    norms[i] = sqrt(sum);
  }
}

void tri_base_matrix_norms(const tri_parameter *tensor, const double *matrix, double *norms) {
  const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
  if (!tensor->in_out) {
    norms_of_rows(rows, columns, matrix, norms);
    return;
  }
  for (int64_t j = 0; j < columns; j++) norms[j] = 0;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) norms[j] += matrix[i * columns + j] * matrix[i * columns + j];
  }
  for (int64_t j = 0; j < columns; j++) norms[j] = sqrt(norms[j]);
}
