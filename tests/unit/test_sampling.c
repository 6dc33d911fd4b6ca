/* Sampling of tokens: compared with probabilities computed by hand, and with frequencies over many positions. */
#include "check.h"
#include "generation/sampling.h"

#include <math.h>

enum { VOCAB = 5, DRAWS = 40000 };

/* Computes the frequency of each token over many positions. */
static void draw(const tri_sampling *sampling, double share[VOCAB]) {
  const double logits[VOCAB] = {log(0.4), log(0.1), log(0.3), log(0.05), log(0.15)};
  tri_candidate scratch[VOCAB];
  for (int i = 0; i < VOCAB; i++) share[i] = 0;
  for (int64_t position = 0; position < DRAWS; position++) {
    share[tri_sample_token(logits, VOCAB, sampling, position, scratch)] += 1.0 / DRAWS;
  }
}

static void check(tri_sampling sampling, const double expected[VOCAB]) {
  double share[VOCAB];
  draw(&sampling, share);
  for (int i = 0; i < VOCAB; i++) {
    if (expected[i] == 0) assert_true(share[i] == 0);
    assert_true(fabs(share[i] - expected[i]) < 0.015); /* at least six standard deviations */
  }
}

static void test_frequencies(void **state) {
  (void)state;
  check((tri_sampling){.temperature = 1, .top_p = 1, .seed = 1}, (double[]){0.4, 0.1, 0.3, 0.05, 0.15});
  check((tri_sampling){.temperature = 0, .top_p = 1}, (double[]){1, 0, 0, 0, 0});
  check((tri_sampling){.temperature = 1, .top_k = 1, .top_p = 1}, (double[]){1, 0, 0, 0, 0});
  check((tri_sampling){.temperature = 1, .top_k = 2, .top_p = 1, .seed = 2}, (double[]){4 / 7.0, 0, 3 / 7.0, 0, 0});
  /* 0.4 + 0.3 is less than 0.75, so 0.15 is included. */
  check((tri_sampling){.temperature = 1, .top_p = 0.75, .seed = 3},
        (double[]){0.4 / 0.85, 0, 0.3 / 0.85, 0, 0.15 / 0.85});
  check((tri_sampling){.temperature = 1, .top_p = 0.01, .seed = 3}, (double[]){1, 0, 0, 0, 0});
  /* top-p applies to the tokens that top-k leaves: 0.4 is more than half of 0.7. */
  check((tri_sampling){.temperature = 1, .top_k = 2, .top_p = 0.5, .seed = 6}, (double[]){1, 0, 0, 0, 0});
  /* min-p is relative to 0.4: 0.3 is the last probability above 0.24. */
  check((tri_sampling){.temperature = 1, .top_p = 1, .min_p = 0.6, .seed = 5}, (double[]){4 / 7.0, 0, 3 / 7.0, 0, 0});
  check((tri_sampling){.temperature = 1, .top_p = 1, .min_p = 1}, (double[]){1, 0, 0, 0, 0});
  double squares = 0.16 + 0.01 + 0.09 + 0.0025 + 0.0225;
  check((tri_sampling){.temperature = 0.5, .top_p = 1, .seed = 4},
        (double[]){0.16 / squares, 0.01 / squares, 0.09 / squares, 0.0025 / squares, 0.0225 / squares});
}

static void test_the_seed_decides(void **state) {
  (void)state;
  const double logits[VOCAB] = {0, 0, 0, 0, 0};
  tri_candidate scratch[VOCAB];
  tri_sampling one = {.temperature = 1, .top_p = 1, .seed = 1}, two = one;
  tri_sampling other = one;
  int differ = 0, of_samples = 0;
  two.seed = 2;
  other.sample = 1;
  for (int64_t position = 0; position < 100; position++) {
    int32_t first = tri_sample_token(logits, VOCAB, &one, position, scratch);
    assert_int_equal(first, tri_sample_token(logits, VOCAB, &one, position, scratch));
    differ += first != tri_sample_token(logits, VOCAB, &two, position, scratch);
    of_samples += first != tri_sample_token(logits, VOCAB, &other, position, scratch);
  }
  assert_true(differ > 50);
  assert_true(of_samples > 50);
}

/* The first tokens of two prompts are equal as often as in independent draws: here in a third of the cases, within five
 * standard deviations. */
