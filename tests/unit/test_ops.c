/* Every operation's backward passes against central differences, in double on the reference device.
 *
 * Two operations of the test's own stand around the one under test: `input` turns a parameter into a slot, so that the
 * gradient of an input can be read like that of a parameter; `weighted_sum` makes a scalar of the output. Then every
 * element of every parameter is moved by a little, both ways. */
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "engine/executor.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 2, SEQUENCE = 3, ROWS = BATCH * SEQUENCE };

static double noise(int64_t stream, int64_t i) {
  return tri_random_normal(tri_random_stream(7, TRI_RANDOM_TEST, (uint64_t)stream), (uint64_t)i);
}

/* ---- the test's own operations ----------------------------------------------------------------------------------- */

static tri_status input_shape(const tri_op_call *call, const tri_shape in[TRI_OP_INPUTS],
                              tri_shape out[TRI_OP_OUTPUTS]) {
  (void)in;
  out[0] = (tri_shape){call->rows, *(const int64_t *)call->attributes, call->type};
  return TRI_OK;
}

static tri_status input_forward(tri_run *run, const tri_op_call *call) {
  int64_t count = tri_run_rows(run, call) * *(const int64_t *)call->attributes;
  memcpy(run->slots[call->outputs[0]], run->parameters[call->parameters[0]].value, (size_t)count * sizeof(double));
  return TRI_OK;
}

static tri_status input_backward(tri_run *run, const tri_op_call *call) {
  int64_t count = tri_run_rows(run, call) * *(const int64_t *)call->attributes;
  memcpy(run->parameters[call->parameters[0]].gradient, run->gradients[call->outputs[0]],
         (size_t)count * sizeof(double));
  return TRI_OK;
}

static void no_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  (void)call;
  (void)pass;
  *out = (tri_cost){0};
}

static const tri_op op_input = {.name = "input",
                                .shape = input_shape,
                                .forward = input_forward,
                                .backward_weight = input_backward,
                                .cost = no_cost};

static tri_status sum_shape(const tri_op_call *call, const tri_shape in[TRI_OP_INPUTS], tri_shape out[TRI_OP_OUTPUTS]) {
  (void)call;
  (void)in;
  (void)out;
  return TRI_OK;
}

static tri_status sum_forward(tri_run *run, const tri_op_call *call) {
  const double *x = run->slots[call->inputs[0]];
  int64_t count = tri_run_rows(run, call) * *(const int64_t *)call->attributes;
  for (int64_t i = 0; i < count; i++) *run->loss_sum += x[i] * noise(1, i);
  return TRI_OK;
}

static tri_status sum_backward(tri_run *run, const tri_op_call *call) {
  double *gradient = run->gradients[call->inputs[0]];
  int64_t count = tri_run_rows(run, call) * *(const int64_t *)call->attributes;
  for (int64_t i = 0; i < count; i++) gradient[i] = noise(1, i);
  return TRI_OK;
}

static const tri_op op_weighted_sum = {.name = "weighted_sum",
                                       .shape = sum_shape,
                                       .forward = sum_forward,
                                       .backward_input = sum_backward,
                                       .cost = no_cost};

/* ---- the harness ------------------------------------------------------------------------------------------------- */

typedef struct bench {
  tri_parameter_table table;
  tri_op_list *list;
  tri_device *device;
  tri_weights *values;
  tri_executor *executor;
  int32_t ids[ROWS], labels[ROWS], positions[ROWS];
  float weights[ROWS];
  tri_attention_slice slices[BATCH];
  int64_t slice_begins[2];
  double loss;
} bench;

static void begin(bench *b) {
  memset(b, 0, sizeof *b);
  CHECK_OK(tri_op_list_create(BATCH, SEQUENCE, TRI_FP64, true, &b->list));
  CHECK_OK(tri_device_create("reference", 0, &b->device));
}

static int32_t parameter(bench *b, int64_t rows, int64_t width, bool joined) {
  tri_parameter entry = {.num_dims = width > 0 ? 2 : 1, .shape = {rows, width > 0 ? width : 1}, .joined = joined};
  entry.placement = tri_parameter_placed_dense();
  entry.split = tri_split_none();
  CHECK_OK(tri_parameter_table_add(&b->table, "test", 0, entry));
  return (int32_t)b->table.num_entries - 1;
}

