/* How near each memory-bound kernel of the CPU device comes to a plain copy of the same machine, in the same minute:
 *
 *   bench_kernels [DEVICE [THREADS]]        for example: bench_kernels cpu:avx2 1
 *
 * Prints GB/s (bytes that must be read and written, counted once each), the ratio to memcpy measured just before and
 * after, and milliseconds (of attention only these say something). Machines are noisy: read the ratio. Shapes are GPT-2
 * 124M's with 8192 tokens, the loss's with 512 rows of its vocabulary. */
#include "base/clock.h"
#include "base/random.h"
#include "base/spin.h"
#include "device/exact_sum.h"
#include "device/kernels.h"
#include "device/nf4.h"

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
  int32_t *ids, *positions, *turned;
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
static tri_status scale(bench *b) { return KERNEL(scale, b->type, COUNT, 0.5, X, Z); }
static tri_status to_bf16(bench *b) { return KERNEL(convert, COUNT, TRI_FP32, X, TRI_BF16, Z); }
static tri_status from_bf16(bench *b) { return KERNEL(convert, COUNT, TRI_BF16, X, TRI_FP32, Z); }
/* As context ranks' shares of sequences are brought to the order of the sequence. */
static tri_status copy_rows(bench *b) {
  const tri_row_copy copy = {tri_all_rows(ROWS), WIDTH, b->type, b->type, WIDTH, WIDTH};
  return KERNEL(copy_rows, &copy, b->turned, X, NULL, Z);
}
static tri_status copy_rows_to_bf16(bench *b) {
  const tri_row_copy copy = {tri_all_rows(ROWS), WIDTH, TRI_FP32, TRI_BF16, WIDTH, WIDTH};
  return KERNEL(copy_rows, &copy, b->turned, X, NULL, Z);
}
static tri_status column_sum(bench *b) {
  return KERNEL(column_sum, b->type, tri_all_rows(ROWS), WIDTH, WIDTH, X, b->columns[0], true);
}
static tri_status embedding(bench *b) {
  return KERNEL(embedding_forward, b->type, tri_all_rows(ROWS), WIDTH, b->ids, 0, COUNT / WIDTH, TRI_FP32, X,
                b->positions, Y, Z);
}
static tri_status embedding_narrow(bench *b) {
  return KERNEL(embedding_forward, b->type, tri_all_rows(ROWS), WIDTH, b->ids, 0, COUNT / WIDTH, b->type, X, NULL, NULL,
                Z);
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
  return KERNEL(activation_forward, b->type, TRI_ACTIVATION_GELU_TANH, tri_all_rows(ROWS), WIDTH, X, Z);
}
static tri_status activation_backward(bench *b) {
  return KERNEL(activation_backward, b->type, TRI_ACTIVATION_GELU_TANH, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status gelu_erf(bench *b) {
  return KERNEL(activation_forward, b->type, TRI_ACTIVATION_GELU_ERF, tri_all_rows(ROWS), WIDTH, X, Z);
}
static tri_status gelu_erf_backward(bench *b) {
  return KERNEL(activation_backward, b->type, TRI_ACTIVATION_GELU_ERF, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status swiglu(bench *b) {
  return KERNEL(gated_forward, b->type, TRI_ACTIVATION_SILU, tri_all_rows(ROWS), WIDTH, X, Z);
}
static tri_status gated_backward(bench *b) {
  return KERNEL(gated_backward, b->type, TRI_ACTIVATION_SILU, tri_all_rows(ROWS), WIDTH, X, Y, Z);
}
static tri_status weighted_swiglu(bench *b) {
  return KERNEL(weighted_gated_forward, b->type, TRI_ACTIVATION_SILU, tri_all_rows(ROWS), WIDTH, X, b->rows[0], Z);
}
static tri_status weighted_gated_backward(bench *b) {
  return KERNEL(weighted_gated_backward, b->type, TRI_ACTIVATION_SILU, tri_all_rows(ROWS), WIDTH, X, b->rows[0], Y, Z,
                b->rows[1]);
}
/* 2 of 8 experts, 8 of 128, and 8 of 256 in the 4 best of 8 groups: the logits are X, the choices Y. */
static const tri_router few_experts = {8, 2, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, true};
static const tri_router many_experts = {128, 8, 1, 1, 1, 1.0, TRI_ROUTER_SOFTMAX, false, true};
static const tri_router groups_of_experts = {256, 8, 8, 4, 2, 2.5, TRI_ROUTER_SIGMOID, false, true};
static tri_status route(bench *b, const tri_router *router, bool backward) {
  int32_t *experts = (int32_t *)(void *)Y;
  if (!backward) return KERNEL(router_forward, TRI_FP32, tri_all_rows(ROWS), router, NULL, X, NULL, experts, W);
  return KERNEL(router_backward, TRI_FP32, tri_all_rows(ROWS), router, X, experts, W, W, NULL, 0, 1, 1e-3,
                &(tri_step_values){.token_scale = 1}, Z);
}
static tri_status route_few(bench *b) { return route(b, &few_experts, false); }
static tri_status route_few_backward(bench *b) { return route(b, &few_experts, true); }
static tri_status route_many(bench *b) { return route(b, &many_experts, false); }
static tri_status route_groups(bench *b) { return route(b, &groups_of_experts, false); }
/* The backward for the choices of route_groups. */
static tri_status route_groups_backward(bench *b) { return route(b, &groups_of_experts, true); }
static tri_status group_rows(bench *b) {
  int32_t *places = (int32_t *)(void *)Z;
  return KERNEL(group_rows, tri_all_rows(ROWS), 8, 256, (const int32_t *)(const void *)Y, places + 24 * ROWS, places,
                places + 8 * ROWS, places + 16 * ROWS);
}
static tri_status sum_rows(bench *b) {
  return KERNEL(sum_rows, b->type, tri_all_rows(ROWS / 2), 2, WIDTH, b->turned, X, Z, false);
}
static tri_status dropout(bench *b) {
  return KERNEL(dropout, b->type, COUNT, &(tri_dropout){0.1, 1, 1, 5, 0, 0}, &(tri_step_values){.seed = 1}, NULL, X, Z);
}
static tri_status rope(bench *b) {
  return KERNEL(rope, b->type, tri_all_rows(ROWS), WIDTH, WIDTH / 64, 64, 64, b->positions, Y, W, false, Z);
}
/* Attention of 8 sequences, with q, k and v in one row; log_sum_exp follows out, and then the gradient of out. */
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
static tri_status logits(bench *b) {
  return KERNEL(softmax_logits, b->type, LOSS_ROWS, VOCABULARY, VOCABULARY, (tri_logit_form){1, 30}, X);
}
static tri_status statistics(bench *b) {
  return KERNEL(softmax_statistics, b->type, LOSS_ROWS, VOCABULARY, VOCABULARY, X, b->ids, 0, b->rows[0], b->rows[1],
                b->rows[2]);
}
static tri_status gradient(bench *b) {
  return KERNEL(softmax_gradient, b->type, LOSS_ROWS, VOCABULARY, VOCABULARY, (tri_logit_form){1, 0}, X, b->ids,
                b->rows[1], NULL, 0, &(tri_step_values){.loss_scale = 1}, b->rows[2], b->rows[3],
                b->type == TRI_BF16 ? 2 * VOCABULARY : VOCABULARY, Z);
}
static tri_status adamw(bench *b) {
  tri_adamw o = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 1};
  return KERNEL(adamw, b->type, PARAMETERS, &o, &(tri_step_values){.lr = 1e-9, .gradient_scale = 1, .update = 9}, X, Y,
                Z, W, NULL);
}
static const tri_step_values step_values = {.lr = 1e-9, .gradient_scale = 1, .average = 0.1, .update = 9};
static tri_status lion(bench *b) {
  return KERNEL(lion, b->type, PARAMETERS, &(tri_lion){0.9, 0.99, 0.1, 1}, &step_values, X, Y, Z, NULL);
}
static tri_status sgd(bench *b) {
  return KERNEL(sgd, b->type, PARAMETERS, &(tri_sgd){0.9, 0.1, 1, true}, &step_values, X, Y, Z, NULL);
}
static tri_status schedule_free(bench *b) {
  return KERNEL(schedule_free, b->type, PARAMETERS, &(tri_adamw){0.9, 0.95, 1e-8, 0.1, 1}, &step_values, X, Y, Z, W,
                NULL);
}
static tri_status lerp(bench *b) { return KERNEL(lerp, b->type, PARAMETERS, 0.1, X, Y, Z); }
static tri_status momentum(bench *b) {
  return KERNEL(momentum, b->type, PARAMETERS, &(tri_momentum){0.95, true}, &step_values, X, Z, X);
}
/* A matrix of PARAMETERS elements, and products of its rows. */
enum { MATRIX_ROWS = 4096, MATRIX_COLUMNS = PARAMETERS / MATRIX_ROWS };
static tri_status normalise(bench *b, bool turned) {
  const tri_matrix_copy copy = {MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_COLUMNS, turned ? 1 : MATRIX_COLUMNS,
                                turned ? MATRIX_ROWS : 1};
  tri_exact_sum squares = {{0}, 0, 0};
  tri_exact_sum_add(&squares, 1);
  return KERNEL(matrix_normalise, b->type, &copy, X, &squares, 1e-7, Z);
}
static tri_status normalise_straight(bench *b) { return normalise(b, false); }
static tri_status normalise_turned(bench *b) { return normalise(b, true); }
static tri_status polynomial(bench *b) {
  return KERNEL(matrix_polynomial, b->type, &(tri_matrix_polynomial){MATRIX_ROWS, {3, -4, 2}}, X, Y, Z);
}
static tri_status matrix_step(bench *b, bool turned) {
  const tri_matrix_step step = {
      MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_COLUMNS, turned ? 1 : MATRIX_COLUMNS, turned ? MATRIX_ROWS : 1, 0.1, 1, 0.2};
  return KERNEL(matrix_step, b->type, &step, &step_values, Y, X, NULL);
}
static tri_status step_straight(bench *b) { return matrix_step(b, false); }
static tri_status step_turned(bench *b) { return matrix_step(b, true); }
/* Codes are in the first part of Z, and scales in W. */
static tri_status quantise(bench *b) {
  return KERNEL(quantise_blocks, b->type, PARAMETERS, true, X, (uint8_t *)Z, (float *)(void *)W);
}
static tri_status dequantise(bench *b) {
  return KERNEL(dequantise_blocks, b->type, PARAMETERS, true, (uint8_t *)Z, (float *)(void *)W, Y);
}
/* Quantises activations; W has the result. */
static tri_status quantise_nf4(bench *b) { return KERNEL(quantise_nf4, b->type, PARAMETERS, X, W); }
static tri_status dequantise_nf4(bench *b) {
  const tri_nf4_cut whole = tri_nf4_whole(PARAMETERS);
  return KERNEL(dequantise_nf4, b->type, &whole, 0, PARAMETERS, W, Y);
}
static tri_status squares(bench *b) {
  tri_exact_sum sum = {{0}, 0, 0};
  return KERNEL(block_squares, b->type, PARAMETERS, 256, X, &sum);
}
static tri_status zero(bench *b) { return KERNEL(fill_zero, PARAMETERS * sizeof(float), Y); }

static const bench_case cases[] = {
    {"add", add, 3, 0},
    {"scale", scale, 2, 0},
    {"convert fp32 to bf16", to_bf16, 0, 1.5},
    {"convert bf16 to fp32", from_bf16, 0, 1.5},
    {"copy_rows", copy_rows, 2, 0},
    {"copy_rows fp32 to bf16", copy_rows_to_bf16, 0, 1.5},
    {"column_sum", column_sum, 1, 0},
    {"embedding_forward", embedding, 1, 1},
    {"embedding_forward of the type", embedding_narrow, 2, 0},
    {"embedding_backward", embedding_backward, 1, 2},
    {"position_backward", position_backward, 1, 0.25},
    {"layer_norm_forward", layer_norm, 2, 0},
    {"layer_norm_backward_input", layer_norm_input, 4, 0},
    {"layer_norm_backward_weight", layer_norm_weight, 2, 0},
    {"activation_forward", gelu, 2, 0},
    {"activation_backward", activation_backward, 3, 0},
    {"activation_forward erf", gelu_erf, 2, 0},
    {"activation_backward erf", gelu_erf_backward, 3, 0},
    {"gated_forward", swiglu, 3, 0},
    {"gated_backward", gated_backward, 5, 0},
    {"weighted_gated_forward", weighted_swiglu, 3, 0},
    {"weighted_gated_backward", weighted_gated_backward, 5, 0},
    {"router_forward 2 of 8", route_few, 0, 12.0 / WIDTH},
    {"router_backward 2 of 8", route_few_backward, 0, 20.0 / WIDTH},
    {"router_forward 8 of 128", route_many, 0, 144.0 / WIDTH},
    {"router_forward 8 of 256, groups", route_groups, 0, 272.0 / WIDTH},
    {"router_backward 8 of 256", route_groups_backward, 0, 528.0 / WIDTH},
    {"group_rows 8 of 256", group_rows, 0, 32.0 / WIDTH},
    {"sum_rows", sum_rows, 1.5, 0},
    {"dropout", dropout, 2, 0},
    {"rope", rope, 2, 0},
    {"attention_forward", attention_forward, 4, 0},
    {"attention_backward", attention_backward, 8, 0},
    {"softmax_logits", logits, 0, 2.0 * (double)LOSS_ROWS *VOCABULARY / COUNT},
    {"softmax_statistics", statistics, 0, (double)LOSS_ROWS *VOCABULARY / COUNT},
    {"softmax_gradient", gradient, (double)LOSS_ROWS *VOCABULARY / COUNT, (double)LOSS_ROWS *VOCABULARY / COUNT},
    {"adamw", adamw, 0, 7.0 * PARAMETERS / COUNT},
    {"lion", lion, 0, 5.0 * PARAMETERS / COUNT},
    {"sgd", sgd, 0, 5.0 * PARAMETERS / COUNT},
    {"schedule_free", schedule_free, 0, 7.0 * PARAMETERS / COUNT},
    {"lerp", lerp, 0, 3.0 * PARAMETERS / COUNT},
    {"momentum", momentum, 0, 4.0 * PARAMETERS / COUNT},
    {"matrix_normalise", normalise_straight, 1.0 * PARAMETERS / COUNT, 1.0 * PARAMETERS / COUNT},
    {"matrix_normalise transposed", normalise_turned, 1.0 * PARAMETERS / COUNT, 1.0 * PARAMETERS / COUNT},
    {"matrix_polynomial", polynomial, 3.0 * MATRIX_ROWS *MATRIX_ROWS / COUNT, 0},
    {"matrix_step", step_straight, 1.0 * PARAMETERS / COUNT, 2.0 * PARAMETERS / COUNT},
    {"matrix_step transposed", step_turned, 1.0 * PARAMETERS / COUNT, 2.0 * PARAMETERS / COUNT},
    {"quantise_blocks", quantise, 0, 1.25 * PARAMETERS / COUNT},
    {"dequantise_blocks", dequantise, 0, 1.25 * PARAMETERS / COUNT},
    {"quantise_nf4", quantise_nf4, 2.0 * PARAMETERS / COUNT, 0.125 * PARAMETERS / COUNT},
    {"dequantise_nf4", dequantise_nf4, 1.0 * PARAMETERS / COUNT, 0.125 * PARAMETERS / COUNT},
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
    b->slices[i] = tri_slice_causal(i * LENGTH, LENGTH, i * LENGTH, LENGTH);
  }
  for (int64_t r = 0; r < ROWS; r++) b->positions[r] = (int32_t)(r % 1024);
  for (int64_t r = 0; r < ROWS; r++) b->turned[r] = (int32_t)((r + ROWS / 2) % ROWS);
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
  b.turned = calloc(ROWS, sizeof(int32_t));
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
  tri_spin_limit(arguments);
  tri_status status = run(count > 1 ? arguments[1] : "cpu", count > 2 ? atoi(arguments[2]) : 0);
  if (status != TRI_OK) fprintf(stderr, "bench_kernels: %s\n", tri_status_message());
  return tri_status_exit(status);
}