static void test_prompts_are_drawn_apart(void **state) {
  (void)state;
  enum { TEXTS = 9000, SAMPLES = 10 };
  const double logits[3] = {0, 0, 0};
  const int32_t ids[2][3] = {{5, 6, 7}, {5, 6, 8}};
  tri_candidate scratch[3];
  int equal = 0, of_samples = 0, of_positions = 0;
  for (uint64_t i = 0; i < TEXTS; i++) {
    tri_sampling first = {.temperature = 1, .top_p = 1, .seed = i / SAMPLES, .sample = i % SAMPLES}, second = first;
    first.prompt = tri_sampling_prompt(ids[0], 3);
    second.prompt = tri_sampling_prompt(ids[1], 3);
    const int32_t drawn = tri_sample_token(logits, 3, &first, 3, scratch);
    equal += drawn == tri_sample_token(logits, 3, &second, 3, scratch);
    of_positions += drawn == tri_sample_token(logits, 3, &first, 4, scratch);
    first.sample += SAMPLES;
    of_samples += drawn == tri_sample_token(logits, 3, &first, 3, scratch);
  }
  const double most = 5 * sqrt(TEXTS * (1 / 3.0) * (2 / 3.0));
  assert_true(fabs(equal - TEXTS / 3.0) < most);
  assert_true(fabs(of_samples - TEXTS / 3.0) < most);
  assert_true(fabs(of_positions - TEXTS / 3.0) < most);
}

/* The FNV-1a hash of the bytes of the ids, lowest byte first, compared with known values: it is the same on every
 * machine. */
static void test_number_of_a_prompt(void **state) {
  (void)state;
  const int32_t ids[] = {1, 256, 100000, -1};
  assert_true(tri_sampling_prompt(ids, 0) == UINT64_C(14695981039346656037));
  assert_true(tri_sampling_prompt(ids, 4) == UINT64_C(18030886244614887868));
  assert_true(tri_sampling_prompt(ids, 1) != tri_sampling_prompt(ids + 1, 1));
}

static void test_far_logits(void **state) {
  (void)state;
  const double logits[3] = {-1e6, 1e6, -INFINITY};
  tri_candidate scratch[3];
  tri_sampling sampling = {.temperature = 1e-3, .top_p = 0.9, .seed = 1};
  assert_int_equal(tri_sample_token(logits, 3, &sampling, 0, scratch), 1);
}

/* As in transformers' RepetitionPenaltyLogitsProcessor, a token is penalised once, however often it occurs. */
static void test_repetition(void **state) {
  (void)state;
  const double logits[VOCAB] = {2, -2, 0, 3, -3}, expected[VOCAB] = {1, -4, 0, 3, -3};
  const int32_t said[] = {0, 1, 0, 2, 0};
  const tri_sampling sampling = {.repetition_penalty = 2};
  tri_candidate scratch[VOCAB];
  double out[VOCAB];
  memcpy(out, logits, sizeof out);
  tri_sampling_adjust(&sampling, &(tri_sampling_text){said, 2, 5}, scratch, out);
  assert_memory_equal(out, expected, sizeof out);
  memcpy(out, logits, sizeof out);
  tri_sampling_adjust(&sampling, &(tri_sampling_text){said, 0, 0}, scratch, out);
  assert_memory_equal(out, logits, sizeof out);
}

/* ---- biases and penalties ---------------------------------------------------------------------------------------- */

enum { WORDS = 40, LENGTH = 30, GIVEN = 12 };

static double adjusted(const tri_sampling *sampling, const tri_sampling_text *text, double logit, int32_t id) {
  int64_t occurs = 0, sampled = 0;
  for (int64_t i = 0; i < text->count; i++) {
    occurs += text->ids[i] == id;
    sampled += text->ids[i] == id && i >= text->given;
  }
  for (int i = 0; i < sampling->num_bias; i++) logit += sampling->bias[i].id == id ? sampling->bias[i].bias : 0;
  if (occurs > 0) logit = logit > 0 ? logit / sampling->repetition_penalty : logit * sampling->repetition_penalty;
  return logit - sampling->frequency_penalty * (double)sampled - sampling->presence_penalty * (sampled > 0);
}

/* Returns the log-probability of token `id`. */
static double log_softmax(const double logits[WORDS], double temperature, int32_t id) {
  double sum = 0;
  for (int i = 0; i < WORDS; i++) sum += exp(logits[i] / temperature);
  return logits[id] / temperature - log(sum);
}

static int32_t first_maximum(const double logits[WORDS]) {
  int32_t best = 0;
  for (int32_t i = 1; i < WORDS; i++) best = logits[i] > logits[best] ? i : best;
  return best;
}

/* Compares the numbers of a sampled token with formulas: sampled_log_prob in the distribution with biases and
 * penalties, the others in the model's. */
