/* kernel_speed DEVICE [--type T] [--quick] [--json FILE]: measures how fast a device's kernels are.
 *
 * Kernels that are bound by memory, over elements and rows, are printed as bytes moved per second (each operand once),
 * and as a share of a copy within the device's memory. Matrix products and attention are printed as floating-point
 * operations per second, for the training shapes of GPT-2 124M, GPT-2 1.5B and a Llama of 1B, in three directions. Each
 * product is measured with the first algorithm in the ranking of the device's library, and with the fastest of its
 * first eight. Layers of experts and their routers are measured, too. Operands are random, because zeros are faster
 * than any data. Each figure is the median of some samples, with the minimum and the maximum. --quick uses small sizes,
 * and only shows that the program works. */
#include "kernel_speed.h"

#include "base/memory.h"
#include "base/random.h"
#include "device/gemm_choices.h"
#include "device/nf4.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 7, TABLE = 1 << 20 };

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static int index_of(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 0;
    case TRI_FP32: return 1;
    case TRI_BF16: return 2;
    case TRI_INT32: break;
  }
  return -1;
}

/* Repeats a table in device memory until the buffer is full. */
static void fill(tri_device *device, void *to, size_t bytes, const void *table, size_t table_bytes) {
  for (size_t at = 0; at < bytes; at += table_bytes) {
    size_t some = bytes - at < table_bytes ? bytes - at : table_bytes;
    TRY(tri_queue_move(device->queue, (char *)to + at, table, some));
  }
}

void *take(buffers *b, size_t bytes) {
  if (b->count == sizeof b->at / sizeof b->at[0]) abort(); /* more buffers than there is room for */
  void **out = &b->at[b->count];
  TRY(tri_device_memory_create(b->device, bytes, out));
  b->bytes[b->count++] = bytes;
  return *out;
}

void *random_of(const bench *s, buffers *b, tri_dtype type, int64_t count) {
  size_t bytes = (size_t)count * tri_dtype_bytes(type);
  void *out = take(b, bytes);
  if (type == TRI_INT32) {
    fill(s->device, out, bytes, s->ids, (size_t)TABLE * 4);
  } else {
    fill(s->device, out, bytes, s->normal[index_of(type)], (size_t)TABLE * tri_dtype_bytes(type));
  }
  return out;
}

void give(buffers *b) {
  TRY(tri_queue_finish(b->device->queue));
  for (int i = 0; i < b->count; i++) tri_device_memory_destroy(b->device, b->at[i], b->bytes[i]);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Measures the seconds of one round: minimum, median, maximum. The number of rounds makes a sample long enough to be
 * measured. */
static void sample(const bench *s, tri_device_work *work, void *context, double seconds[3]) {
  double all[SAMPLES], once = 0;
  for (int i = 0; i < 2; i++) TRY(work(s->device->queue, context, i));
  TRY(tri_device_time(s->device->queue, work, context, 1, &once));
  int rounds = once <= 0 ? 64 : (int)ceil(s->least_s / once);
  rounds = rounds < 1 ? 1 : rounds > 200 ? 200 : rounds;
  int samples = s->quick ? 1 : SAMPLES;
  for (int i = 0; i < samples; i++) {
    TRY(tri_device_time(s->device->queue, work, context, rounds, &all[i]));
    all[i] /= rounds;
  }
  qsort(all, (size_t)samples, sizeof all[0], by_value);
  seconds[0] = all[0];
  seconds[1] = all[samples / 2];
  seconds[2] = all[samples - 1];
}

static void tell(bench *s, const char *what, const char *unit, double amount, const double seconds[3]) {
  double rate = amount / seconds[1], share = unit[0] == 'B' && s->copy_rate > 0 ? rate / s->copy_rate : 0;
  bool flops = unit[0] != 'B';
  printf("%-58s %10.2f %s  (%.2f to %.2f)", what, rate * (flops ? 1e-12 : 1e-9), flops ? "TFLOP/s" : "GB/s",
         amount / seconds[2] * (flops ? 1e-12 : 1e-9), amount / seconds[0] * (flops ? 1e-12 : 1e-9));
  if (share > 0) printf("  %.2f of the copy", share);
  printf("  %.1f us\n", seconds[1] * 1e6);
  fflush(stdout);
  json_array_append_new(
      s->out, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "what", what, "type", tri_dtype_name(s->type), "unit",
                        flops ? "flop/s" : "byte/s", "rate", rate, "least", amount / seconds[2], "most",
                        amount / seconds[0], "seconds", seconds[1]));
}

