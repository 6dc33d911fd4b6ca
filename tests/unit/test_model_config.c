/* Model descriptions: presets against published numbers of parameters, files, checks of combinations. */
#include "base/file.h"
#include "base/memory.h"
#include "model/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config_expect.h"

static int64_t count_gpt2(const tri_model *m) {
  int64_t c = m->hidden_size;
  int64_t f = m->ffn_size;
  int64_t block = 2 * c + c * 3 * c + 3 * c + c * c + c + 2 * c + c * f + f + f * c + c;
  return m->vocab_size * c * (m->tied ? 1 : 2) + m->max_sequence * c + m->num_layers * block + 2 * c;
}

static int64_t count_llama(const tri_model *m) {
  int64_t c = m->hidden_size;
  int64_t block = c + c * m->head_dim * (2 * m->num_heads + 2 * m->num_kv_heads) + c + 3 * c * m->ffn_size;
  return m->vocab_size * c * (m->tied ? 1 : 2) + m->num_layers * block + c;
}

/* The numbers of parameters are those that Hugging Face reports of the published weights, and for Frontier's models the
 * sizes in the paper's names. */
static void presets_have_their_published_sizes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t low, high;
  } cases[] = {
      {"gpt2-124m", 124439808, 124439808},           {"gpt2-1.5b", 1557611200, 1557611200},
      {"llama-3-8b", 8030261248, 8030261248},        {"llama-3-70b", 70553706496, 70553706496},
      {"llama-3-405b", 405853388800, 405853388800},  {"frontier-1.4b", 1300000000, 1450000000},
      {"frontier-22b", 21500000000, 22500000000},    {"frontier-175b", 174000000000, 176000000000},
      {"frontier-1t", 1000000000000, 1015000000000}, {"gpt2-demo", 10000000, 15000000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model m;
    EXPECT_OK(tri_model_load(cases[i].name, &m));
    assert_string_equal(m.name, cases[i].name);
    int64_t count = m.family == TRI_FAMILY_GPT2 ? count_gpt2(&m) : count_llama(&m);
    assert_in_range(count, cases[i].low, cases[i].high);
  }
}

static void fills_in_by_family(void **state) {
  (void)state;
  tri_model m;
  EXPECT_OK(tri_model_load("gpt2-124m", &m));
  assert_true(m.tied && m.attention_bias && m.num_kv_heads == 12 && m.head_dim == 64 && m.ffn_size == 3072);
  assert_true(m.norm_eps == 1e-5 && m.init_std == 0.02 && m.dropout == 0 && m.activation == TRI_ACTIVATION_GELU_TANH);
  EXPECT_OK(tri_model_load("llama-3-8b", &m));
  assert_true(!m.tied && !m.attention_bias && m.num_kv_heads == 8 && m.head_dim == 128 && m.ffn_size == 14336);
  assert_true(m.rope_theta == 500000 && m.rope_scaling.factor == 8 && m.rope_scaling.low_freq_factor == 1 &&
              m.rope_scaling.high_freq_factor == 4 && m.rope_scaling.original_max_sequence == 8192);
  assert_int_equal(m.max_sequence, 131072);
}

static void completes_what_is_built_by_hand(void **state) {
  (void)state;
  tri_model m = {.family = TRI_FAMILY_LLAMA,
                 .num_layers = 2,
                 .hidden_size = 64,
                 .num_heads = 4,
                 .ffn_size = 100,
                 .vocab_size = 11,
                 .max_sequence = 8};
  EXPECT_OK(tri_model_complete(&m));
  assert_string_equal(m.name, "inline");
  assert_true(m.num_kv_heads == 4 && m.head_dim == 16 && m.norm_eps == 1e-5 && m.init_std == 0.02);
  assert_true(m.rope_theta == 10000 && m.rope_scaling.factor == 1 && !m.tied && !m.attention_bias);
  tri_model again = m;
  EXPECT_OK(tri_model_complete(&again));
  assert_memory_equal(&again, &m, sizeof m);
  tri_model empty = {0};
  EXPECT_FAILS(TRI_BAD_CONFIG, "`num_layers` must be between 1 and 16384, not 0", tri_model_complete(&empty));
}

