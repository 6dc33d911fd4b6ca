/* How near products of rows in groups come to one dense product of the same work, in the same minute:
 *
 *   bench_grouped [DEVICE [THREADS]]        for example: bench_grouped cpu 2
 *
 * Of some numbers of experts and of rows for each, 384 -> 2 x 1024 and 1024 -> 384 as a layer of experts has them: the
 * forward, the gradient of the inputs and that of the matrices, in fp32 and bf16. Prints GFLOP/s, what one product of
 * all rows with one matrix reaches, and the ratio. Weights are packed where the device packs. Machines are noisy: read
 * the ratio. */
#include "base/clock.h"
#include "base/random.h"
#include "base/spin.h"
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 3, REPEATS = 3 };
static const double least_s = 0.1;

typedef enum direction { FORWARD, INPUTS, MATRICES } direction;
static const char *const directions[] = {"forward", "inputs", "matrices"};

typedef struct layer {
  int64_t groups, rows, in, out; /* rows of each group */
} layer;

typedef struct bench {
  tri_device *device;
  tri_grouped_matmul grouped;
  tri_matmul dense;
  int32_t *begins;
  void *a, *b, *c, *packed, *dense_b, *workspace, *dense_workspace;
} bench;

static tri_status run_grouped(bench *x) {
  TRI_KERNEL_CALL(x->device->queue, grouped_matmul, &x->grouped, x->begins, x->a, x->packed == NULL ? x->b : x->packed,
                  x->c, x->workspace);
  return TRI_OK;
}

static tri_status run_dense(bench *x) {
  TRI_KERNEL_CALL(x->device->queue, matmul, &x->dense, x->a, x->dense_b == NULL ? x->b : x->dense_b, NULL, x->c,
                  x->dense_workspace);
  return TRI_OK;
}

static double now_s(const bench *x) {
  struct timespec own;
  if (x->device->description.threads > 1) return tri_clock_s();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  return (double)own.tv_sec + 1e-9 * (double)own.tv_nsec;
}

/* Lowers *best_s to the fastest of a few runs. */
static tri_status time_of(bench *x, tri_status (*call)(bench *), double *best_s) {
  const double start = now_s(x);
  for (int i = 0; i < REPEATS || now_s(x) - start < least_s; i++) {
    const double begin = now_s(x);
    TRI_TRY(call(x));
    const double s = now_s(x) - begin;
    if (s < *best_s) *best_s = s;
  }
  return TRI_OK;
}

static tri_matmul product_of(const layer *l, direction d, tri_dtype type) {
  const int64_t rows = l->groups * l->rows;
  tri_matmul p = {.a_type = type, .b_type = type, .c_type = type};
  switch (d) {
    case FORWARD: p.m = rows, p.n = l->out, p.k = l->in, p.b_transposed = true; break;
    case INPUTS: p.m = rows, p.n = l->in, p.k = l->out; break;
    case MATRICES:
      p.m = l->out, p.n = l->in, p.k = rows, p.a_transposed = p.accumulate = true, p.c_type = tri_dtype_wide(type);
      break;
  }
  p.lda = p.a_transposed ? p.m : p.k;
  p.ldb = p.b_transposed ? p.k : p.n;
  p.ldc = p.n;
  return p;
}

static void *values(tri_dtype type, int64_t count) {
  const tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 3);
  uint16_t *halves = malloc((size_t)count * tri_dtype_bytes(type));
  if (halves == NULL) abort();
  for (int64_t i = 0; i < count * (int64_t)tri_dtype_bytes(type) / 2; i++) {
    const uint32_t word = tri_random_u32(key, (uint64_t)(i % 100003));
    halves[i] = (uint16_t)(((word & 1) != 0 ? 0xbf00u : 0x3f00u) + (word >> 25));
  }
  return halves;
}

/* *out is NULL where the device does not pack. */
static tri_status pack(bench *x, tri_matmul *p, int64_t groups, int64_t stride, void **out, size_t *each) {
  const tri_device_description *of = &x->device->description;
  if (!p->a_transposed) TRI_TRY(of->matmul_packed(of, p, each));
  if (*each == 0) return TRI_OK;
  *each = (*each + 63) / 64 * 64;
  char *packed = aligned_alloc(64, *each * (size_t)groups);
  if (packed == NULL) abort();
  for (int64_t g = 0; g < groups; g++) {
    const char *b = (const char *)x->b + g * stride * (int64_t)tri_dtype_bytes(p->b_type);
    TRI_KERNEL_CALL(x->device->queue, matmul_pack, p, p->b_type, b, packed + (size_t)g * *each);
  }
  p->b_packed = true;
  *out = packed;
  return TRI_OK;
}