static int32_t input(bench *b, int64_t width) {
  const void *at = NULL;
  CHECK_OK(tri_op_list_keep(b->list, &width, sizeof width, &at));
  tri_op_call call = tri_op_call_of(&op_input, at);
  call.parameters[0] = parameter(b, ROWS, width, false);
  int32_t outputs[TRI_OP_OUTPUTS];
  CHECK_OK(tri_op_list_append(b->list, &call, 1, outputs));
  return outputs[0];
}

static void weigh(bench *b, int32_t slot) {
  const void *at = NULL;
  int64_t width = b->list->slots[slot].shape.width;
  CHECK_OK(tri_op_list_keep(b->list, &width, sizeof width, &at));
  tri_op_call call = tri_op_call_of(&op_weighted_sum, at);
  call.inputs[0] = slot;
  int32_t outputs[TRI_OP_OUTPUTS];
  CHECK_OK(tri_op_list_append(b->list, &call, 0, outputs));
}

static tri_run new_run(bench *b) {
  static const tri_step_values values = {.seed = 5, .step = 3, .first_sample = 7, .loss_scale = 1.0};
  tri_run run = tri_executor_run(b->executor, 0, 0);
  run.training = true;
  run.batch = BATCH;
  run.sequence = SEQUENCE;
  for (int i = 0; i < ROWS; i++) b->positions[i] = i % SEQUENCE;
  for (int i = 0; i < BATCH; i++) {
    b->slices[i] = tri_slice_causal((int64_t)i * SEQUENCE, SEQUENCE, (int64_t)i * SEQUENCE, SEQUENCE);
  }
  b->slice_begins[1] = BATCH;
  run.positions = b->positions;
  run.slices = b->slices;
  run.slice_begins = b->slice_begins;
  run.ids = b->ids;
  run.labels = b->labels;
  for (int i = 0; i < ROWS; i++) b->weights[i] = 0.5f + 0.25f * (float)(i % 4);
  run.weights = b->weights;
  run.values = &values;
  run.sample = 4;
  b->loss = 0;
  run.loss_sum = &b->loss;
  return run;
}

static double loss(bench *b) {
  tri_run run = new_run(b);
  CHECK_OK(tri_executor_prepare(b->executor));
  CHECK_OK(tri_executor_forward(b->executor, 0, &run));
  return b->loss;
}

/* Computes gradients by the backward passes, summed over `times` identical micro-batches. */
static void find_gradients(bench *b, bool split, int times) {
  for (int64_t i = 0; i < b->table.num_entries; i++) b->executor->weights->parameters[i].gradient_written = false;
  CHECK_OK(tri_executor_prepare(b->executor));
  for (int i = 0; i < times; i++) {
    tri_run run = new_run(b);
    CHECK_OK(tri_executor_forward(b->executor, 0, &run));
    tri_backward first = {0, 0, b->list->num_calls, true, !split};
    tri_backward second = {0, 0, b->list->num_calls, false, true};
    CHECK_OK(tri_executor_backward(b->executor, &first, &run));
    if (split) CHECK_OK(tri_executor_backward(b->executor, &second, &run));
  }
}

static void compare(bench *b, double times) {
  double *values = tri_weights_values(b->executor->weights);
  const double step = 1e-5;
  /* Copies the gradients, since the forward of the loss also writes gradients. */
  double gradients[8192];
  assert_true(b->table.num_elements <= 8192);
  memcpy(gradients, tri_weights_gradients(b->executor->weights), (size_t)b->table.num_elements * sizeof(double));
  for (int64_t p = 0; p < b->table.num_entries; p++) {
    for (int64_t i = 0; i < b->table.entries[p].count; i++) {
      int64_t at = b->table.entries[p].offset + i;
      double kept = values[at];
      values[at] = kept + step;
      double above = loss(b);
      values[at] = kept - step;
      double below = loss(b);
      values[at] = kept;
      double expected = times * (above - below) / (2 * step);
      double error = fabs(gradients[at] - expected);
      if (!(error <= 2e-7 * (1 + fabs(expected)))) {
        fail_msg("parameter %d element %d: gradient %.12g, difference quotient %.12g", (int)p, (int)i, gradients[at],
                 expected);
      }
    }
  }
}