void measure(bench *s, const char *what, const char *unit, double amount, tri_device_work *work, void *context) {
  double seconds[3];
  sample(s, work, context, seconds);
  tell(s, what, unit, amount, seconds);
}

/* ---- kernels over elements and rows ------------------------------------------------------------------------------ */

typedef struct rows_call {
  const bench *s;
  int64_t rows, width, vocabulary, positions;
  void *x, *y, *z, *table, *weight, *bias, *mean, *rstd, *ids, *labels, *places, *cosine, *sine, *moment1, *moment2;
  void *values, *sum, *turned;
} rows_call;

#define WORK(name_, ...)                                                                                               \
  static tri_status work_##name_(tri_queue *queue, void *context, int round) {                                         \
    const rows_call *c = context;                                                                                      \
    const tri_dtype type = c->s->type, wide = c->s->wide;                                                              \
    const tri_rows all = tri_all_rows(c->rows);                                                                        \
    const tri_norm norm = tri_norm_of_rows(type, all, c->width, 1e-5);                                                 \
    const tri_dropout dropout = {0.1, 3, c->width, 0, c->width, 0};                                                    \
    const tri_adamw adamw = {0.9, 0.95, 1e-8, 0.1, 1};                                                                 \
    (void)round, (void)wide, (void)all, (void)norm, (void)dropout, (void)adamw;                                        \
    TRI_KERNEL_CALL(queue, __VA_ARGS__);                                                                               \
    return TRI_OK;                                                                                                     \
  }

WORK(add, add, type, all, c->width, c->x, c->y, c->z)
WORK(scale, scale, type, c->rows * c->width, 0.5, c->x, c->z)
WORK(convert, convert, c->rows * c->width, wide, c->table, type, c->z)
WORK(copy_rows, copy_rows, &(tri_row_copy){all, c->width, type, type, c->width, c->width}, c->turned, c->x, NULL, c->z)
WORK(column_sum, column_sum, type, all, c->width, c->width, c->x, c->weight, true)
WORK(activation_forward, activation_forward, type, TRI_ACTIVATION_GELU_TANH, all, c->width, c->x, c->z)
WORK(activation_backward, activation_backward, type, TRI_ACTIVATION_GELU_TANH, all, c->width, c->x, c->y, c->z)
WORK(gated_forward, gated_forward, type, TRI_ACTIVATION_SILU, tri_all_rows(c->rows / 2), c->width, c->x, c->z)
WORK(gated_backward, gated_backward, type, TRI_ACTIVATION_SILU, tri_all_rows(c->rows / 2), c->width, c->x, c->y, c->z)
WORK(weighted_gated_forward, weighted_gated_forward, type, TRI_ACTIVATION_SILU, tri_all_rows(c->rows / 2), c->width,
     c->x, c->mean, c->z)
WORK(weighted_gated_backward, weighted_gated_backward, type, TRI_ACTIVATION_SILU, tri_all_rows(c->rows / 2), c->width,
     c->x, c->mean, c->y, c->z, c->rstd)
WORK(dropout, dropout, type, c->rows * c->width, &dropout, c->values, NULL, c->x, c->z)
WORK(dropout_by_rows, dropout, type, c->rows * c->width, &dropout, c->values, c->turned, c->x, c->z)
WORK(rope, rope, type, all, c->width, c->width / 64, 64, 64, c->places, c->cosine, c->sine, false, c->z)
WORK(layer_norm_forward, layer_norm_forward, &norm, c->x, NULL, NULL, c->weight, c->bias, c->z, c->mean, c->rstd)
WORK(layer_norm_backward_input, layer_norm_backward_input, &norm, c->y, c->x, c->weight, c->mean, c->rstd, c->z, false)
WORK(layer_norm_backward_weight, layer_norm_backward_weight, &norm, c->y, c->x, c->mean, c->rstd, c->weight, c->bias,
     true)
WORK(rms_norm_forward, rms_norm_forward, &norm, c->x, NULL, NULL, c->weight, c->z, c->rstd)
WORK(rms_norm_backward_input, rms_norm_backward_input, &norm, c->y, c->x, c->weight, c->rstd, c->z, false)
WORK(rms_norm_backward_weight, rms_norm_backward_weight, &norm, c->y, c->x, c->rstd, c->weight, true)
WORK(embedding_forward, embedding_forward, type, all, c->width, c->ids, 0, c->vocabulary, wide, c->table, c->places,
     c->table, c->z)