static void refuses_impossible_models(void **state) {
  (void)state;
  static const tri_model gpt2 = {.family = TRI_FAMILY_GPT2,
                                 .num_layers = 1,
                                 .hidden_size = 768,
                                 .num_heads = 12,
                                 .vocab_size = 10,
                                 .max_sequence = 8};
  static const tri_model llama = {.family = TRI_FAMILY_LLAMA,
                                  .num_layers = 1,
                                  .hidden_size = 768,
                                  .num_heads = 12,
                                  .ffn_size = 32,
                                  .vocab_size = 10,
                                  .max_sequence = 8};
  struct {
    tri_model model;
    const char *message;
  } cases[] = {
      {gpt2,
       "`head_dim` does not fit: num_heads 12 x head_dim 65 = 780, not hidden_size 768; leave it out or choose "
       "numbers whose product fits"},
      {gpt2, "`num_heads` 13 does not divide hidden_size 768: num_heads 13 x head_dim 59 = 767; try num_heads 12"},
      {gpt2,
       "`num_kv_heads` 4 is not num_heads 12, and gpt2 has no grouped-query attention; leave it out or take "
       "`family: llama`"},
      {gpt2, "`dropout` must be at least 0 and below 1, not 1.0"},
      {gpt2, "`rope_theta` is for llama; gpt2 learns its positions"},
      {gpt2, "`rope_scaling` is for llama; gpt2 learns its positions"},
      {gpt2, "`vocab_size` must be between 1 and 2147483647, not -1"},
      {gpt2, "`hidden_size` must be between 1 and 1048576, not 4611686018427387904"},
      {gpt2, "`family` holds 7, which stands for no word"},
      {llama, "`num_kv_heads` 5 does not divide num_heads 12; try 4"},
      {llama, "`ffn_size` is missing; a llama model needs it, for example `ffn_size: 2048`"},
      {llama,
       "`head_dim` 63 (hidden_size / num_heads unless given) is odd, and rotary positions turn pairs; choose an "
       "even one"},
      {llama, "`dropout` is for gpt2; llama has none, so leave it out"},
      {llama, "`activation` is for gpt2; llama has SwiGLU, so leave it out"},
      {llama, "`rope_scaling.high_freq_factor` 1 must be above low_freq_factor 1"},
      {llama, "`rope_scaling.factor` must be between 1 and 1000000, not 0.5"},
      {llama, "`head_dim` is too large: num_heads 65536 x head_dim 65536 is above 1048576"},
      {llama, "`norm_eps` must be above 0, not -1.0"},
  };
  cases[0].model.head_dim = 65;
  cases[1].model.num_heads = 13;
  cases[2].model.num_kv_heads = 4;
  cases[3].model.dropout = 1;
  cases[4].model.rope_theta = 5;
  cases[5].model.rope_scaling.factor = 2;
  cases[6].model.vocab_size = -1;
  cases[7].model.hidden_size = INT64_C(1) << 62;
  cases[8].model.family = (tri_family)7;
  cases[9].model.num_kv_heads = 5;
  cases[10].model.ffn_size = 0;
  cases[11].model.head_dim = 63;
  cases[12].model.dropout = 0.1;
  cases[13].model.activation = TRI_ACTIVATION_GELU_ERF;
  cases[14].model.rope_scaling = (tri_rope_scaling){2, 1, 1, 8};
  cases[15].model.rope_scaling.factor = 0.5;
  cases[16].model.num_heads = cases[16].model.head_dim = 65536;
  cases[17].model.norm_eps = -1;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model before = cases[i].model;
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, tri_model_complete(&cases[i].model));
    assert_memory_equal(&before, &cases[i].model, sizeof before); /* outputs only on success */
  }
}