/* Creates the memory of the list, with random parameters. */
static void lay_out(bench *b, bool split) {
  CHECK_OK(tri_op_list_finish(b->list));
  tri_parameter_table_lay_out(&b->table, NULL);
  const int64_t one_frame = 1;
  tri_memory_request request = {
      .lists = (const tri_op_list *const *)&b->list,
      .num_chunks = 1,
      .num_values = b->table.num_elements,
      .num_gradients = b->table.num_elements,
      .training = true,
      .split_backward = split,
      .num_frames = &one_frame,
      .device = &b->device->description,
  };
  CHECK_OK(tri_weights_create(&b->table, NULL, TRI_FP64, &b->values));
  CHECK_OK(tri_executor_create(b->values, &request, b->device, NULL, &b->executor));
  double *values = tri_weights_values(b->executor->weights);
  for (int64_t i = 0; i < b->table.num_elements; i++) values[i] = 0.7 * noise(0, i);
  /* Poison: an operation that reads a gradient before it is written has wrong results. */
  memset(tri_weights_gradients(b->executor->weights), 0xff, (size_t)b->table.num_elements * sizeof(double));
  size_t frames = b->executor->plan->chunks[0].frames;
  memset(b->executor->arena + frames, 0xff, b->executor->plan->arena_bytes - frames);
}

static void end(bench *b) {
  tri_executor_destroy(b->executor);
  tri_weights_destroy(b->values);
  tri_op_list_destroy(b->list);
  tri_free(b->table.entries);
  tri_device_destroy(b->device);
}

/* `accumulates`: whether the parameters' gradients add up over micro-batches (those of test inputs do not). */
static void check(bench *b, bool split, int times) {
  lay_out(b, split);
  find_gradients(b, split, times);
  /* The padding between parameters belongs to none of them. */
  compare(b, times);
  end(b);
}

static void with_both(void (*build)(bench *)) {
  for (int split = 0; split < 2; split++) {
    bench b;
    begin(&b);
    build(&b);
    check(&b, split == 1, 1);
  }
}

/* ---- one test an operation --------------------------------------------------------------------------------------- */

static void build_linear_in_out(bench *b) {
  int32_t x = input(b, 5), y = -1;
  int32_t weight = parameter(b, 5, 7, false), bias = parameter(b, 7, 0, false);
  CHECK_OK(tri_op_linear(b->list, 5, 7, TRI_WEIGHT_IN_OUT, x, weight, bias, &y));
  weigh(b, y);
}

static void build_linear_joined(bench *b) {
  int32_t x = input(b, 5), y = -1;
  int32_t weight = parameter(b, 3, 5, false);
  parameter(b, 2, 5, true);
  parameter(b, 2, 5, true);
  CHECK_OK(tri_op_linear(b->list, 5, 7, TRI_WEIGHT_OUT_IN, x, weight, -1, &y));
  weigh(b, y);
}

static void build_layer_norm(bench *b) {
  int32_t x = input(b, 6), y = -1;
  int32_t weight = parameter(b, 6, 0, false), bias = parameter(b, 6, 0, false);
  CHECK_OK(tri_op_layer_norm(b->list, 1e-3, x, weight, bias, &y));
  weigh(b, y);
}

static void build_layer_norm_without_bias(bench *b) {
  int32_t x = input(b, 6), y = -1;
  CHECK_OK(tri_op_layer_norm(b->list, 1e-3, x, parameter(b, 6, 0, false), -1, &y));
  weigh(b, y);
}