WORK(embedding_narrow, embedding_forward, type, all, c->width, c->ids, 0, c->vocabulary, type, c->table, NULL, NULL,
     c->z)
WORK(embedding_backward, embedding_backward, type, all, c->width, c->ids, 0, c->vocabulary, c->x, c->table)
WORK(position_backward, position_backward, type, all, c->width, c->places, c->positions, c->x, c->table, true)
WORK(adamw, adamw, type, c->rows * c->width / 2, &adamw, c->values, c->table, c->moment1, c->moment1, c->moment2, NULL)
WORK(adamw_copy, adamw, type, c->rows * c->width / 2, &adamw, c->values, c->table, c->moment1, c->moment1, c->moment2,
     type == wide ? NULL : c->z)
/* The largest square matrix whose side is a multiple of 64. */
static int64_t square_of(const rows_call *c) { return (int64_t)sqrt((double)(c->rows * c->width)) / 64 * 64; }

WORK(lion, lion, type, c->rows * c->width / 2, &(tri_lion){0.9, 0.99, 0.1, 1}, c->values, c->table, c->moment1,
     c->moment2, NULL)
WORK(sgd, sgd, type, c->rows * c->width / 2, &(tri_sgd){0.9, 0.1, 1, true}, c->values, c->table, c->moment1, c->moment2,
     NULL)
WORK(schedule_free, schedule_free, type, c->rows * c->width / 2, &adamw, c->values, c->table, c->moment1, c->moment1,
     c->moment2, NULL)
WORK(lerp, lerp, type, c->rows * c->width / 2, 0.1, c->table, c->moment1, c->moment2)
WORK(momentum, momentum, type, c->rows * c->width / 2, &(tri_momentum){0.95, true}, c->values, c->moment1, c->moment2,
     c->moment1)
WORK(matrix_normalise, matrix_normalise, type, &(tri_matrix_copy){c->rows / 2, c->width, c->width, c->width, 1},
     c->table, c->sum, 1e-7, c->z)
WORK(matrix_normalise_turned, matrix_normalise, type,
     &(tri_matrix_copy){c->rows / 2, c->width, c->width, 1, c->rows / 2}, c->table, c->sum, 1e-7, c->z)
WORK(matrix_polynomial, matrix_polynomial, type, &(tri_matrix_polynomial){square_of(c), {3, -4, 2}}, c->x, c->y, c->z)
WORK(matrix_step, matrix_step, type, &(tri_matrix_step){c->rows / 2, c->width, c->width, c->width, 1, 0.1, 1, 0.2},
     c->values, c->x, c->table, NULL)
WORK(matrix_step_turned, matrix_step, type,
     &(tri_matrix_step){c->rows / 2, c->width, c->width, 1, c->rows / 2, 0.1, 1, 0.2}, c->values, c->x, c->table, NULL)
WORK(quantise, quantise_blocks, type, c->rows * c->width / 2, true, c->table, c->z, c->moment2)
WORK(dequantise, dequantise_blocks, type, c->rows * c->width / 2, true, c->z, c->moment2, c->moment1)
WORK(quantise_nf4, quantise_nf4, type, c->rows * c->width, c->x, c->moment2)
static tri_nf4_cut all_of(const rows_call *c) { return tri_nf4_whole(c->rows * c->width); }
/* As a rank of two has a matrix that is split by its inputs. */
static tri_nf4_cut half_of(const rows_call *c) {
  const int64_t half = c->width / 2;
  return (tri_nf4_cut){c->rows * c->width, c->rows, half, 0, c->width, 0, 0, 0, tri_nf4_blocks_touched(half)};
}
WORK(dequantise_nf4, dequantise_nf4, type, (tri_nf4_cut[]){all_of(c)}, 0, c->rows * c->width, c->moment2, c->z)
WORK(dequantise_cut, dequantise_nf4, type, (tri_nf4_cut[]){half_of(c)}, 0, c->rows *(c->width / 2), c->moment2, c->z)
WORK(cut_nf4, cut_nf4, (tri_nf4_cut[]){half_of(c)}, c->moment2, c->z)
WORK(block_squares, block_squares, type, c->rows * c->width / 2, 65536, c->table, c->sum)

/* Each row once, in halves that have changed places. */
static void make_turned(const bench *s, buffers *b, rows_call *c) {
  const size_t bytes = (size_t)c->rows * sizeof(int32_t);
  int32_t *numbers = malloc(bytes);
  if (numbers == NULL) abort();
  for (int64_t r = 0; r < c->rows; r++) numbers[r] = (int32_t)((r + c->rows / 2) % c->rows);
  c->turned = take(b, bytes);
  TRY(tri_queue_upload_now(s->device->queue, c->turned, numbers, bytes));
  free(numbers);
}

