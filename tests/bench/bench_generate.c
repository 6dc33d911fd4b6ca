/* Measures how fast text is generated, compared with reading the weights once for each token:
 *
 *   bench_generate [PRECISION [SEQUENCES [TOKENS [DEVICE [THREADS [SHAPE [PROMPT]]]]]]]
 *   for example: bench_generate bf16 8 300 cpu 2 llama
 *
 * GPT-2 124M's shape (gpt2), or that of SmolLM2 135M (llama), with random weights; prompts of 8 tokens, the most likely
 * token each time (300 of them, fp32, one sequence, device cpu, all threads). Prints one line of JSON: tokens/s of all
 * sequences together, also without the prompts; milliseconds of a step; the bytes of the weights that products read in
 * a step; the rate at which these bytes are read (GB/s), and the rates of plain reading and of memcpy with as many
 * threads in the same minute. Machines are noisy: compare the shares, and the median of several runs.
 * bench_generate.py runs it in turns with transformers.
 */
#include "../unit/runner_weights.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/spin.h"
#include "device/device.h"
#include "generation/generator.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 8, READ_FLOATS = 96 << 20, TURNS = 3 };

typedef struct settings {
  tri_dtype precision;
  int64_t sequences, tokens, prompt;
  const char *device;
  int threads;
  const tri_model *shape;
} settings;

typedef struct rates {
  double read, copy; /* bytes a second */
} rates;

static const tri_model gpt2 = {.family = TRI_FAMILY_GPT2,
                               .num_layers = 12,
                               .hidden_size = 768,
                               .num_heads = 12,
                               .vocab_size = 50257,
                               .max_sequence = 1024,
                               .norm_eps = 1e-5,
                               .init_std = 0.02,
                               .rope_theta = 10000,
                               .rope_scaling.factor = 1,
                               .attention_bias = true,
                               .tied = true};

/* That of SmolLM2 135M. */
static const tri_model llama = {.family = TRI_FAMILY_LLAMA,
                                .num_layers = 30,
                                .hidden_size = 576,
                                .num_heads = 9,
                                .num_kv_heads = 3,
                                .ffn_size = 1536,
                                .vocab_size = 49152,
                                .max_sequence = 2048,
                                .norm_eps = 1e-5,
                                .init_std = 0.02,
                                .rope_theta = 100000,
                                .rope_scaling.factor = 1,
                                .tied = true};

/* As eight runs of memory side by side, fetched ahead: one alone is not read as fast as memory can. */
static double sum_of(const float *x, int64_t count) {
  enum { RUNS = 8, WIDTH = 16, AHEAD = 256 };
  float sums[RUNS][WIDTH] = {{0}};
  double sum = 0;
  const int64_t run = count / RUNS / WIDTH * WIDTH;
  for (int64_t i = 0; i < run; i += WIDTH) {
    for (int64_t r = 0; r < RUNS; r++) {
      __builtin_prefetch(x + r * run + i + AHEAD);
      for (int64_t j = 0; j < WIDTH; j++) sums[r][j] += x[r * run + i + j];
    }
  }
  for (int64_t r = 0; r < RUNS; r++)
    for (int64_t j = 0; j < WIDTH; j++) sum += (double)sums[r][j];
  return sum;
}

static double read_s(const float *x, int threads) {
  double begin_s = tri_clock_s(), sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
  for (int64_t t = 0; t < threads; t++) sum += sum_of(x + READ_FLOATS / threads * t, READ_FLOATS / threads);
  if (sum < 0) printf("never\n");
  return tri_clock_s() - begin_s;
}

static double copy_s(const float *x, float *y, int threads) {
  double begin_s = tri_clock_s();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t t = 0; t < threads; t++) {
    const int64_t count = READ_FLOATS / 2 / threads;
    memcpy(y + count * t, x + count * t, (size_t)count * sizeof *x);
  }
  return tri_clock_s() - begin_s;
}

/* The best of some turns; bytes read and bytes written both count. */
static void measure_rates(float *memory, int threads, rates *best) {
  const double bytes = (double)READ_FLOATS * sizeof *memory;
  for (int turn = 0; turn < TURNS; turn++) {
    const double read = bytes / read_s(memory, threads),
                 copy = bytes / copy_s(memory, memory + READ_FLOATS / 2, threads);
    if (read > best->read) best->read = read;
    if (copy > best->copy) best->copy = copy;
  }
}

static double drawn_weight(const void *context, int64_t number) {
  const uint32_t state = (uint32_t)number * 2654435761u;
  (void)context;
  return ((double)(state >> 8) / 8388608.0 - 1.0) * 0.03;
}

