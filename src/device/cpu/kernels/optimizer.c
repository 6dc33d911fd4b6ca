/* AdamW and the sums for clipping and the loss: bound by memory bandwidth. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "device/exact_sum.h"

#include <math.h>

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

typedef struct adamw_factors {
  float gradient, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step, root, eps;
} adamw_factors;

enum { PIECE = 8192 };

INLINE void adamw_piece(const adamw_factors *f, int64_t first, int64_t end, float *parameter, const float *gradient,
                        float *moment1, float *moment2) {
  FOR_VECTORS(i, count, first, end, {
    vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient;
    vf m = vf_get(TRI_FP32, moment1, i, count) * f->beta1 + g * f->one_minus_beta1;
    vf v = vf_get(TRI_FP32, moment2, i, count) * f->beta2 + g * g * f->one_minus_beta2;
    vf p = vf_get(TRI_FP32, parameter, i, count) * f->decay;
    p -= f->step * m / (vf_root(v) * f->root + f->eps);
    vf_put(TRI_FP32, moment1, i, count, m);
    vf_put(TRI_FP32, moment2, i, count, v);
    vf_put(TRI_FP32, parameter, i, count, p);
  });
}

/* Writes the bf16 copy of a piece that has just been updated and is still in a cache. This is a loop of its own,
 * because within the loop of the update the compiler might contract multiplications and additions differently. */
INLINE void narrow_piece(int64_t first, int64_t end, const float *parameter, uint16_t *narrow) {
  FOR_VECTORS(i, count, first, end, { vf_put(TRI_BF16, narrow, i, count, vf_get(TRI_FP32, parameter, i, count)); });
}

static tri_status adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                        const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                        void *moment2, void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  double lr = values->lr * options->lr_scale;
  double correction1 = 1.0 - pow(options->beta1, (double)values->update);
  double correction2 = 1.0 - pow(options->beta2, (double)values->update);
  const adamw_factors f = {
      .gradient = (float)values->gradient_scale,
      .decay = (float)(1.0 - lr * options->weight_decay),
      .beta1 = (float)options->beta1,
      .one_minus_beta1 = (float)(1.0 - options->beta1),
      .beta2 = (float)options->beta2,
      .one_minus_beta2 = (float)(1.0 - options->beta2),
      .step = (float)(lr / correction1),
      .root = (float)(1.0 / sqrt(correction2)),
      .eps = (float)options->eps,
  };
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    const int64_t end = first + PIECE < count ? first + PIECE : count;
    adamw_piece(&f, first, end, parameter, gradient, moment1, moment2);
    if (narrows) narrow_piece(first, end, parameter, narrow);
  }
  return TRI_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The division of an array into PARTS depends only on its length; each part is summed on its own, in double (a square
 * of an fp32 number may be beyond fp32), and the parts are added in order. So the result does not depend on which
 * thread sums which part. */
enum { PARTS = 256, AT_ONCE = 8192, CHAINS = 4, DOUBLES = TRI_VECTOR_BYTES / 8 };

typedef double vd __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef float half_memory __attribute__((vector_size(TRI_VECTOR_BYTES / 2), aligned(4), may_alias));

INLINE double part_sum(const float *in, int64_t first, int64_t end, bool squares) {
  vd sums[CHAINS] = {{0}};
  int64_t i = first;
  for (; i + CHAINS * DOUBLES <= end; i += CHAINS * DOUBLES) {
    for (int chain = 0; chain < CHAINS; chain++) {
      vd x = __builtin_convertvector(*(const half_memory *)(in + i + chain * DOUBLES), vd);
      sums[chain] += squares ? x * x : x;
    }
  }
  double total = 0;
  for (; i < end; i++) total += squares ? (double)in[i] * (double)in[i] : (double)in[i];
  vd sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (int l = 0; l < DOUBLES; l++) total += sum[l];
  return total;
}

static double array_sum(const tri_queue *queue, int64_t count, const float *in) {
  double parts[PARTS];
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t p = 0; p < PARTS; p++) parts[p] = part_sum(in, count * p / PARTS, count * (p + 1) / PARTS, false);
  double total = 0;
  for (int p = 0; p < PARTS; p++) total += parts[p];
  return total;
}

static tri_status block_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                                tri_exact_sum *sum) {
  double squares[AT_ONCE];
  (void)type;
  int64_t blocks = (count + block - 1) / block;
  for (int64_t begin = 0; begin < blocks; begin += AT_ONCE) {
    int64_t some = blocks - begin < AT_ONCE ? blocks - begin : AT_ONCE;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (some * block > TRI_ALONE)
    for (int64_t i = 0; i < some; i++) {
      int64_t first = (begin + i) * block;
      squares[i] = part_sum(in, first, first + block < count ? first + block : count, true);
    }
    for (int64_t i = 0; i < some; i++) tri_exact_sum_add(sum, squares[i]);
  }
  return TRI_OK;
}

static tri_status sum(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out, bool accumulate) {
  (void)type;
  double all = array_sum(queue, count, in);
  *out = accumulate ? *out + all : all;
  return TRI_OK;
}

static tri_status exact_add(tri_queue *queue, const double *value, tri_exact_sum *sum) {
  (void)queue;
  tri_exact_sum_add(sum, *value);
  return TRI_OK;
}

void TRI_KERNEL(table_optimizer)(tri_device_kernels *table) {
  table->adamw = adamw;
  table->block_squares = block_squares;
  table->sum = sum;
  table->exact_add = exact_add;
}
