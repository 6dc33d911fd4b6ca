#include "engine/peak.h"

#include "base/clock.h"
#include "base/memory.h"
#include "device/kernels.h"

#include <math.h>
#include <string.h>

/* WORK_SHARE: largest share of the time of the work that measuring the peak may take, for runs of a few small steps.
 * LEAST_S: least seconds of a measurement. */
static const double WORK_SHARE = 0.1, LEAST_S = 0.004;

/* Fills a matrix with small values of both signs. */
static tri_status fill_matrix(tri_device *device, tri_dtype type, int64_t side, void *matrix) {
  const tri_device_kernels *k = device->kernels;
  tri_dtype wide = tri_dtype_wide(type);
  tri_status status = TRI_OK;
  void *host = NULL, *staged = NULL;
  size_t count = (size_t)(side * side), bytes = count * tri_dtype_bytes(wide);
  TRI_TRY(tri_alloc("a test matrix", count, tri_dtype_bytes(wide), &host));
  for (size_t i = 0; i < count; i++) {
    double value = (double)((i * 2654435761u >> 7) % 255) / 128 - 1;
    tri_wide_set(wide, host, (int64_t)i, value);
  }
  if (type == wide) {
    TRI_TRY_GOTO(tri_queue_upload_now(device->queue, matrix, host, bytes), free_host);
  } else {
    TRI_TRY_GOTO(tri_device_memory_create(device, bytes, &staged), free_host);
    TRI_TRY_GOTO(tri_queue_upload_now(device->queue, staged, host, bytes), destroy_staged);
    TRI_TRY_GOTO(k->convert(device->queue, (int64_t)count, wide, staged, type, matrix), destroy_staged);
    TRI_TRY_GOTO(tri_queue_finish(device->queue), destroy_staged);
  }
destroy_staged:
  tri_device_memory_destroy(device, staged, bytes);
free_host:
  tri_free(host);
  return status;
}

typedef struct bench {
  tri_device *device;
  tri_matmul product;
  void *a, *b, *c, *workspace;
  size_t in_bytes, out_bytes, workspace_bytes;
} bench;

static void bench_destroy(bench *t) {
  tri_queue_drain(t->device->queue);
  tri_device_memory_destroy(t->device, t->workspace, t->workspace_bytes);
  tri_device_memory_destroy(t->device, t->c, t->out_bytes);
  tri_device_memory_destroy(t->device, t->b, t->in_bytes);
  tri_device_memory_destroy(t->device, t->a, t->in_bytes);
}

static tri_status bench_create(bench *t, tri_device *device, tri_dtype type, int64_t side) {
  tri_status status = TRI_OK;
  *t = (bench){.device = device,
               .product = {.m = side,
                           .n = side,
                           .k = side,
                           .lda = side,
                           .ldb = side,
                           .ldc = side,
                           .a_type = type,
                           .b_type = type,
                           .c_type = tri_dtype_wide(type)},
               .in_bytes = (size_t)(side * side) * tri_dtype_bytes(type),
               .out_bytes = (size_t)(side * side) * tri_dtype_bytes(tri_dtype_wide(type))};
  TRI_TRY_GOTO(tri_device_memory_create(device, t->in_bytes, &t->a), destroy);
  TRI_TRY_GOTO(tri_device_memory_create(device, t->in_bytes, &t->b), destroy);
  TRI_TRY_GOTO(tri_device_memory_create(device, t->out_bytes, &t->c), destroy);
  TRI_TRY_GOTO(device->description.matmul_workspace(&device->description, &t->product, &t->workspace_bytes), destroy);
  if (t->workspace_bytes > 0)
    TRI_TRY_GOTO(tri_device_memory_create(device, t->workspace_bytes, &t->workspace), destroy);
  TRI_TRY_GOTO(fill_matrix(device, type, side, t->a), destroy);
  TRI_TRY_GOTO(fill_matrix(device, type, side, t->b), destroy);
  return TRI_OK;
destroy:
  bench_destroy(t);
  return status;
}

/* Repeats the GEMM until `seconds` have passed, at least `least` times. The first run, which may compile code or touch
 * memory for the first time, does not count. *best_s: seconds of the fastest GEMM. */
static tri_status bench_run(bench *t, int64_t least, double seconds, double *best_s) {
  const tri_device_kernels *k = t->device->kernels;
  double best = 0, begin_s = tri_clock_s();
  for (int64_t i = 0; i <= least || tri_clock_s() - begin_s < seconds; i++) {
    double start_s = tri_clock_s();
    if (i == 1) begin_s = start_s;
    TRI_TRY(k->matmul(t->device->queue, &t->product, t->a, t->b, NULL, t->c, t->workspace));
    TRI_TRY(tri_queue_finish(t->device->queue));
    double took_s = tri_clock_s() - start_s;
    if (i > 0 && (best == 0 || took_s < best)) best = took_s;
  }
  *best_s = best;
  return TRI_OK;
}

static double flops_of(int64_t side) { return 2 * (double)side * (double)side * (double)side; }

/* Measures a square GEMM for `seconds`. Restores the device's memory peak, which a run reports as its own, after the
 * matrices are freed. */
static tri_status best_product(tri_device *device, tri_dtype type, int64_t side, double seconds, double *best_s) {
  bench t;
  size_t peak_bytes = device->memory_peak_bytes;
  tri_status status = bench_create(&t, device, type, side);
  if (status == TRI_OK) {
    status = bench_run(&t, 1, seconds, best_s);
    bench_destroy(&t);
  }
  device->memory_peak_bytes = peak_bytes;
  return status;
}

/* Returns whether the device has room for the matrices; scratch memory is small in comparison. */
static bool has_room(const tri_device *device, int64_t side) {
  size_t matrices = 4 * (size_t)(side * side) * sizeof(double), limit = device->info.memory_bytes;
  return limit == 0 || (device->memory_bytes < limit && matrices <= limit - device->memory_bytes);
}

/* Measures the rate of a GEMM within `seconds`. A small GEMM is measured first. Its time determines how large the
 * measured GEMM can be (the reference device does 1 GFLOP/s, a fast device 1000 times as much), and how long the work
 * of work_flops takes. The measurement takes at most about WORK_SHARE of this time, but not less than LEAST_S. */
static tri_status best_rate(tri_device *device, tri_dtype type, double work_flops, double seconds, double *out) {
  int64_t side = 128;
  double took_s = 0;
  TRI_TRY(tri_device_supports(device, type));
  *out = 0;
  if (!has_room(device, side)) return TRI_OK;
  /* The best of several runs, since other processes may disturb one. */
  TRI_TRY(best_product(device, type, side, LEAST_S, &took_s));
  double worth_s = WORK_SHARE * work_flops * took_s / flops_of(side);
  if (worth_s < seconds) seconds = worth_s > LEAST_S ? worth_s : LEAST_S;
  while (side < 1024 && 3 * took_s * 8 < seconds && has_room(device, 2 * side)) {
    side *= 2;
    took_s *= 8;
  }
  TRI_TRY(best_product(device, type, side, seconds, &took_s));
  *out = flops_of(side) / (took_s + 1e-12);
  return TRI_OK;
}

tri_status tri_matmul_flops(tri_device *device, tri_dtype type, double seconds, double *out) {
  return best_rate(device, type, INFINITY, seconds, out);
}

tri_status tri_peak_flops(tri_device *device, tri_dtype type, double work_flops, double *out) {
  return best_rate(device, type, work_flops, 0.3, out);
}