/* 3 heads of q for one of k and v, each 4 wide. The norm does not change v. */
static void build_qk_norm(bench *b, bool whole, double offset) {
  const tri_heads heads = {.heads = 3, .kv_heads = 1, .head_dim = 4};
  int32_t x = input(b, 20), y;
  int32_t q = parameter(b, whole ? 12 : 4, 0, false), k = parameter(b, 4, 0, false);
  CHECK_OK(tri_op_head_norm(b->list, heads, (tri_rms){1e-3, offset}, whole, x, q, k, &y));
  weigh(b, y);
}
static void build_head_norm(bench *b) { build_qk_norm(b, false, 0); }
static void build_head_norm_around_zero(bench *b) { build_qk_norm(b, false, 1); }
static void build_whole_norm(bench *b) { build_qk_norm(b, true, 0); }

static void build_rms_norm(bench *b) {
  int32_t x = input(b, 6), y = -1;
  CHECK_OK(tri_op_rms_norm(b->list, (tri_rms){1e-3, 0}, x, parameter(b, 6, 0, false), &y));
  weigh(b, y);
}

static void build_rms_norm_around_zero(bench *b) {
  int32_t x = input(b, 6), y = -1;
  CHECK_OK(tri_op_rms_norm(b->list, (tri_rms){1e-3, 1}, x, parameter(b, 6, 0, false), &y));
  weigh(b, y);
}