static tri_status prepare(bench *x, const layer *l, direction d, tri_dtype type) {
  const tri_device_description *of = &x->device->description;
  const int64_t rows = l->groups * l->rows;
  size_t bytes = 0, each = 0;
  x->dense = product_of(l, d, type);
  x->grouped = (tri_grouped_matmul){x->dense, l->groups, l->in * l->out};
  x->begins = calloc((size_t)l->groups + 1, sizeof *x->begins);
  if (x->begins == NULL) abort();
  /* A third more or less than the mean, and the same in all. */
  for (int64_t g = 0; g < l->groups; g++) {
    x->begins[g + 1] = (int32_t)(x->begins[g] + l->rows + (g % 2 == 0 ? 1 : -1) * (l->rows / 3));
  }
  x->begins[l->groups] = (int32_t)rows;
  x->a = values(type, rows * (d == FORWARD ? l->in : l->out));
  x->b = values(type, d == MATRICES ? rows * l->in : l->groups * l->in * l->out);
  x->c = values(x->dense.c_type, d == MATRICES ? l->groups * l->in * l->out : rows * x->dense.n);
  TRI_TRY(pack(x, &x->grouped.product, l->groups, l->in * l->out, &x->packed, &each));
  if (x->packed != NULL) x->grouped.stride = (int64_t)each;
  TRI_TRY(pack(x, &x->dense, 1, 0, &x->dense_b, &each));
  TRI_TRY(of->grouped_workspace(of, &x->grouped, &bytes));
  x->workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
  TRI_TRY(of->matmul_workspace(of, &x->dense, &bytes));
  x->dense_workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
  return TRI_OK;
}

static void release(bench *x) {
  void *all[] = {x->begins, x->a, x->b, x->c, x->packed, x->dense_b, x->workspace, x->dense_workspace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static tri_status measure(tri_device *device, const layer *l, direction d, tri_dtype type) {
  bench x = {.device = device};
  double grouped_s = 1e30, dense_s = 1e30;
  const double flops = 2.0 * (double)(l->groups * l->rows) * (double)l->in * (double)l->out;
  tri_status status = prepare(&x, l, d, type);
  if (status == TRI_OK) status = run_grouped(&x);
  for (int turn = 0; turn < TURNS && status == TRI_OK; turn++) {
    status = time_of(&x, run_dense, &dense_s);
    if (status == TRI_OK) status = time_of(&x, run_grouped, &grouped_s);
  }
  if (status == TRI_OK) {
    printf("%3lld x %4lld rows, %4lld -> %4lld  %-8s %s %8.1f %8.1f %6.2f\n", (long long)l->groups, (long long)l->rows,
           (long long)l->in, (long long)l->out, directions[d], tri_dtype_name(type), flops / grouped_s * 1e-9,
           flops / dense_s * 1e-9, dense_s / grouped_s);
  }
  release(&x);
  return status;
}

static tri_status run(const char *name, int threads) {
  static const layer layers[] = {
      {8, 1024, 384, 2048}, {8, 1024, 1024, 384}, {8, 2000, 384, 2048}, {64, 20, 384, 2048}, {64, 128, 1024, 384}};
  tri_device *device = NULL;
  TRI_TRY(tri_device_create(name, threads, &device));
  printf("%s, %d threads: GFLOP/s of groups, of one dense product, ratio\n", device->info.name,
         device->description.threads);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    for (int t = 0; t < 2; t++) {
      for (int d = FORWARD; d <= MATRICES; d++) {
        TRI_TRY(measure(device, &layers[i], (direction)d, t == 0 ? TRI_FP32 : TRI_BF16));
      }
    }
  }
  tri_device_destroy(device);
  return TRI_OK;
}

int main(int count, char **arguments) {
  tri_spin_limit(arguments);
  const tri_status status = run(count > 1 ? arguments[1] : "cpu", count > 2 ? atoi(arguments[2]) : 0);
  if (status != TRI_OK) fprintf(stderr, "bench_grouped: %s\n", tri_status_message());
  return tri_status_exit(status);
}
