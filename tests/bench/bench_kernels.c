/* How near each memory-bound kernel of the CPU device comes to a plain copy of the same machine, in the same minute:
 *
 *   bench_kernels [DEVICE [THREADS]]        for example: bench_kernels cpu:avx2 1
 *
 * Prints GB/s (bytes that must be read and written, counted once each), the ratio to memcpy measured just before and
 * after, and milliseconds (of attention only these say something). Machines are noisy: read the ratio. Shapes are GPT-2
 * 124M's with 8192 tokens, the loss's with 512 rows of its vocabulary. */
#include "base/clock.h"
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8192, WIDTH = 768, COUNT = ROWS * WIDTH, LOSS_ROWS = 512, VOCABULARY = 50257, REPEATS = 7 };
static const double least_s = 0.08; /* so long at least each kernel is repeated */
enum { PARAMETERS = 8 * COUNT, BUFFERS = 4 };

typedef struct bench {
  tri_device *device;
  tri_dtype type;
  char *buffers[BUFFERS]; /* PARAMETERS floats each */
  int32_t *ids, *positions;
  tri_attention_slice slices[8];
  tri_norm norm;
  float *rows[4], *columns[2];
} bench;

typedef struct bench_case {
  const char *name;
  tri_status (*call)(bench *b);
  double narrow, wide; /* elements moved, of the activations' type and of fp32 */
} bench_case;

#define KERNEL(name, ...) b->device->kernels->name(b->device->queue, __VA_ARGS__)
#define X b->buffers[0]
#define Y b->buffers[1]
#define Z b->buffers[2]
#define W b->buffers[3]