/* Each activation alone, and as a gate. */
#define ACTIVATION_BUILDS(VALUE, name, ...)                                                                            \
  static void build_##name(bench *b) {                                                                                 \
    int32_t x = input(b, 6), y = -1;                                                                                   \
    CHECK_OK(tri_op_activation(b->list, TRI_ACTIVATION_##VALUE, x, &y));                                               \
    weigh(b, y);                                                                                                       \
  }                                                                                                                    \
  static void build_gated_##name(bench *b) {                                                                           \
    int32_t x = input(b, 8), y = -1;                                                                                   \
    CHECK_OK(tri_op_gated(b->list, TRI_ACTIVATION_##VALUE, x, &y));                                                    \
    weigh(b, y);                                                                                                       \
  }
TRI_ACTIVATIONS(ACTIVATION_BUILDS)

static void build_scale(bench *b) {
  int32_t x = input(b, 8), y = -1, same = -1;
  CHECK_OK(tri_op_scale(b->list, 1, x, &same));
  assert_int_equal(same, x);
  CHECK_OK(tri_op_scale(b->list, -1.7, x, &y));
  weigh(b, y);
}

/* A branch is scaled, and a value that other operations read, too: their gradients accumulate. */
static void build_scaled_branch(bench *b) {
  int32_t x = input(b, 6), x1, x2, x3;
  CHECK_OK(tri_op_scale(b->list, 0.3, x, &x1));
  CHECK_OK(tri_op_linear(b->list, 6, 6, TRI_WEIGHT_IN_OUT, x, parameter(b, 6, 6, false), -1, &x2));
  CHECK_OK(tri_op_scale(b->list, 2.5, x2, &x2));
  CHECK_OK(tri_op_add(b->list, x, x2, &x2));
  CHECK_OK(tri_op_add(b->list, x2, x1, &x3));
  weigh(b, x3);
}

/* The summand is read by another operation, too, and the gradient of the stream must not be scaled. */
static void build_scaled_and_read(bench *b) {
  int32_t x = input(b, 6), x1, x2, x3, x4;
  CHECK_OK(tri_op_linear(b->list, 6, 6, TRI_WEIGHT_IN_OUT, x, parameter(b, 6, 6, false), -1, &x1));
  CHECK_OK(tri_op_scale(b->list, 2.5, x1, &x2));
  CHECK_OK(tri_op_add(b->list, x, x2, &x3));
  CHECK_OK(tri_op_linear(b->list, 6, 6, TRI_WEIGHT_IN_OUT, x1, parameter(b, 6, 6, false), -1, &x4));
  CHECK_OK(tri_op_add(b->list, x3, x4, &x4));
  weigh(b, x4);
}

static void build_dropout(bench *b) {
  int32_t x = input(b, 8), y = -1;
  CHECK_OK(tri_op_dropout(b->list, 0.4, 9, x, &y));
  weigh(b, y);
}

static void build_attention(bench *b) {
  tri_heads heads = {4, 2, 3};
  int32_t x = input(b, (4 + 2 * 2) * 3), y = -1;
  CHECK_OK(tri_op_attention(b->list, heads, (tri_scores){0}, SEQUENCE, x, &y));
  weigh(b, y);
}

/* A scale that is not the default, and a cap that some scores exceed. */
static void build_capped_attention(bench *b) {
  tri_heads heads = {4, 2, 3};
  int32_t x = input(b, (4 + 2 * 2) * 3), y = -1;
  CHECK_OK(tri_op_attention(b->list, heads, (tri_scores){.scale = 1.5, .soft_cap = 0.7}, SEQUENCE, x, &y));
  weigh(b, y);
}

static void build_rope(bench *b) {
  tri_heads heads = {2, 1, 4};
  tri_rope_table table = {.positions = SEQUENCE, .head_dim = 4, .theta = 100, .scaling = tri_rope_scaling_none()};
  int32_t x = input(b, (2 + 2 * 1) * 4), y = -1;
  CHECK_OK(tri_op_rope(b->list, heads, &table, x, &y));
  weigh(b, y);
}

/* 4 of 6 elements, then all of them with another base, then 2. */
static const tri_heads partly = {2, 1, 6};
static const struct {
  int64_t rotary_dim;
  double theta;
} turns[] = {{4, 100}, {0, 9}, {2, 100}, {6, 9}};
enum { TURNS = sizeof turns / sizeof turns[0] };

static int32_t append_turns(bench *b) {
  int32_t x = input(b, (2 + 2 * 1) * 6);
  for (int i = 0; i < TURNS; i++) {
    tri_rope_table table = {.positions = SEQUENCE,
                            .head_dim = 6,
                            .rotary_dim = turns[i].rotary_dim,
                            .theta = turns[i].theta,
                            .scaling = tri_rope_scaling_none()};
    CHECK_OK(tri_op_rope(b->list, partly, &table, x, &x));
  }
  return x;
}
static void build_rope_of_parts(bench *b) { weigh(b, append_turns(b)); }

/* Rotates a row, by the formula. */
static void turn(double *row, int position) {
  for (int i = 0; i < TURNS; i++) {
    const int all = turns[i].rotary_dim == 0 ? 6 : (int)turns[i].rotary_dim;
    for (int at = 0; at < (2 + 1) * 6; at += 6) {
      for (int pair = 0; pair < all / 2; pair++) {
        const double angle = position * pow(turns[i].theta, -2.0 * pair / all);
        const double low = row[at + pair], high = row[at + pair + all / 2];
        row[at + pair] = low * cos(angle) - high * sin(angle);
        row[at + pair + all / 2] = high * cos(angle) + low * sin(angle);
      }
    }
  }
}

/* Calls with equal rotary settings share a table; calls with other settings do not. */
static void test_rope_tables(void **state) {
  (void)state;
  bench b;
  begin(&b);
  weigh(&b, append_turns(&b));
  assert_int_equal(b.list->num_constants, TURNS - 1);
  lay_out(&b, false);
  enum { WIDTH = 24 };
  double expected = 0, rows[ROWS * WIDTH];
  memcpy(rows, tri_weights_values(b.executor->weights), sizeof rows);
  for (int r = 0; r < ROWS; r++) turn(rows + r * WIDTH, r % SEQUENCE);
  for (int i = 0; i < ROWS * WIDTH; i++) expected += rows[i] * noise(1, i);
  const double got = loss(&b);
  if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("the sum is %.15g, not %.15g", got, expected);
  end(&b);
}

static void build_embedding_from(bench *b, int64_t offset) {
  for (int i = 0; i < ROWS; i++) b->ids[i] = (i * i) % 4;
  int32_t y = -1;
  const int32_t token = parameter(b, 4, 5, false), position = parameter(b, SEQUENCE + 1 + offset, 5, false);
  CHECK_OK(tri_op_embedding(b->list, 5, 4, SEQUENCE + 1, offset, token, position, &y));
  weigh(b, y);
}
static void build_embedding(bench *b) { build_embedding_from(b, 0); }
static void build_embedding_from_two(bench *b) { build_embedding_from(b, 2); }

/* Positions begin at the third row of their table. */
static void test_position_offset(void **state) {
  (void)state;
  bench b;
  begin(&b);
  build_embedding_from_two(&b);
  lay_out(&b, false);
  const double *tokens = tri_weights_values(b.executor->weights), *table = tokens + b.table.entries[1].offset;
  double expected = 0;
  for (int i = 0; i < ROWS * 5; i++) {
    const int row = i / 5, column = i % 5;
    expected += noise(1, i) * (tokens[b.ids[row] * 5 + column] + table[(row % SEQUENCE + 2) * 5 + column]);
  }
  const double got = loss(&b);
  if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("the sum is %.15g, not %.15g", got, expected);
  end(&b);
}

static void build_cross_entropy_of(bench *b, double scale, double soft_cap, bool biased) {
  for (int i = 0; i < ROWS; i++) b->labels[i] = i == 2 ? -1 : (i * 3) % 7;
  int32_t x = input(b, 5), weight = parameter(b, 7, 5, false), bias = biased ? parameter(b, 7, 0, false) : -1;
  CHECK_OK(tri_op_cross_entropy(b->list, 5, 7, (tri_logits){scale, soft_cap, bias}, NULL, x, weight));
}
static void build_cross_entropy(bench *b) { build_cross_entropy_of(b, 1, 0, false); }
static void build_scaled_logits(bench *b) { build_cross_entropy_of(b, -0.7, 0, false); }
static void build_capped_logits(bench *b) { build_cross_entropy_of(b, 1, 0.9, false); }
static void build_biased_logits(bench *b) { build_cross_entropy_of(b, 1, 0, true); }
static void build_logits_of_all(bench *b) { build_cross_entropy_of(b, 1.8, 1.3, true); }

/* Computes logits of a row of h by the formula; the products are not small compared with the cap. */
static const tri_logits formed = {1.8, 1.3, 1};
static void logits_of(const bench *b, const double *h, double out[7]) {
  const double *values = tri_weights_values(b->executor->weights);
  const double *weight = values + b->table.entries[0].offset, *bias = values + b->table.entries[1].offset;
  for (int v = 0; v < 7; v++) {
    double sum = bias[v];
    for (int c = 0; c < 5; c++) sum += h[c] * weight[v * 5 + c];
    out[v] = formed.soft_cap * tanh(formed.scale * sum / formed.soft_cap);
  }
}

static const double *hidden_of(const bench *b) {
  const double *values = tri_weights_values(b->executor->weights);
  return values + b->table.entries[2].offset;
}

static int32_t begin_logits(bench *b) {
  begin(b);
  parameter(b, 7, 5, false);
  parameter(b, 7, 0, false);
  for (int i = 0; i < ROWS; i++) b->labels[i] = i == 2 ? -1 : (i * 3) % 7;
  return input(b, 5);
}

static void test_loss_of_formed_logits(void **state) {
  (void)state;
  bench b;
  const int32_t x = begin_logits(&b);
  CHECK_OK(tri_op_cross_entropy(b.list, 5, 7, formed, NULL, x, 0));
  lay_out(&b, false);
  const double got = loss(&b), *h = hidden_of(&b);
  double expected = 0;
  for (int r = 0; r < ROWS; r++) {
    double logits[7], sum = 0;
    logits_of(&b, h + (ptrdiff_t)r * 5, logits);
    for (int v = 0; v < 7; v++) sum += exp(logits[v]);
    if (b.labels[r] >= 0) expected += (double)b.weights[r] * (log(sum) - logits[b.labels[r]]);
  }
  if (!(fabs(got - expected) <= 1e-12 * expected)) fail_msg("the loss is %.15g, not %.15g", got, expected);
  end(&b);
}

static void test_formed_row_logits(void **state) {
  (void)state;
  bench b;
  const int32_t x = begin_logits(&b);
  int32_t y = -1;
  b.list->logit_rows = BATCH;
  CHECK_OK(tri_op_row_logits(b.list, 5, 7, formed, x, 0, &y));
  lay_out(&b, false);
  tri_run run = new_run(&b);
  tri_kv_cache cache = {.logit_rows = BATCH};
  int32_t rows[BATCH];
  for (int i = 0; i < BATCH; i++) rows[i] = i * SEQUENCE + SEQUENCE - 2;
  run.cache = &cache;
  run.logit_rows = rows;
  CHECK_OK(tri_executor_prepare(b.executor));
  CHECK_OK(tri_executor_forward(b.executor, 0, &run));
  const double *h = hidden_of(&b), *got = run.slots[y];
  for (int i = 0; i < BATCH; i++) {
    double expected[7];
    logits_of(&b, h + (ptrdiff_t)(i * SEQUENCE + SEQUENCE - 2) * 5, expected);
    for (int v = 0; v < 7; v++) assert_true(fabs(got[i * 7 + v] - expected[v]) < 1e-12);
  }
  end(&b);
}

/* Two residual branches, one with dropout: gradients share memory, are added to, and are written in place. */
static void build_residual(bench *b) {
  int32_t x = input(b, 6), x1, x2, x3, x4;
  CHECK_OK(tri_op_layer_norm(b->list, 1e-3, x, parameter(b, 6, 0, false), parameter(b, 6, 0, false), &x1));
  CHECK_OK(tri_op_linear(b->list, 6, 6, TRI_WEIGHT_IN_OUT, x1, parameter(b, 6, 6, false), -1, &x2));
  CHECK_OK(tri_op_dropout(b->list, 0.3, 1, x2, &x3));
  CHECK_OK(tri_op_add(b->list, x, x3, &x4));
  CHECK_OK(tri_op_rms_norm(b->list, (tri_rms){1e-3, 0}, x4, parameter(b, 6, 0, false), &x1));
  CHECK_OK(tri_op_linear(b->list, 6, 6, TRI_WEIGHT_OUT_IN, x1, parameter(b, 6, 6, false), -1, &x2));
  CHECK_OK(tri_op_add(b->list, x4, x2, &x3));
  weigh(b, x3);
}

#define OPERATION_TEST(name)                                                                                           \
  static void test_##name(void **state) {                                                                              \
    (void)state;                                                                                                       \
    with_both(build_##name);                                                                                           \
  }
OPERATION_TEST(linear_in_out)
OPERATION_TEST(linear_joined)
OPERATION_TEST(layer_norm)
OPERATION_TEST(layer_norm_without_bias)
OPERATION_TEST(rms_norm)
OPERATION_TEST(rms_norm_around_zero)
OPERATION_TEST(head_norm_around_zero)
OPERATION_TEST(head_norm)
OPERATION_TEST(whole_norm)
#define ACTIVATION_TESTS(VALUE, name, ...) OPERATION_TEST(name) OPERATION_TEST(gated_##name)
TRI_ACTIVATIONS(ACTIVATION_TESTS)
OPERATION_TEST(dropout)
OPERATION_TEST(scale)
OPERATION_TEST(scaled_branch)
OPERATION_TEST(scaled_and_read)
OPERATION_TEST(attention)
OPERATION_TEST(capped_attention)
OPERATION_TEST(rope)
OPERATION_TEST(rope_of_parts)
OPERATION_TEST(embedding)
OPERATION_TEST(embedding_from_two)
OPERATION_TEST(cross_entropy)
OPERATION_TEST(scaled_logits)
OPERATION_TEST(capped_logits)
OPERATION_TEST(biased_logits)
OPERATION_TEST(logits_of_all)
OPERATION_TEST(residual)

static tri_cost attention_cost(tri_heads heads, tri_scores scores, tri_pass pass) {
  bench b;
  tri_cost cost = {0};
  begin(&b);
  int32_t x = input(&b, (heads.heads + 2 * heads.kv_heads) * heads.head_dim), y = -1;
  CHECK_OK(tri_op_attention(b.list, heads, scores, SEQUENCE, x, &y));
  CHECK_OK(tri_op_list_finish(b.list));
  tri_op_cost(&b.list->calls[b.list->num_calls - 1], pass, &cost);
  tri_op_list_destroy(b.list);
  tri_device_destroy(b.device);
  tri_free(b.table.entries);
  return cost;
}

/* A cap adds elementwise work for each score, and a scale adds none. Invalid settings are refused. */
static void test_scores(void **state) {
  (void)state;
  const tri_heads heads = {4, 2, 3};
  static const tri_scores bad[] = {{-1, 0}, {0, -50}, {NAN, 0}, {0, NAN}, {INFINITY, 0}, {0, INFINITY}};
  for (int pass = TRI_PASS_FORWARD; pass <= TRI_PASS_BACKWARD_INPUT; pass++) {
    const tri_cost plain = attention_cost(heads, (tri_scores){0}, (tri_pass)pass);
    const tri_cost scaled = attention_cost(heads, (tri_scores){.scale = 3}, (tri_pass)pass);
    const tri_cost capped = attention_cost(heads, (tri_scores){.soft_cap = 50}, (tri_pass)pass);
    assert_true(plain.scores > 0 && plain.capped == 0 && scaled.capped == 0 && capped.capped >= 10 * plain.scores);
    assert_true(scaled.vector_flops == plain.vector_flops && scaled.flops == plain.flops);
    assert_true(capped.vector_flops == plain.vector_flops + capped.capped && capped.flops == plain.flops);
  }
  bench b;
  begin(&b);
  int32_t x = input(&b, 24), y = -1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_FAILS(tri_op_attention(b.list, heads, bad[i], SEQUENCE, x, &y), TRI_BAD_CONFIG, "use numbers above 0");
  }
  tri_op_list_destroy(b.list);
  tri_device_destroy(b.device);
  tri_free(b.table.entries);
}

/* A second micro-batch adds to the gradients of the first. */
static void test_accumulation(void **state) {
  (void)state;
  bench b;
  begin(&b);
  for (int i = 0; i < ROWS; i++) {
    b.ids[i] = (i * i) % 4;
    b.labels[i] = (i + 1) % 4;
  }
  int32_t table = parameter(&b, 4, 5, false), x, x1, x2;
  CHECK_OK(tri_op_embedding(b.list, 5, 4, SEQUENCE + 1, 0, table, parameter(&b, SEQUENCE + 1, 5, false), &x));
  CHECK_OK(tri_op_layer_norm(b.list, 1e-3, x, parameter(&b, 5, 0, false), parameter(&b, 5, 0, false), &x1));
  CHECK_OK(
      tri_op_linear(b.list, 5, 5, TRI_WEIGHT_IN_OUT, x1, parameter(&b, 5, 5, false), parameter(&b, 5, 0, false), &x2));
  const tri_logits logits = {0.7, 2, parameter(&b, 4, 0, false)};
  CHECK_OK(tri_op_cross_entropy(b.list, 5, 4, logits, NULL, x2, table));
  check(&b, false, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear_in_out),
      cmocka_unit_test(test_linear_joined),
      cmocka_unit_test(test_layer_norm),
      cmocka_unit_test(test_layer_norm_without_bias),
      cmocka_unit_test(test_rms_norm),
      cmocka_unit_test(test_head_norm),
      cmocka_unit_test(test_rms_norm_around_zero),
      cmocka_unit_test(test_head_norm_around_zero),
      cmocka_unit_test(test_whole_norm),
#define UNIT_TESTS(VALUE, name, ...) cmocka_unit_test(test_##name), cmocka_unit_test(test_gated_##name),
      TRI_ACTIVATIONS(UNIT_TESTS) cmocka_unit_test(test_dropout),
      cmocka_unit_test(test_scale),
      cmocka_unit_test(test_scaled_branch),
      cmocka_unit_test(test_scaled_and_read),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_rope_of_parts),
      cmocka_unit_test(test_rope_tables),
      cmocka_unit_test(test_embedding),
      cmocka_unit_test(test_embedding_from_two),
      cmocka_unit_test(test_position_offset),
      cmocka_unit_test(test_cross_entropy),
      cmocka_unit_test(test_scaled_logits),
      cmocka_unit_test(test_capped_logits),
      cmocka_unit_test(test_biased_logits),
      cmocka_unit_test(test_logits_of_all),
      cmocka_unit_test(test_loss_of_formed_logits),
      cmocka_unit_test(test_formed_row_logits),
      cmocka_unit_test(test_residual),
      cmocka_unit_test(test_accumulation),
      cmocka_unit_test(test_capped_attention),
      cmocka_unit_test(test_scores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