static void check_adjusted(const tri_sampling *sampling, const float logits[WORDS], const tri_sampling_text *text,
                           double shares[WORDS]) {
  tri_candidate candidates[WORDS];
  double memory[2][WORDS], model[WORDS], expected[WORDS], entropy = 0;
  tri_sampled out = {.id = -1};
  const tri_sampling_scratch scratch = {candidates, memory[0], memory[1]};
  CHECK_OK(tri_sample_next(logits, TRI_FP32, WORDS, sampling, text, &(tri_sampling_request){.likeliest = 3}, &scratch,
                           &out));
  for (int i = 0; i < WORDS; i++) {
    model[i] = (double)logits[i];
    expected[i] = adjusted(sampling, text, model[i], i);
  }
  for (int i = 0; i < WORDS; i++) entropy -= exp(log_softmax(model, 1, i)) * log_softmax(model, 1, i);
  assert_true(fabs(out.log_prob - log_softmax(model, 1, out.id)) < 1e-12);
  assert_true(fabs(out.entropy - entropy) < 1e-12);
  assert_int_equal(out.likeliest[0].id, first_maximum(model));
  if (sampling->temperature <= 0) {
    assert_int_equal(out.id, first_maximum(expected));
    assert_true(out.sampled_log_prob == 0);
    return;
  }
  assert_true(fabs(out.sampled_log_prob - log_softmax(expected, sampling->temperature, out.id)) < 1e-12);
  shares[out.id] += 1;
}

/* Samples at many positions; the share of each token is its probability. */
static void check_penalties(const tri_sampling *of) {
  enum { TEXTS = 20000 };
  float logits[WORDS];
  int32_t ids[LENGTH];
  double shares[WORDS] = {0}, expected[WORDS];
  tri_sampling sampling = *of;
  for (int i = 0; i < WORDS; i++) logits[i] = (float)(3 * sin(7.0 * i));
  for (int i = 0; i < LENGTH; i++) ids[i] = i * i % (i < GIVEN ? 40 : 7);
  const tri_sampling_text text = {ids, GIVEN, LENGTH};
  for (uint64_t i = 0; i < (of->temperature > 0 ? TEXTS : 1); i++) {
    sampling.sample = i;
    check_adjusted(&sampling, logits, &text, shares);
  }
  for (int i = 0; i < WORDS; i++) expected[i] = adjusted(of, &text, (double)logits[i], i);
  for (int i = 0; i < WORDS && of->temperature > 0; i++)
    assert_true(fabs(shares[i] / TEXTS - exp(log_softmax(expected, of->temperature, i))) < 0.02);
}

static void test_penalties(void **state) {
  (void)state;
  static const tri_logit_bias bias[] = {{8, 2.5}, {33, -100}, {8, 1}, {2, -0.5}};
  for (int greedy = 0; greedy < 2; greedy++) {
    const double temperature = greedy ? 0 : 0.8;
    const tri_sampling all[] = {
        {.presence_penalty = 0.7, .repetition_penalty = 1},
        {.frequency_penalty = 0.3, .repetition_penalty = 1},
        {.frequency_penalty = -0.3, .presence_penalty = -1, .repetition_penalty = 1},
        {.bias = bias, .num_bias = 4, .repetition_penalty = 1},
        {.bias = bias, .num_bias = 4, .frequency_penalty = 0.2, .presence_penalty = 0.4, .repetition_penalty = 1.3}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      tri_sampling sampling = all[i];
      sampling.temperature = temperature;
      sampling.top_p = 1;
      assert_false(tri_sampling_is_whole(&sampling));
      check_penalties(&sampling);
    }
  }
  assert_true(tri_sampling_is_whole(&(tri_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1}));
}

/* A banned token is never sampled, even if it is the likeliest, and its log-probability stays the model's. */
static void test_banned(void **state) {
  (void)state;
  const float logits[3] = {9, 1, 1};
  const tri_logit_bias bias = {0, -100};
  const tri_sampling sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .bias = &bias, .num_bias = 1};
  tri_candidate candidates[3];
  double memory[2][3];
  const tri_sampling_scratch scratch = {candidates, memory[0], memory[1]};
  for (int64_t position = 0; position < 1000; position++) {
    tri_sampled out;
    CHECK_OK(tri_sample_next(logits, TRI_FP32, 3, &sampling, &(tri_sampling_text){NULL, position, position},
                             &(tri_sampling_request){.likeliest = 1}, &scratch, &out));
    assert_true(out.id > 0);
    assert_int_equal(out.likeliest[0].id, 0);
    assert_true(out.likeliest[0].log_prob > -0.01 && out.log_prob < -8);
    assert_true(fabs(out.sampled_log_prob - log(0.5)) < 1e-12);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frequencies),
      cmocka_unit_test(test_the_seed_decides),
      cmocka_unit_test(test_prompts_are_drawn_apart),
      cmocka_unit_test(test_number_of_a_prompt),
      cmocka_unit_test(test_far_logits),
      cmocka_unit_test(test_repetition),
      cmocka_unit_test(test_penalties),
      cmocka_unit_test(test_banned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