static void make_rows(const bench *s, buffers *b, rows_call *c) {
  const int64_t count = c->rows * c->width;
  const int64_t table = count > c->vocabulary * c->width ? count : c->vocabulary * c->width;
  c->s = s;
  c->x = random_of(s, b, s->type, count);
  c->y = random_of(s, b, s->type, count);
  c->z = random_of(s, b, s->type, count);
  c->table = random_of(s, b, s->wide, table);
  c->moment1 = random_of(s, b, s->wide, count);
  c->moment2 = take(b, (size_t)count * tri_dtype_bytes(s->wide));
  c->weight = random_of(s, b, s->wide, c->width);
  c->bias = random_of(s, b, s->wide, c->width);
  c->mean = random_of(s, b, s->wide, c->rows);
  c->rstd = random_of(s, b, s->wide, c->rows);
  c->ids = random_of(s, b, TRI_INT32, c->rows);
  c->cosine = random_of(s, b, s->wide, c->positions * 32);
  c->sine = c->cosine;
  c->values = take(b, sizeof(tri_step_values));
  c->sum = take(b, sizeof(tri_exact_sum));
  c->places = c->ids; /* below `positions` too */
  const tri_step_values values = {.lr = 1e-4, .gradient_scale = 1, .loss_scale = 1, .update = 3, .step = 3, .seed = 1};
  TRY(tri_queue_upload_now(s->device->queue, c->values, &values, sizeof values));
  make_turned(s, b, c);
}

static void rows(bench *s) {
  buffers b = {.device = s->device};
  rows_call c = {.rows = s->quick ? 64 : 65536, .width = s->quick ? 128 : 768, .vocabulary = 50257, .positions = 1024};
  if (s->quick) c.vocabulary = 512, c.positions = 512;
  make_rows(s, &b, &c);
  const double n = (double)c.rows * (double)c.width, e = (double)tri_dtype_bytes(s->type),
               w = (double)tri_dtype_bytes(s->wide), square = (double)square_of(&c);
  const struct {
    const char *name;
    tri_device_work *work;
    double bytes;
  } all[] = {
      {"add", work_add, 3 * n * e},
      {"scale", work_scale, 2 * n * e},
      {"convert (wide to narrow)", work_convert, n * (e + w)},
      {"copy_rows", work_copy_rows, 2 * n * e},
      {"column_sum", work_column_sum, n * e},
      {"activation_forward", work_activation_forward, 2 * n * e},
      {"activation_backward", work_activation_backward, 3 * n * e},
      {"gated_forward", work_gated_forward, 1.5 * n * e},
      {"gated_backward", work_gated_backward, 2.5 * n * e},
      {"weighted_gated_forward", work_weighted_gated_forward, 1.5 * n * e},
      {"weighted_gated_backward", work_weighted_gated_backward, 2.5 * n * e},
      {"dropout", work_dropout, 2 * n * e},
      {"dropout by rows", work_dropout_by_rows, 2 * n * e},
      {"rope", work_rope, 2 * n * e},
      {"layer_norm_forward", work_layer_norm_forward, 2 * n * e},
      {"layer_norm_backward_input", work_layer_norm_backward_input, 3 * n * e},
      {"layer_norm_backward_weight", work_layer_norm_backward_weight, 2 * n * e},
      {"rms_norm_forward", work_rms_norm_forward, 2 * n * e},
      {"rms_norm_backward_input", work_rms_norm_backward_input, 3 * n * e},
      {"rms_norm_backward_weight", work_rms_norm_backward_weight, 2 * n * e},
      {"embedding_forward", work_embedding_forward, n * (2 * w + e)},
      {"embedding_forward, a table of the type", work_embedding_narrow, 2 * n * e},
      {"embedding_backward", work_embedding_backward, n * (2 * w + e)},
      {"position_backward", work_position_backward, n * e},
      {"adamw", work_adamw, n / 2 * 7 * w},
      {"adamw with the narrow copy", work_adamw_copy, n / 2 * (7 * w + e)},
      {"lion", work_lion, n / 2 * 5 * w},
      {"sgd", work_sgd, n / 2 * 5 * w},
      {"schedule_free", work_schedule_free, n / 2 * 7 * w},
      {"lerp", work_lerp, n / 2 * 3 * w},
      {"momentum", work_momentum, n / 2 * 4 * w},
      {"matrix_normalise", work_matrix_normalise, n / 2 * (w + e)},
      {"matrix_normalise, transposed", work_matrix_normalise_turned, n / 2 * (w + e)},
      {"matrix_step", work_matrix_step, n / 2 * (2 * w + e)},
      {"matrix_step, transposed", work_matrix_step_turned, n / 2 * (2 * w + e)},
      {"matrix_polynomial", work_matrix_polynomial, square * square * 3 * e},
      {"quantise_blocks", work_quantise, n / 2 * (w + 1)},
      {"dequantise_blocks", work_dequantise, n / 2 * (w + 1)},
      {"quantise_nf4", work_quantise_nf4, n * (2 * e + 0.5)},
      {"dequantise_nf4", work_dequantise_nf4, n * (e + 0.5)},
      {"dequantise_nf4, half", work_dequantise_cut, n * (e + 0.5) / 2},
      {"cut_nf4, half", work_cut_nf4, n * 0.5},
      {"block_squares", work_block_squares, n / 2 * w},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i].work == work_adamw_copy && s->type == s->wide) continue; /* no such kernel */
    measure(s, all[i].name, "B/s", all[i].bytes, all[i].work, &c);
  }
  give(&b);
}