/* All sequences by `tokens` each, the likeliest ones; *steps_s is the time of what comes behind the prompts. */
static tri_status write_tokens(tri_generator *generator, const settings *s, int64_t tokens, double *prompts_s,
                               double *steps_s) {
  const tri_sequence_options options = {.sampling = {.repetition_penalty = 1}, .wanted = tokens};
  tri_sequence **sequences = NULL;
  int32_t *ids = NULL;
  bool more = true;
  TRI_TRY(tri_alloc("sequences", (size_t)s->sequences, sizeof(tri_sequence *), &sequences));
  TRI_TRY(tri_alloc("ids", (size_t)s->prompt, sizeof *ids, &ids));
  const double begin_s = tri_clock_s();
  for (int64_t i = 0; i < s->sequences; i++) {
    for (int64_t j = 0; j < s->prompt; j++) ids[j] = (int32_t)((i * 131 + j * 7919 + tokens) % s->shape->vocab_size);
    TRI_TRY(tri_generator_begin(generator, ids, s->prompt, &options, &sequences[i]));
  }
  while (more && tri_sequence_sampled(sequences[s->sequences - 1]) == 0) TRI_TRY(tri_generator_step(generator, &more));
  const double prompts_end_s = tri_clock_s();
  while (more) TRI_TRY(tri_generator_step(generator, &more));
  *prompts_s = prompts_end_s - begin_s;
  *steps_s = tri_clock_s() - prompts_end_s;
  for (int64_t i = 0; i < s->sequences; i++) tri_generator_release(generator, sequences[i]);
  tri_free(ids);
  tri_free(sequences);
  return TRI_OK;
}

static int64_t num_parameters(const tri_model *model) {
  tri_parameter_table *table = NULL;
  if (tri_parameter_table_create(model, NULL, &table) != TRI_OK) return 0;
  const int64_t count = table->num_elements;
  tri_parameter_table_destroy(table);
  return count;
}

static void print(const settings *s, const rates *r, int64_t parameters, double prompts_s, double steps_s) {
  const double steps = (double)(s->tokens - 1), sequences = (double)s->sequences;
  const double bytes = (double)parameters * (double)tri_dtype_bytes(s->precision), rate = bytes * steps / steps_s;
  printf(
      "{\"precision\": \"%s\", \"sequences\": %ld, \"tokens\": %ld, \"tokens_s\": %.2f, \"steps_tokens_s\": %.2f, "
      "\"prompts_s\": %.4f, \"step_ms\": %.3f, \"weights_mb\": %.1f, \"gb_s\": %.2f, \"read_gb_s\": %.2f, "
      "\"copy_gb_s\": %.2f, \"of_read\": %.3f}\n",
      tri_dtype_name(s->precision), (long)s->sequences, (long)s->tokens,
      sequences * (double)s->tokens / (prompts_s + steps_s), sequences * steps / steps_s, prompts_s,
      1e3 * steps_s / steps, bytes / 1e6, rate / 1e9, r->read / 1e9, r->copy / 1e9, rate / r->read);
}

static tri_status measure(const settings *s, const tri_model *model, tri_generator *generator) {
  const int threads = s->threads == 0 ? omp_get_num_procs() : s->threads;
  float *memory = NULL;
  rates best = {0};
  double prompts_s = 0, steps_s = 0;
  TRI_TRY(tri_alloc("memory to read", READ_FLOATS, sizeof *memory, &memory));
  for (int64_t i = 0; i < READ_FLOATS; i++) memory[i] = 1.0f;
  measure_rates(memory, threads, &best);
  TRI_TRY(write_tokens(generator, s, 4, &prompts_s, &steps_s));
  TRI_TRY(write_tokens(generator, s, s->tokens, &prompts_s, &steps_s));
  measure_rates(memory, threads, &best);
  print(s, &best, num_parameters(model), prompts_s, steps_s);
  tri_free(memory);
  return TRI_OK;
}

static tri_status run(const settings *s) {
  tri_model model = *s->shape;
  tri_device *device = NULL;
  tri_runner *runner = NULL;
  tri_generator *generator = NULL;
  const tri_runner_sizes sizes = tri_runner_sizes_for(s->sequences, s->prompt + s->tokens);
  TRI_TRY(tri_model_complete(&model));
  TRI_TRY(tri_device_create(s->device, s->threads, &device));
  TRI_TRY(tri_runner_create(&model, s->precision, &sizes, NULL, NULL, (tri_lent_memory){0}, device, &runner));
  TRI_TRY(tri_generator_create(&model, s->precision, runner, &generator));
  TRI_TRY(write_runner_weights(runner, &model, drawn_weight, NULL));
  TRI_TRY(measure(s, &model, generator));
  tri_generator_destroy(generator);
  tri_runner_destroy(runner);
  tri_device_destroy(device);
  return TRI_OK;
}

int main(int count, char **arguments) {
  tri_spin_limit(arguments);
  const settings s = {
      .precision = count > 1 && strcmp(arguments[1], "bf16") == 0 ? TRI_BF16 : TRI_FP32,
      .sequences = count > 2 ? atoll(arguments[2]) : 1,
      .tokens = count > 3 ? atoll(arguments[3]) : 300,
      .device = count > 4 ? arguments[4] : "cpu",
      .threads = count > 5 ? atoi(arguments[5]) : 0,
      .shape = count > 6 && strcmp(arguments[6], "llama") == 0 ? &llama : &gpt2,
      .prompt = count > 7 ? atoll(arguments[7]) : PROMPT,
  };
  tri_status status = run(&s);
  if (status != TRI_OK) fprintf(stderr, "bench_generate: %s\n", tri_status_message());
  return tri_status_exit(status);
}