static tri_status add(bench *b) { return KERNEL(add, b->type, tri_all_rows(ROWS), WIDTH, X, Y, Z); }
static tri_status to_bf16(bench *b) { return KERNEL(convert, COUNT, TRI_FP32, X, TRI_BF16, Z); }
static tri_status from_bf16(bench *b) { return KERNEL(convert, COUNT, TRI_BF16, X, TRI_FP32, Z); }
static tri_status column_sum(bench *b) {
  return KERNEL(column_sum, b->type, tri_all_rows(ROWS), WIDTH, X, b->columns[0], true);
}
static tri_status embedding(bench *b) {
  return KERNEL(embedding_forward, b->type, tri_all_rows(ROWS), WIDTH, b->ids, 0, COUNT / WIDTH, X, b->positions, Y, Z);
}
static tri_status embedding_backward(bench *b) {
  return KERNEL(embedding_backward, b->type, tri_all_rows(ROWS), WIDTH, b->ids, 0, COUNT / WIDTH, X, Z);
}
static tri_status position_backward(bench *b) {
  return KERNEL(position_backward, b->type, tri_all_rows(ROWS), WIDTH, b->positions, 1024, X, Z, true);
}
static const tri_norm *norm_of(bench *b, double eps) {
  b->norm = tri_norm_of_rows(b->type, tri_all_rows(ROWS), WIDTH, eps);
  return &b->norm;
}
static tri_status layer_norm(bench *b) {
  return KERNEL(layer_norm_forward, norm_of(b, 1e-5), X, NULL, NULL, b->columns[0], b->columns[1], Z, b->rows[0],
                b->rows[1]);
}
static tri_status layer_norm_input(bench *b) {
  return KERNEL(layer_norm_backward_input, norm_of(b, 0), X, Y, b->columns[0], b->rows[0], b->rows[1], Z, true);
}
static tri_status layer_norm_weight(bench *b) {
  return KERNEL(layer_norm_backward_weight, norm_of(b, 0), X, Y, b->rows[0], b->rows[1], b->columns[0], b->columns[1],
                true);
}
static tri_status gelu(bench *b) {
  return KERNEL(gelu_forward, b->type, TRI_GELU_TANH, tri_all_rows(ROWS), WIDTH, X, Z);
}
static tri_status gelu_backward(bench *b) {
  return KERNEL(gelu_backward, b->type, TRI_GELU_TANH, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status gelu_erf(bench *b) {
  return KERNEL(gelu_forward, b->type, TRI_GELU_ERF, tri_all_rows(ROWS), WIDTH, X, Z);
}
static tri_status gelu_erf_backward(bench *b) {
  return KERNEL(gelu_backward, b->type, TRI_GELU_ERF, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status swiglu(bench *b) { return KERNEL(swiglu_forward, b->type, tri_all_rows(ROWS), WIDTH, X, Z); }
static tri_status swiglu_backward(bench *b) {
  return KERNEL(swiglu_backward, b->type, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status dropout(bench *b) {
  return KERNEL(dropout, b->type, COUNT, &(tri_dropout){0.1, 1, 1, 5}, &(tri_step_values){.seed = 1}, X, Z);
}
static tri_status rope(bench *b) {
  return KERNEL(rope, b->type, tri_all_rows(ROWS), WIDTH, WIDTH / 64, 64, 64, b->positions, Y, W, false, Z);
}
/* Attention of 8 sequences, q, k and v side by side; log_sum_exp is behind out, the gradient of out behind that. */
enum { SEQUENCES = 8, LENGTH = ROWS / SEQUENCES, HEADS = WIDTH / 64 };
static tri_attention attention_call(tri_dtype type) {
  return (tri_attention){.type = type,
                         .out_type = type,
                         .gradient_type = type,
                         .heads = HEADS,
                         .kv_heads = HEADS,
                         .head_dim = 64,
                         .scale = 0.125,
                         .query_rows = ROWS,
                         .key_rows = ROWS,
                         .q_row = 3 * WIDTH,
                         .q_head = 64,
                         .k_row = 3 * WIDTH,
                         .k_head = 64,
                         .v_row = 3 * WIDTH,
                         .v_head = 64,
                         .out_row = WIDTH,
                         .out_head = 64,
                         .num_slices = SEQUENCES,
                         .most_queries = LENGTH,
                         .most_keys = LENGTH};
}
static tri_status attention_forward(bench *b) {
  const size_t heads = WIDTH * tri_dtype_bytes(b->type), out = ROWS * heads;
  const tri_attention call = attention_call(b->type);
  return KERNEL(attention_forward, &call, b->slices, X, X + heads, X + 2 * heads, Y, Y + out, W);
}
static tri_status attention_backward(bench *b) {
  const size_t heads = WIDTH * tri_dtype_bytes(b->type), out = ROWS * heads;
  const tri_attention call = attention_call(b->type);
  return KERNEL(attention_backward, &call, b->slices, X, X + heads, X + 2 * heads, Y, Y + out, Y + 2 * out, Z,
                Z + heads, Z + 2 * heads, W);
}
static tri_status statistics(bench *b) {
  return KERNEL(softmax_statistics, b->type, LOSS_ROWS, VOCABULARY, VOCABULARY, X, b->ids, 0, b->rows[0], b->rows[1],
                b->rows[2]);
}
static tri_status gradient(bench *b) {
  return KERNEL(softmax_gradient, b->type, LOSS_ROWS, VOCABULARY, VOCABULARY, X, b->ids, 0, -1,
                &(tri_step_values){.loss_scale = 1}, b->rows[2], b->rows[3],
                b->type == TRI_BF16 ? 2 * VOCABULARY : VOCABULARY, Z);
}
static tri_status adamw(bench *b) {
  tri_adamw o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  return KERNEL(adamw, b->type, PARAMETERS, &o, &(tri_step_values){.lr = 1e-9, .gradient_scale = 1, .update = 9}, X, Y,
                Z, W, NULL);
}
static tri_status squares(bench *b) {
  tri_exact_sum sum = {{0}, 0, 0};
  return KERNEL(block_squares, b->type, PARAMETERS, 256, X, &sum);
}
static tri_status zero(bench *b) { return KERNEL(fill_zero, PARAMETERS * sizeof(float), Y); }

static const bench_case cases[] = {
    {"add", add, 3, 0},
    {"convert fp32 to bf16", to_bf16, 0, 1.5},
    {"convert bf16 to fp32", from_bf16, 0, 1.5},
    {"column_sum", column_sum, 1, 0},
    {"embedding_forward", embedding, 1, 1},
    {"embedding_backward", embedding_backward, 1, 2},
    {"position_backward", position_backward, 1, 0.25},
    {"layer_norm_forward", layer_norm, 2, 0},
    {"layer_norm_backward_input", layer_norm_input, 4, 0},
    {"layer_norm_backward_weight", layer_norm_weight, 2, 0},
    {"gelu_forward", gelu, 2, 0},
    {"gelu_backward", gelu_backward, 3, 0},
    {"gelu_forward erf", gelu_erf, 2, 0},
    {"gelu_backward erf", gelu_erf_backward, 3, 0},
    {"swiglu_forward", swiglu, 3, 0},
    {"swiglu_backward", swiglu_backward, 5, 0},
    {"dropout", dropout, 2, 0},
    {"rope", rope, 2, 0},
    {"attention_forward", attention_forward, 4, 0},
    {"attention_backward", attention_backward, 8, 0},
    {"softmax_statistics", statistics, 0, (double)LOSS_ROWS *VOCABULARY / COUNT},
    {"softmax_gradient", gradient, (double)LOSS_ROWS *VOCABULARY / COUNT, (double)LOSS_ROWS *VOCABULARY / COUNT},
    {"adamw", adamw, 0, 7.0 * PARAMETERS / COUNT},
    {"sum_of_squares", squares, 0, 1.0 * PARAMETERS / COUNT},
    {"fill_zero", zero, 0, 1.0 * PARAMETERS / COUNT},
};

/* The kernel API's own copy: memcpy on all threads. */
static tri_status copy(bench *b) { return tri_queue_move(b->device->queue, Z, X, PARAMETERS * sizeof(float)); }

/* The fastest of a few runs, in seconds; negative on failure. */
static double seconds_of(bench *b, tri_status (*call)(bench *b)) {
  double best = 1e30, start = tri_clock_s();
  for (int i = 0; i < REPEATS || tri_clock_s() - start < least_s; i++) {
    double begin = tri_clock_s();
    if (call(b) != TRI_OK) return -1;
    double s = tri_clock_s() - begin;
    if (s < best) best = s;
  }
  return best;
}

static double copy_speed(bench *b) { return 2.0 * PARAMETERS * sizeof(float) / seconds_of(b, copy); }

/* Values that no kernel minds: fp32 numbers near 1 in every other pair of bytes are bf16 numbers near 1 too. */
static void fill(bench *b) {
  for (int i = 0; i < BUFFERS; i++) {
    uint16_t *halves = (uint16_t *)(void *)b->buffers[i];
    tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, (uint64_t)i);
    for (int64_t e = 0; e < 2 * (int64_t)PARAMETERS; e++) {
      uint32_t word = tri_random_u32(key, (uint64_t)(e % 100003));
      bool negative = i != 3 && (word & 1u) != 0; /* the fourth is a second moment */
      halves[e] = (uint16_t)((negative ? 0xbf00u : 0x3f00u) + (word >> 25));
    }
  }
  for (int64_t r = 0; r < ROWS; r++)
    b->ids[r] = (int32_t)(tri_random_u32(tri_random_stream(2, TRI_RANDOM_TEST, 9), (uint64_t)r) % (COUNT / WIDTH));
  for (int32_t i = 0; i < SEQUENCES; i++) {
    b->slices[i] = (tri_attention_slice){i * LENGTH, LENGTH, i * LENGTH, LENGTH, 1};
  }
  for (int64_t r = 0; r < ROWS; r++) b->positions[r] = (int32_t)(r % 1024);
  for (int64_t r = 0; r < ROWS; r++) b->rows[2][r] = b->rows[3][r] = 2.0f;
}

static tri_status run(const char *name, int threads) {
  bench b = {0};
  TRI_TRY(tri_device_create(name, threads, &b.device));
  for (int i = 0; i < BUFFERS; i++) {
    TRI_TRY(tri_device_memory_create(b.device, PARAMETERS * sizeof(float) + 4096 * (size_t)i, (void **)&b.buffers[i]));
  }
  b.ids = calloc(ROWS, sizeof(int32_t));
  b.positions = calloc(ROWS, sizeof(int32_t));
  for (int i = 0; i < 4; i++) b.rows[i] = calloc(ROWS, sizeof(float));
  for (int i = 0; i < 2; i++) b.columns[i] = calloc(WIDTH, sizeof(float));
  printf("%s, %d threads\n%-28s %5s %10s %8s %9s\n", b.device->info.name, b.device->description.threads, "", "", "GB/s",
         "memcpy", "ms");
  fill(&b);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    for (int t = 0; t < 2; t++) {
      b.type = t == 0 ? TRI_FP32 : TRI_BF16;
      if (t == 1 && cases[c].narrow == 0) continue;
      double before = copy_speed(&b);
      double s = seconds_of(&b, cases[c].call);
      if (s < 0) return TRI_INTERNAL;
      double after = copy_speed(&b);
      double bytes = (cases[c].narrow * (double)tri_dtype_bytes(b.type) + cases[c].wide * 4.0) * COUNT;
      printf("%-28s %5s %10.2f %8.2f %9.3f\n", cases[c].name, tri_dtype_name(b.type), bytes / s * 1e-9,
             bytes / s * 2.0 / (before + after), s * 1e3);
    }
  }
  tri_device_destroy(b.device);
  return TRI_OK;
}

int main(int count, char **arguments) {
  tri_status status = run(count > 1 ? arguments[1] : "cpu", count > 2 ? atoi(arguments[2]) : 0);
  if (status != TRI_OK) fprintf(stderr, "bench_kernels: %s\n", tri_status_message());
  return tri_status_exit(status);
}