/* ---- the loss's rows, which are long ----------------------------------------------------------------------------- */

typedef struct loss_call {
  const bench *s;
  int64_t rows, vocabulary;
  void *logits, *labels, *weights, *maximum, *sum, *label_logit, *values;
} loss_call;

static tri_status work_logits(tri_queue *queue, void *context, int round) {
  const loss_call *c = context;
  (void)round;
  TRI_KERNEL_CALL(queue, softmax_logits, c->s->type, c->rows, c->vocabulary, c->vocabulary, (tri_logit_form){1, 30},
                  c->logits);
  return TRI_OK;
}

static tri_status work_statistics(tri_queue *queue, void *context, int round) {
  const loss_call *c = context;
  (void)round;
  TRI_KERNEL_CALL(queue, softmax_statistics, c->s->type, c->rows, c->vocabulary, c->vocabulary, c->logits, c->labels, 0,
                  c->maximum, c->sum, c->label_logit);
  return TRI_OK;
}

/* Writes to the logits' own memory, whose contents do not matter afterwards. */
static tri_status work_gradient(tri_queue *queue, void *context, int round) {
  const loss_call *c = context;
  (void)round;
  TRI_KERNEL_CALL(queue, softmax_gradient, c->s->type, c->rows, c->vocabulary, c->vocabulary, (tri_logit_form){1, 0},
                  c->logits, c->labels, c->weights, NULL, 0, c->values, c->maximum, c->sum,
                  c->vocabulary * (int64_t)(tri_dtype_bytes(c->s->wide) / tri_dtype_bytes(c->s->type)), c->logits);
  return TRI_OK;
}

static void loss(bench *s) {
  buffers b = {.device = s->device};
  loss_call c = {.s = s, .rows = s->quick ? 16 : 8192, .vocabulary = s->quick ? 515 : 50304};
  const tri_step_values values = {.loss_scale = 1e-3};
  c.logits = random_of(s, &b, s->wide, c.rows * c.vocabulary);
  c.labels = random_of(s, &b, TRI_INT32, c.rows);
  c.weights = random_of(s, &b, TRI_FP32, c.rows);
  c.maximum = random_of(s, &b, s->wide, c.rows);
  c.sum = random_of(s, &b, s->wide, c.rows);
  c.label_logit = random_of(s, &b, s->wide, c.rows);
  c.values = take(&b, sizeof values);
  TRY(tri_queue_upload_now(s->device->queue, c.values, &values, sizeof values));
  const double n = (double)c.rows * (double)c.vocabulary, e = (double)tri_dtype_bytes(s->type),
               w = (double)tri_dtype_bytes(s->wide);
  measure(s, "softmax_logits", "B/s", 2 * n * w, work_logits, &c);
  measure(s, "softmax_statistics", "B/s", n * w, work_statistics, &c);
  measure(s, "softmax_gradient", "B/s", n * (w + e), work_gradient, &c);
  give(&b);
}

/* ---- matrix products --------------------------------------------------------------------------------------------- */

typedef struct product_call {
  tri_matmul product;
  void *a, *b, *c, *workspace;
} product_call;

