/* The floor of a training step: the time of its matrix products alone in oneDNN.
 *
 *   floor_tool LAYERS WIDTH FFN VOCAB BATCH SEQUENCE fp32|bf16 SECONDS
 *
 * Each product is timed on dense operands with b plain, with b in the layout that oneDNN prefers (packing not counted)
 * and, in fp32, with dnnl_sgemm. The lowest of the three medians counts: a step is also measured by its median, on the
 * same noisy machine. Transpositions are not counted either. Attention's
 * products, over the causal half, are taken to run at the rate of all others together. Prints one JSON object. */
#include "base/clock.h"
#include "base/memory.h"
#include "device/cpu/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct floor_bench {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  tri_dtype type;
  double seconds; /* for each way of each product */
  float *a, *b, *c, *packed, *scratch;
} floor_bench;

enum { SCRATCH_BYTES = 256 << 20, MOST_REPEATS = 4096 };

/* The times of one way of one product. */
typedef struct times {
  double begin_s, seconds[MOST_REPEATS];
  int count; /* the first is not kept: it meets a cold cache */
} times;

static bool wants_more(const times *t, double least_s) {
  return t->count < 3 || (t->count < MOST_REPEATS && tri_clock_s() - t->begin_s < least_s);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median_s(times *t) {
  qsort(t->seconds, (size_t)t->count, sizeof *t->seconds, by_value);
  return t->seconds[t->count / 2];
}

/* Seconds of one product with b in this layout, or a very long time where oneDNN has no such product. */
static tri_status time_primitive(floor_bench *f, int64_t m, int64_t n, int64_t k, tri_dtype c_type, bool packed,
                                 double *best_s) {
  tri_onednn_layout a = {0}, b = {0}, c = {0}, chosen = {0};
  tri_onednn_primitive primitive = {0};
  TRI_TRY(tri_onednn_layout_strided(f->type, m, k, k, 1, &a));
  TRI_TRY(packed ? tri_onednn_layout_any(f->type, k, n, &b) : tri_onednn_layout_strided(f->type, k, n, n, 1, &b));
  TRI_TRY(tri_onednn_layout_strided(c_type, m, n, n, 1, &c));
  tri_onednn_product product = {.a = &a, .b = &b, .c = &c, .m = m, .n = n, .k = k};
  tri_status status = tri_onednn_product_create(f->engine, &product, &primitive, packed ? &chosen : NULL);
  bool usable =
      status == TRI_OK && strncmp(primitive.implementation, "ref", 3) != 0 && primitive.scratch_bytes <= SCRATCH_BYTES;
  times t = {.begin_s = tri_clock_s(), .count = -1};
  while (usable && wants_more(&t, f->seconds)) {
    double start_s = tri_clock_s();
    TRI_TRY(tri_onednn_product_run(f->stream, &primitive, f->a, f->b, NULL, f->c, f->scratch));
    if (t.count >= 0) t.seconds[t.count] = tri_clock_s() - start_s;
    t.count++;
  }
  if (usable && median_s(&t) < *best_s) *best_s = median_s(&t);
  tri_onednn_primitive_destroy(&primitive);
  tri_onednn_layout_destroy(&chosen);
  tri_onednn_layout_destroy(&c);
  tri_onednn_layout_destroy(&b);
  tri_onednn_layout_destroy(&a);
  return TRI_OK;
}

static tri_status time_product(floor_bench *f, int64_t m, int64_t n, int64_t k, tri_dtype c_type, double *out) {
  double best_s = 1e9;
  TRI_TRY(time_primitive(f, m, n, k, c_type, false, &best_s));
  TRI_TRY(time_primitive(f, m, n, k, c_type, true, &best_s));
  times t = {.begin_s = tri_clock_s(), .count = -1};
  while (f->type == TRI_FP32 && wants_more(&t, f->seconds)) {
    double start_s = tri_clock_s();
    TRI_TRY(tri_onednn_check(dnnl_sgemm('N', 'N', m, n, k, 1.0f, f->a, k, f->b, n, 0.0f, f->c, n), "sgemm"));
    if (t.count >= 0) t.seconds[t.count] = tri_clock_s() - start_s;
    t.count++;
  }
  if (f->type == TRI_FP32 && median_s(&t) < best_s) best_s = median_s(&t);
  *out = best_s;
  return TRI_OK;
}

/* x W, dy W^T and x^T dy of one linear layer. */
static tri_status time_linear(floor_bench *f, int64_t rows, int64_t in, int64_t out, double *seconds) {
  double forward = 0, input = 0, weight = 0;
  TRI_TRY(time_product(f, rows, out, in, f->type, &forward));
  TRI_TRY(time_product(f, rows, in, out, f->type, &input));
  TRI_TRY(time_product(f, in, out, rows, TRI_FP32, &weight));
  *seconds = forward + input + weight;
  return TRI_OK;
}

static tri_status measure(floor_bench *f, const int64_t *shape) {
  int64_t layers = shape[0], width = shape[1], ffn = shape[2], vocab = shape[3], batch = shape[4], sequence = shape[5];
  int64_t rows = batch * sequence;
  int64_t chunk = rows < 512 ? rows : 512; /* rows of the head at a time, since its logits need not exist at once */
  double qkv = 0, projection = 0, up = 0, down = 0, head = 0;
  TRI_TRY(time_linear(f, rows, width, 3 * width, &qkv));
  TRI_TRY(time_linear(f, rows, width, width, &projection));
  TRI_TRY(time_linear(f, rows, width, ffn, &up));
  TRI_TRY(time_linear(f, rows, ffn, width, &down));
  TRI_TRY(time_linear(f, chunk, width, vocab, &head));
  head *= (double)rows / (double)chunk;
  double linear_s = (double)layers * (qkv + projection + up + down) + head;
  double weights = (double)layers * (double)(4 * width * width + 2 * width * ffn) + (double)(width * vocab);
  double flops = 6.0 * (double)rows * weights;
  double pairs = (double)batch * (double)sequence * ((double)sequence + 1) / 2;
  double attention_flops = (double)layers * pairs * (double)width * 2.0 * 7.0; /* 2 products forward, 5 backward */
  double floor_s = linear_s * (1 + attention_flops / flops);
  printf("{\"floor_s\": %.6f, \"linear_s\": %.6f, \"head_s\": %.6f, \"gflops\": %.1f}\n", floor_s, linear_s, head,
         flops / linear_s * 1e-9);
  return TRI_OK;
}

static tri_status run(char **arguments) {
  int64_t shape[6];
  for (int i = 0; i < 6; i++) shape[i] = atoll(arguments[i]);
  floor_bench f = {.type = strcmp(arguments[6], "bf16") == 0 ? TRI_BF16 : TRI_FP32, .seconds = atof(arguments[7])};
  int64_t rows = shape[4] * shape[5], widest = shape[3] > 4 * shape[2] ? shape[3] : 4 * shape[2];
  size_t weight = (size_t)(widest * (shape[2] > shape[1] ? shape[2] : shape[1]));
  size_t activation = (size_t)((rows > 512 ? rows : 512) * 4 * shape[2]) + (size_t)(512 * shape[3]);
  size_t most = (weight > activation ? weight : activation) + 4096;
  TRI_TRY(tri_onednn_check(dnnl_engine_create(&f.engine, dnnl_cpu, 0), "an engine"));
  TRI_TRY(tri_onednn_check(dnnl_stream_create(&f.stream, f.engine, dnnl_stream_default_flags), "a stream"));
  TRI_TRY(tri_alloc("a", most, sizeof *f.a, &f.a));
  TRI_TRY(tri_alloc("b", most, sizeof *f.b, &f.b));
  TRI_TRY(tri_alloc("c", most, sizeof *f.c, &f.c));
  TRI_TRY(tri_alloc("scratch", SCRATCH_BYTES, 1, &f.scratch));
  for (size_t i = 0; i < most; i++) f.a[i] = f.b[i] = 0.001f * (float)(i % 97);
  return measure(&f, shape);
}

int main(int count, char **arguments) {
  if (count != 9) {
    fprintf(stderr, "floor_tool: see the comment in its source\n");
    return 2;
  }
  tri_status status = run(arguments + 1);
  if (status != TRI_OK) fprintf(stderr, "floor_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