static void llama_heads_may_differ_from_the_width(void **state) {
  (void)state;
  tri_model m = {.family = TRI_FAMILY_LLAMA,
                 .num_layers = 1,
                 .hidden_size = 96,
                 .num_heads = 5,
                 .head_dim = 32,
                 .ffn_size = 32,
                 .vocab_size = 10,
                 .max_sequence = 8};
  EXPECT_OK(tri_model_complete(&m));
  assert_int_equal(m.head_dim, 32);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int enter_folder(void **state) {
  char *folder = strdup("/tmp/trireme-test-model-XXXXXX");
  *state = folder;
  return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state) {
  int failed = chdir("/") != 0 || tri_directory_remove(*state) != TRI_OK;
  free(*state);
  return failed;
}

static void write_file(const char *path, const char *text) { EXPECT_OK(tri_file_replace(path, text, strlen(text))); }

#define SMALL "family: gpt2\nnum_layers: 2\nhidden_size: 64\nnum_heads: 4\nvocab_size: 99\nmax_sequence: 16\n"

static void reads_files(void **state) {
  (void)state;
  tri_model m;
  write_file("small.yaml", SMALL);
  EXPECT_OK(tri_model_load("small.yaml", &m));
  assert_string_equal(m.name, "small");
  assert_int_equal(m.hidden_size, 64);
  EXPECT_OK(tri_model_load("./small.yaml", &m));
  write_file("named.yaml", SMALL "name: mine\ntied: false\n");
  EXPECT_OK(tri_model_load("named.yaml", &m));
  assert_string_equal(m.name, "mine");
  assert_false(m.tied);
}

static void names_the_file_at_fault(void **state) {
  (void)state;
  tri_model m;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"family: gpt2\nlayers: 2\n",
       "`layers` is not a key of a model file at line 2 of m.yaml; did you mean `num_layers`?"},
      {"family: bert\n", "`family` at line 1 of m.yaml must be one of gpt2, llama, not `bert`"},
      {"family: gpt2\n", "`num_layers` is missing from m.yaml; add `num_layers:`, for example `num_layers: 12`"},
      {"[]\n", "a model file at line 1 of m.yaml must be a mapping of keys such as `num_layers: 12`"},
      {SMALL "attention_bias: false\n",
       "`attention_bias` at line 7 of m.yaml cannot be false in the family gpt2, which always has these biases"},
      {SMALL "head_dim: 15\n",
       "`head_dim` does not fit: num_heads 4 x head_dim 15 = 60, not hidden_size 64; leave it out or choose numbers "
       "whose "
       "product fits (line 7 of m.yaml)"},
      {SMALL "rope_scaling:\n  factor: 2\n",
       "`rope_scaling` is for llama; gpt2 learns its positions (line 7 of m.yaml)"},
      {SMALL "rope_scaling:\n  facto: 2\n",
       "`facto` is not a key of `rope_scaling:` at line 8 of m.yaml; did you mean `factor`?"},
      {"", "m.yaml is empty"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_file("m.yaml", cases[i].text);
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, tri_model_load("m.yaml", &m));
  }
  EXPECT_FAILS(TRI_BAD_CONFIG, "the model is a file that is not there: none.yaml (relative to the current directory)",
               tri_model_load("none.yaml", &m));
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "`gpt2-125m` is not a model preset; did you mean `gpt2-124m`? They are ",
                    tri_model_load("gpt2-125m", &m));
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "llama-3-405b, llama-3-70b, llama-3-8b", tri_model_load("zzzzzz", &m));
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "`..` is not a model preset", tri_model_load("..", &m));
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "`` is not a model preset", tri_model_load("", &m));
}

static void finds_presets_of_the_site_first(void **state) {
  (void)state;
  tri_model m;
  EXPECT_OK(tri_directory_create("site/models"));
  write_file("site/models/gpt2-124m.yaml", SMALL);
  write_file("site/models/ours.yaml", SMALL);
  setenv("TRIREME_CONFIGS", "site", 1);
  tri_status shadowed = tri_model_load("gpt2-124m", &m);
  int64_t layers = m.num_layers;
  tri_status other = tri_model_load("gpt2-1.5b", &m);
  tri_status unknown = tri_model_load("ourz", &m);
  unsetenv("TRIREME_CONFIGS");
  EXPECT_OK(shadowed);
  assert_int_equal(layers, 2);
  EXPECT_OK(other);
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "did you mean `ours`?", unknown);
}

static void prints_what_loads_back(void **state) {
  (void)state;
  static const char *const names[] = {"gpt2-124m", "llama-3-405b", "frontier-1t"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tri_model m;
    tri_model back;
    char *text = NULL;
    EXPECT_OK(tri_model_load(names[i], &m));
    EXPECT_OK(tri_model_print(&m, &text));
    write_file("printed.yaml", text);
    tri_free(text);
    EXPECT_OK(tri_model_load("printed.yaml", &back));
    assert_memory_equal(&back, &m, sizeof m);
  }
}

int main(void) {
#define IN_FOLDER(TEST) cmocka_unit_test_setup_teardown(TEST, enter_folder, leave_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(presets_have_their_published_sizes),
      cmocka_unit_test(fills_in_by_family),
      cmocka_unit_test(completes_what_is_built_by_hand),
      cmocka_unit_test(refuses_impossible_models),
      cmocka_unit_test(llama_heads_may_differ_from_the_width),
      IN_FOLDER(reads_files),
      IN_FOLDER(names_the_file_at_fault),
      IN_FOLDER(finds_presets_of_the_site_first),
      IN_FOLDER(prints_what_loads_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