static tri_status work_product(tri_queue *queue, void *context, int round) {
  const product_call *p = context;
  (void)round;
  TRI_KERNEL_CALL(queue, matmul, &p->product, p->a, p->b, NULL, p->c, p->workspace);
  return TRI_OK;
}

static void product(bench *s, const char *model, const char *layer, const char *direction, tri_matmul product) {
  buffers b = {.device = s->device};
  char what[128];
  size_t scratch = 0;
  product_call p = {.product = product};
  p.a = random_of(s, &b, product.a_type, product.m * product.k);
  p.b = random_of(s, &b, product.b_type, product.k * product.n);
  p.c = random_of(s, &b, product.c_type, product.m * product.n);
  TRY(s->device->description.matmul_workspace(&s->device->description, &product, &scratch));
  p.workspace = scratch == 0 ? NULL : take(&b, scratch);
  snprintf(what, sizeof what, "%s %s %s %ldx%ldx%ld%s", model, layer, direction, (long)product.m, (long)product.n,
           (long)product.k, s->choice);
  measure(s, what, "FLOP/s", 2.0 * (double)product.m * (double)product.n * (double)product.k, work_product, &p);
  give(&b);
}

/* As a linear layer of `inputs` to `outputs` has them: weights are [outputs, inputs]. */
static void layer(bench *s, const char *model, const char *name, int64_t tokens, int64_t inputs, int64_t outputs) {
  const tri_dtype t = s->type;
  product(s, model, name, "forward",
          (tri_matmul){.m = tokens,
                       .n = outputs,
                       .k = inputs,
                       .lda = inputs,
                       .ldb = inputs,
                       .ldc = outputs,
                       .a_type = t,
                       .b_type = t,
                       .c_type = t,
                       .b_transposed = true});
  product(s, model, name, "backward_input",
          (tri_matmul){.m = tokens,
                       .n = inputs,
                       .k = outputs,
                       .lda = outputs,
                       .ldb = inputs,
                       .ldc = inputs,
                       .a_type = t,
                       .b_type = t,
                       .c_type = t});
  product(s, model, name, "backward_weight",
          (tri_matmul){.m = outputs,
                       .n = inputs,
                       .k = tokens,
                       .lda = outputs,
                       .ldb = inputs,
                       .ldc = inputs,
                       .a_type = t,
                       .b_type = t,
                       .c_type = s->wide,
                       .a_transposed = true,
                       .accumulate = true});
}

static void products(bench *s) {
  static const struct {
    const char *model, *name;
    int64_t tokens, inputs, outputs;
  } all[] = {
      {"gpt2-124m", "qkv", 65536, 768, 2304},         {"gpt2-124m", "projection", 65536, 768, 768},
      {"gpt2-124m", "up", 65536, 768, 3072},          {"gpt2-124m", "down", 65536, 3072, 768},
      {"gpt2-124m", "head", 16384, 768, 50304},       {"gpt2-1.5b", "qkv", 16384, 1600, 4800},
      {"gpt2-1.5b", "projection", 16384, 1600, 1600}, {"gpt2-1.5b", "up", 16384, 1600, 6400},
      {"gpt2-1.5b", "down", 16384, 6400, 1600},       {"llama-1b", "qkv", 16384, 2048, 3072},
      {"llama-1b", "projection", 16384, 2048, 2048},  {"llama-1b", "gate and up", 16384, 2048, 16384},
      {"llama-1b", "down", 16384, 8192, 2048},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    int64_t by = s->quick ? 256 : 1;
    if (s->quick && i % 4 != 0) continue;
    layer(s, all[i].model, all[i].name, all[i].tokens / by / (s->quick ? 4 : 1), all[i].inputs / (s->quick ? 16 : 1),
          all[i].outputs / by * (s->quick ? 8 : 1));
  }
}

/* The products above are made by the fastest of eight from here on. False where the device has nothing to choose. */
static bool choose_products(bench *s) {
  char chooser[TRI_DEVICE_GEMM_LIBRARY_BYTES], *asked = NULL, *choices = NULL;
  tri_device_gemm_library(s->device, chooser);
  if (chooser[0] == '\0') return false;
  TRY(tri_device_gemms_asked(s->device, &asked));
  TRY(tri_device_gemms_choose(s->device, asked, true, &choices));
  printf("products are chosen by %s\n", chooser);
  tri_free(asked);
  tri_free(choices);
  s->choice = ", best of eight";
  return true;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

typedef struct attention_call {
  tri_attention call;
  void *slices, *qkv, *out, *sums, *gradient, *gradient_qkv, *workspace;
} attention_call;

static void *at_element(void *base, tri_dtype type, int64_t elements) {
  return (char *)base + (size_t)elements * tri_dtype_bytes(type);
}

static tri_status work_attention_forward(tri_queue *queue, void *context, int round) {
  const attention_call *c = context;
  const int64_t k = c->call.heads * c->call.head_dim, v = k + c->call.kv_heads * c->call.head_dim;
  (void)round;
  TRI_KERNEL_CALL(queue, attention_forward, &c->call, c->slices, c->qkv, at_element(c->qkv, c->call.type, k),
                  at_element(c->qkv, c->call.type, v), c->out, c->sums, c->workspace);
  return TRI_OK;
}

static tri_status work_attention_backward(tri_queue *queue, void *context, int round) {
  const attention_call *c = context;
  const int64_t k = c->call.heads * c->call.head_dim, v = k + c->call.kv_heads * c->call.head_dim;
  (void)round;
  TRI_KERNEL_CALL(queue, attention_backward, &c->call, c->slices, c->qkv, at_element(c->qkv, c->call.type, k),
                  at_element(c->qkv, c->call.type, v), c->out, c->sums, c->gradient, c->gradient_qkv,
                  at_element(c->gradient_qkv, c->call.type, k), at_element(c->gradient_qkv, c->call.type, v),
                  c->workspace);
  return TRI_OK;
}

static void attention(bench *s, int64_t batch, int64_t heads, int64_t kv_heads, int64_t positions, int64_t head_dim) {
  buffers b = {.device = s->device};
  const int64_t width = heads * head_dim, row = width + 2 * kv_heads * head_dim, tokens = batch * positions;
  attention_call c = {.call = {.type = s->type,
                               .out_type = s->type,
                               .gradient_type = s->type,
                               .heads = heads,
                               .kv_heads = kv_heads,
                               .head_dim = head_dim,
                               .scale = 1 / sqrt((double)head_dim),
                               .query_rows = tokens,
                               .key_rows = tokens,
                               .q_row = row,
                               .q_head = head_dim,
                               .k_row = row,
                               .k_head = head_dim,
                               .v_row = row,
                               .v_head = head_dim,
                               .out_row = width,
                               .out_head = head_dim,
                               .num_slices = batch,
                               .most_queries = positions,
                               .most_keys = positions}};
  tri_attention_slice *list = calloc((size_t)batch, sizeof *list);
  size_t scratch = 0;
  char what[96];
  for (int64_t i = 0; list != NULL && i < batch; i++) {
    list[i] = tri_slice_causal(i * positions, positions, i * positions, positions);
  }
  c.slices = take(&b, (size_t)batch * sizeof *list);
  TRY(tri_queue_upload_now(s->device->queue, c.slices, list, (size_t)batch * sizeof *list));
  free(list);
  c.qkv = random_of(s, &b, s->type, tokens * row);
  c.out = random_of(s, &b, s->type, tokens * width);
  c.sums = random_of(s, &b, s->wide, tokens * heads);
  c.gradient = random_of(s, &b, s->type, tokens * width);
  c.gradient_qkv = random_of(s, &b, s->type, tokens * row);
  TRY(s->device->description.attention_workspace(&s->device->description, &c.call, &scratch));
  c.workspace = scratch == 0 ? NULL : take(&b, scratch);
  const double flops = 2.0 * (double)tokens * (double)positions * (double)width; /* causal: half of 4 */
  snprintf(what, sizeof what, "attention_forward %ldx%ld(%ld)x%ldx%ld", (long)batch, (long)heads, (long)kv_heads,
           (long)positions, (long)head_dim);
  measure(s, what, "FLOP/s", flops, work_attention_forward, &c);
  snprintf(what, sizeof what, "attention_backward %ldx%ld(%ld)x%ldx%ld", (long)batch, (long)heads, (long)kv_heads,
           (long)positions, (long)head_dim);
  measure(s, what, "FLOP/s", 2.5 * flops, work_attention_backward, &c);
  give(&b);
}

/* ---- the copy, and all ------------------------------------------------------------------------------------------- */

typedef struct copy_call {
  void *to, *from;
  size_t bytes;
} copy_call;

static tri_status work_copy(tri_queue *queue, void *context, int round) {
  const copy_call *c = context;
  return round % 2 == 0 ? tri_queue_move(queue, c->to, c->from, c->bytes)
                        : tri_queue_move(queue, c->from, c->to, c->bytes);
}

static void copy(bench *s) {
  buffers b = {.device = s->device};
  copy_call c = {.bytes = s->quick ? 1 << 18 : (size_t)1 << 30};
  double seconds[3];
  c.from = random_of(s, &b, TRI_FP32, (int64_t)c.bytes / 4);
  c.to = take(&b, c.bytes);
  sample(s, work_copy, &c, seconds);
  tell(s, "copy within the device's memory", "B/s", 2.0 * (double)c.bytes, seconds);
  s->copy_rate = 2.0 * (double)c.bytes / seconds[1];
  give(&b);
}

static void make_tables(bench *s, buffers *b) {
  static const tri_dtype types[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  const tri_random_key key = tri_random_stream(7, TRI_RANDOM_TEST, 0);
  double *values = malloc((size_t)TABLE * sizeof *values);
  float *narrow = malloc((size_t)TABLE * sizeof *narrow);
  int32_t *ids = malloc((size_t)TABLE * sizeof *ids);
  for (int64_t i = 0; i < TABLE; i++) {
    values[i] = tri_random_normal(key, (uint64_t)i);
    narrow[i] = (float)values[i];
    ids[i] = (int32_t)(tri_random_u32(key, (uint64_t)(TABLE + i)) % 512);
  }
  for (int t = 0; t < 3; t++) s->normal[t] = take(b, (size_t)TABLE * tri_dtype_bytes(types[t]));
  s->ids = take(b, (size_t)TABLE * sizeof *ids);
  TRY(tri_queue_upload_now(s->device->queue, s->normal[0], values, (size_t)TABLE * sizeof *values));
  TRY(tri_queue_upload_now(s->device->queue, s->normal[1], narrow, (size_t)TABLE * sizeof *narrow));
  TRY(tri_queue_upload_now(s->device->queue, s->ids, ids, (size_t)TABLE * sizeof *ids));
  TRY(s->device->kernels->convert(s->device->queue, TABLE, TRI_FP32, s->normal[1], TRI_BF16, s->normal[2]));
  TRY(tri_queue_finish(s->device->queue));
  free(values);
  free(narrow);
  free(ids);
}

static void run(bench *s) {
  buffers tables = {.device = s->device};
  make_tables(s, &tables);
  printf("%s, %s\n", s->device->info.name, tri_dtype_name(s->type));
  copy(s);
  rows(s);
  loss(s);
  s->choice = "";
  products(s);
  if (choose_products(s)) products(s);
  if (s->quick) {
    attention(s, 2, 2, 2, 64, 64);
    attention(s, 1, 2, 1, 64, 128);
    experts(s, "small", (tri_router){8, 2, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true}, 64, 32, 16);
  } else {
    attention(s, 64, 12, 12, 1024, 64);
    attention(s, 8, 32, 8, 2048, 128);
    attention(s, 4, 32, 8, 4096, 128);
    experts(s, "mixtral-8x7b", (tri_router){8, 2, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true}, 16384, 4096, 14336);
    experts(s, "qwen3-30b-a3b", (tri_router){128, 8, 1, 1, 1, 1, TRI_ROUTER_SOFTMAX, false, true}, 16384, 2048, 768);
    experts(s, "deepseek-v3, 32 of its experts", (tri_router){32, 8, 4, 2, 2, 2.5, TRI_ROUTER_SIGMOID, false, true},
            8192, 7168, 2048);
  }
  give(&tables);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "auto", *json = NULL;
  bench s = {.type = TRI_BF16, .least_s = 0.02};
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--quick") == 0) {
      s.quick = true;
    } else if (strcmp(argv[i], "--type") == 0 && i + 1 < argc) {
      const char *type = argv[++i];
      s.type = strcmp(type, "fp64") == 0 ? TRI_FP64 : strcmp(type, "fp32") == 0 ? TRI_FP32 : TRI_BF16;
    } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      fprintf(stderr, "kernel_speed DEVICE [--type fp64|fp32|bf16] [--quick] [--json FILE]: `%s` is not one of these\n",
              argv[i]);
      return 2;
    }
  }
  s.wide = tri_dtype_wide(s.type);
  s.least_s = s.quick ? 0 : s.least_s;
  s.out = json_array();
  TRY(tri_device_create(name, 0, &s.device));
  run(&s);
  tri_device_destroy(s.device);
  if (json != NULL && json_dump_file(s.out, json, JSON_INDENT(1)) != 0) {
    fprintf(stderr, "kernel_speed: cannot write %s\n", json);
    return 1;
  }
  json_decref(s.out);
  return 0;
}
