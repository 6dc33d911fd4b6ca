/* Model descriptions: presets against published numbers of parameters, files, checks of combinations. */
#include "base/memory.h"
#include "files/file.h"
#include "model/family.h"
#include "model/model_config.h"
#include "model/parameters.h"
#include "model/window.h"

#include <math.h>
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

/* Returns the number of parameters, with norms of q and k of that many weights, and with experts or without. */
static int64_t count_llama(const tri_model *m, int64_t qk_norm) {
  int64_t c = m->hidden_size, dense = m->num_experts == 0 ? m->num_layers : m->dense_layers;
  int64_t block = c + c * m->head_dim * (2 * m->num_heads + 2 * m->num_kv_heads) + qk_norm + c;
  int64_t router = m->num_experts * (c + (m->router_bias ? 1 : 0));
  int64_t experts = router + (m->num_experts + m->shared_experts) * 3 * c * m->expert_ffn_size;
  return m->vocab_size * c * (m->tied ? 1 : 2) + m->num_layers * block + dense * 3 * c * m->ffn_size +
         (m->num_layers - dense) * experts + c;
}

static int64_t count(const tri_model *m) {
  const int64_t d = m->head_dim;
  switch (m->family) {
    case TRI_FAMILY_GPT2: return count_gpt2(m);
    case TRI_FAMILY_LLAMA:
    case TRI_FAMILY_MIXTRAL: return count_llama(m, 0);
    case TRI_FAMILY_OLMOE: return count_llama(m, (m->num_heads + m->num_kv_heads) * d);
    case TRI_FAMILY_QWEN3:
    case TRI_FAMILY_QWEN3_MOE:
    case TRI_FAMILY_DOTS1: return count_llama(m, 2 * d);
    case TRI_FAMILY_GEMMA:
    case TRI_FAMILY_GEMMA2:
    case TRI_FAMILY_GEMMA3:
    case TRI_FAMILY_PHI:
    case TRI_FAMILY_PHI3:
    case TRI_FAMILY_GPT_NEOX:
    case TRI_FAMILY_OLMO2:
    case TRI_FAMILY_SMOLLM3:
    case TRI_FAMILY_FALCON:
    case TRI_FAMILY_STABLELM:
    case TRI_FAMILY_GRANITE:
    case TRI_FAMILY_OPT:
    case TRI_FAMILY_STARCODER2: break;
  }
  return -1; /* compared with published sizes only */
}

/* The numbers of parameters that Hugging Face reports for the published weights. */
static void newer_presets_have_their_published_sizes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count;
  } cases[] = {
      {"starcoder2-3b", 3030371328},  {"starcoder2-7b", 7173923840}, {"starcoder2-15b", 15957889024},
      {"gemma-2b", 2506172416},       {"gemma-7b", 8537680896},      {"gemma2-2b", 2614341888},
      {"gemma2-9b", 9241705984},      {"gemma2-27b", 27227128320},   {"gemma3-270m", 268098176},
      {"gemma3-1b", 999885952},       {"phi-2", 2779683840},         {"phi-3-mini", 3821079552},
      {"phi-4", 14659507200},         {"pythia-160m", 162322944},    {"pythia-1.4b", 1414647808},
      {"gpt-neox-20b", 20554567680},  {"olmo2-7b", 7298617344},      {"smollm3-3b", 3075098624},
      {"falcon-7b", 6921720704},      {"falcon-40b", 41303293952},   {"stablelm-3b", 2795443200},
      {"stablelm2-1.6b", 1644515328}, {"granite3-2b", 2533531648},   {"granite3-8b", 8170848256},
      {"opt-125m", 125239296},        {"opt-6.7b", 6658473984},      {"mistral-7b", 7241732096},
      {"qwen2.5-7b", 7615616512},     {"llama-2-7b", 6738415616},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model m;
    tri_parameter_table *table = NULL;
    EXPECT_OK(tri_model_load(cases[i].name, &m));
    assert_string_equal(m.name, cases[i].name);
    EXPECT_OK(tri_parameter_table_create(&m, NULL, &table));
    assert_int_equal(table->num_values, cases[i].count);
    tri_parameter_table_destroy(table);
  }
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
      {"mixtral-8x7b", 46702792704, 46702792704},    {"mixtral-8x22b", 140620634112, 140620634112},
      {"qwen3-0.6b", 596049920, 596049920},          {"qwen3-30b-a3b", 30532122624, 30532122624},
      {"olmoe-1b-7b", 6919161856, 6919161856},       {"qwen3-235b-a22b", 235093634560, 235093634560},
      {"dots1", 142000000000, 143000000000},         {"deepseek-v3-ordinary-attention", 671000000000, 676000000000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model m;
    EXPECT_OK(tri_model_load(cases[i].name, &m));
    assert_string_equal(m.name, cases[i].name);
    assert_in_range(count(&m), cases[i].low, cases[i].high);

    tri_parameter_table *table = NULL;
    EXPECT_OK(tri_parameter_table_create(&m, NULL, &table));
    assert_int_equal(table->num_values, count(&m));
    tri_parameter_table_destroy(table);
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
      {gpt2, "`rope_theta` is for llama and 17 others; gpt2 has none, so leave it out"},
      {gpt2, "`rope_scaling` is for llama and 17 others; gpt2 has none, so leave it out"},
      {gpt2, "`vocab_size` must be between 1 and 2147483647, not -1"},
      {gpt2, "`hidden_size` must be between 1 and 1048576, not 4611686018427387904"},
      {gpt2, "`family` holds 20, which stands for no word"},
      {llama, "`num_kv_heads` 5 does not divide num_heads 12; try 4"},
      {llama, "`ffn_size` is missing; a llama model needs it, for example `ffn_size: 2048`"},
      {llama,
       "`head_dim` 63 (hidden_size / num_heads unless given) is odd, and rotary positions rotate pairs; choose an "
       "even one"},
      {llama, "`dropout` is for gpt2 and 5 others; llama has none, so leave it out"},
      {llama, "`residual` is for gpt_neox, falcon and stablelm; llama has none, so leave it out"},
      {llama, "`rope_scaling.high_freq_factor` 1 must be above low_freq_factor 1"},
      {llama, "`rope_scaling.factor` must be between 1 and 1000000, not 0.5"},
      {llama, "`head_dim` is too large: num_heads 65536 x head_dim 65536 is above 1048576"},
      {llama, "`norm_eps` must be above 0, not -1.0"},
      {llama, "`rope_scaling.type` dynamic needs heads with more than 2 rotated components; use linear"},
      {llama, "`rope_scaling.beta_fast` 0.5 must not be below beta_slow 1"},
      {llama, "`rope_theta` 1 must be above 1 for rope_scaling.type yarn"},
      {gpt2, "`rope_scaling` is for llama and 17 others; gpt2 has none, so leave it out"},
      {gpt2, "`window` is for llama and 9 others; gpt2 has none, so leave it out"},
      {llama, "`window` must be between 0 and 1073741824, not -3"},
      {llama, "`window_layers` is `0`, and `window` is not set; set it (`window: 4096`)"},
      {llama, "`window_layers` names layer 4, and the model's layers are 0 to 0 (num_layers)"},
      {llama, "`num_experts` must be between 0 and 1024, not 1025"},
      {llama, "`experts_per_token` must be between 0 and 64, not 65"},
      {llama, "`z_loss` must be between 0 and 1000000, not -1.0"},
      {llama,
       "`rope_scaling.short_factor` has 0 numbers and needs 32, one for each pair of the 64 components of a "
       "head that rotate"},
      {llama,
       "`output_bias` goes with `attention_bias: true` and without a window: a config.json cannot express anything "
       "else"},
      {gpt2, "`output_bias` is for llama; gpt2 has none, so leave it out"},
      {llama, "`rope_scaling.long_factor` must be between 1e-06 and 1000000, not -2.0"},
      {llama,
       "`mlp_bias` goes with biases on all products of attention or on none (`attention_bias`, `output_bias`) and "
       "without a window: a config.json cannot express anything else"},
      {llama,
       "`mlp_bias` goes with biases on all products of attention or on none (`attention_bias`, `output_bias`) and "
       "without a window: a config.json cannot express anything else"},
      {gpt2, "`mlp_bias` is for llama, smollm3 and granite; gpt2 has none, so leave it out"},
  };
  cases[0].model.head_dim = 65;
  cases[1].model.num_heads = 13;
  cases[2].model.num_kv_heads = 4;
  cases[3].model.dropout = 1;
  cases[4].model.rope_theta = 5;
  cases[5].model.rope_scaling.factor = 2;
  cases[6].model.vocab_size = -1;
  cases[7].model.hidden_size = INT64_C(1) << 62;
  cases[8].model.family = (tri_family)20;
  cases[9].model.num_kv_heads = 5;
  cases[10].model.ffn_size = 0;
  cases[11].model.head_dim = 63;
  cases[12].model.dropout = 0.1;
  cases[13].model.residual = TRI_RESIDUAL_PARALLEL;
  cases[14].model.rope_scaling =
      (tri_rope_scaling){.factor = 2, .low_freq_factor = 1, .high_freq_factor = 1, .original_max_sequence = 8};
  cases[15].model.rope_scaling.factor = 0.5;
  cases[16].model.num_heads = cases[16].model.head_dim = 65536;
  cases[17].model.norm_eps = -1;
  cases[18].model.rope_scaling.type = TRI_ROPE_DYNAMIC;
  cases[18].model.head_dim = 2;
  cases[19].model.rope_scaling.type = TRI_ROPE_YARN;
  cases[19].model.rope_scaling.beta_fast = 0.5;
  cases[20].model.rope_scaling.type = TRI_ROPE_YARN;
  cases[20].model.rope_theta = 1;
  cases[21].model.rope_scaling.type = TRI_ROPE_YARN;
  cases[22].model.window = 9;
  cases[23].model.window = -3;
  snprintf(cases[24].model.window_layers, sizeof cases[24].model.window_layers, "0");
  cases[25].model.window = 9;
  snprintf(cases[25].model.window_layers, sizeof cases[25].model.window_layers, "0, 2-4");
  cases[26].model.num_experts = 1025;
  cases[27].model.experts_per_token = 65;
  cases[28].model.z_loss = -1;
  cases[29].model.rope_scaling.type = TRI_ROPE_LONG;
  cases[30].model.output_bias = cases[31].model.output_bias = true;
  cases[32].model.rope_scaling.long_factor[0] = -2;
  cases[33].model.mlp_bias = cases[34].model.mlp_bias = cases[35].model.mlp_bias = true;
  cases[33].model.attention_bias = true;
  cases[34].model.window = 9;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model before = cases[i].model;
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, tri_model_complete(&cases[i].model));
    assert_memory_equal(&before, &cases[i].model, sizeof before); /* outputs only on success */
  }
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

static tri_model with_experts(tri_family family) {
  return (tri_model){.family = family,
                     .num_layers = 4,
                     .hidden_size = 768,
                     .num_heads = 12,
                     .vocab_size = 10,
                     .max_sequence = 8,
                     .num_experts = 8,
                     .experts_per_token = 2,
                     .expert_ffn_size = 32};
}

static void refuses(tri_model m, const char *message) {
  const tri_model before = m;
  EXPECT_FAILS(TRI_BAD_CONFIG, message, tri_model_complete(&m));
  assert_memory_equal(&before, &m, sizeof m);
}

#define REFUSES(FAMILY, FIELD, VALUE, MESSAGE)                                                                         \
  do {                                                                                                                 \
    tri_model m_ = FAMILY;                                                                                             \
    m_.FIELD = VALUE;                                                                                                  \
    refuses(m_, MESSAGE);                                                                                              \
  } while (0)

static void refuses_impossible_experts(void **state) {
  (void)state;
  const tri_model mixtral = with_experts(TRI_FAMILY_MIXTRAL), qwen = with_experts(TRI_FAMILY_QWEN3_MOE);
  const tri_model olmoe = with_experts(TRI_FAMILY_OLMOE), dots = with_experts(TRI_FAMILY_DOTS1);
  REFUSES(mixtral, num_experts, 0, "`num_experts` is missing; mixtral needs it, for example `num_experts: 8`");
  REFUSES(dots, experts_per_token, 0,
          "`experts_per_token` is missing; dots1 needs it, for example `experts_per_token: 2`");
  REFUSES(olmoe, expert_ffn_size, 0,
          "`expert_ffn_size` is missing; olmoe needs it, for example `expert_ffn_size: 768`");
  REFUSES(mixtral, experts_per_token, 9, "`experts_per_token` 9 is above num_experts 8");
  REFUSES(mixtral, router_groups, 3, "`router_groups` 3 does not divide num_experts 8; try 2");
  REFUSES(mixtral, router_kept_groups, 2, "`router_kept_groups` 2 is above router_groups 1");
  REFUSES(mixtral, expert_ffn_size, 1 << 20,
          "`expert_ffn_size` is too large: 1048576 x (num_experts 8 + shared_experts 0) is above 4194304");
  REFUSES(mixtral, shared_experts, 1, "`shared_experts` is for dots1; mixtral has none, so leave it out");
  REFUSES(olmoe, dense_layers, 1, "`dense_layers` is for qwen3_moe and dots1; olmoe has none, so leave it out");
  REFUSES(olmoe, ffn_size, 99,
          "`ffn_size` is of layers without experts, and olmoe has none; leave it out (an expert's width is "
          "expert_ffn_size)");
  REFUSES(qwen, dense_layers, 1, "`ffn_size` is missing; a qwen3_moe model needs it, for example `ffn_size: 2048`");
  REFUSES(qwen, balance, TRI_BALANCE_EXPERTS_BIAS,
          "`balance: bias` updates the bias of the router, which has none; set router_bias: true");
  REFUSES(qwen, balance_rate, 0.5,
          "`balance_rate` is for `balance: sequence` or `bias`, and balance is none; leave it out");
  REFUSES(mixtral, attention_bias, true,
          "`attention_bias` is for gpt2 and 17 others; mixtral has none, so leave it out");
  REFUSES(olmoe, window, 9, "`window` is for llama and 9 others; olmoe has none, so leave it out");
  REFUSES(olmoe, head_dim, 32,
          "`head_dim` does not fit: num_heads 12 x head_dim 32 = 384, not hidden_size 768; leave it out or choose "
          "numbers whose product fits");
  REFUSES(qwen, router_scale, -1, "`router_scale` must be above 0 and at most 1000000, not -1.0");
  tri_model m = dots;
  m.dense_layers = 5;
  m.ffn_size = 16;
  refuses(m, "`dense_layers` 5 is above num_layers 4");
  m = dots;
  m.router_groups = 4;
  m.router_kept_groups = 2;
  m.experts_per_token = 5;
  refuses(m,
          "`experts_per_token` 5 is above the 4 experts of the groups that are kept: router_kept_groups 2 of "
          "router_groups 4, of num_experts 8");
  m.experts_per_token = 3;
  m.router_quota = true;
  refuses(m,
          "`experts_per_token` 3 is not a multiple of router_kept_groups 2, and router_quota takes equally many "
          "from each of these groups; try 4");
  m = mixtral;
  m.window = 9;
  snprintf(m.window_layers, sizeof m.window_layers, "1-2");
  refuses(m, "`window_layers` is `1-2`; in mixtral all layers have the window; leave it out");
}

static void dense_families_take_no_experts(void **state) {
  (void)state;
  const tri_model gpt2 = {.family = TRI_FAMILY_GPT2,
                          .num_layers = 1,
                          .hidden_size = 768,
                          .num_heads = 12,
                          .vocab_size = 10,
                          .max_sequence = 8};
  tri_model qwen = gpt2;
  qwen.family = TRI_FAMILY_QWEN3;
  qwen.ffn_size = 32;
#define IS_FOR "is for mixtral, qwen3_moe, olmoe and dots1; "
  REFUSES(gpt2, num_experts, 8, "`num_experts` " IS_FOR "gpt2 has none, so leave it out");
  REFUSES(qwen, num_experts, 8, "`num_experts` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, experts_per_token, 8, "`experts_per_token` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, expert_ffn_size, 8, "`expert_ffn_size` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, shared_experts, 8, "`shared_experts` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, dense_layers, 1, "`dense_layers` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_scoring, TRI_ROUTER_SIGMOID, "`router_scoring` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_groups, 2, "`router_groups` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_kept_groups, 2, "`router_kept_groups` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_quota, true, "`router_quota` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_normalised, true, "`router_normalised` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_scale, 2, "`router_scale` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, router_bias, true, "`router_bias` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, balance, TRI_BALANCE_EXPERTS_SEQUENCE, "`balance` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, balance_rate, 1, "`balance_rate` " IS_FOR "qwen3 has none, so leave it out");
  REFUSES(qwen, z_loss, 1, "`z_loss` " IS_FOR "qwen3 has none, so leave it out");
}

static void experts_have_defaults(void **state) {
  (void)state;
  tri_model m = with_experts(TRI_FAMILY_QWEN3_MOE);
  m.router_groups = 4;
  m.balance = TRI_BALANCE_EXPERTS_SEQUENCE;
  EXPECT_OK(tri_model_complete(&m));
  assert_true(m.router_kept_groups == 4 && m.router_scale == 1 && m.balance_rate == 1e-4 && m.ffn_size == 32);
  m = with_experts(TRI_FAMILY_DOTS1);
  m.balance = TRI_BALANCE_EXPERTS_BIAS;
  m.router_bias = true;
  EXPECT_OK(tri_model_complete(&m));
  assert_true(m.router_groups == 1 && m.router_kept_groups == 1 && m.balance_rate == 1e-3);
  tri_model again = m;
  EXPECT_OK(tri_model_complete(&again));
  assert_memory_equal(&again, &m, sizeof m);
  EXPECT_OK(tri_model_load("dots1", &m));
  assert_true(m.router_scoring == TRI_ROUTER_SIGMOID && m.router_bias && m.router_normalised && m.dense_layers == 1);
  EXPECT_OK(tri_model_load("mixtral-8x7b", &m));
  assert_true(m.router_scoring == TRI_ROUTER_SOFTMAX && !m.router_bias && m.router_normalised && m.num_kv_heads == 8);
  EXPECT_OK(tri_model_load("olmoe-1b-7b", &m));
  assert_true(!m.router_normalised && !m.router_bias);
}

/* FLOPs count the experts that process a token: compared with a count by hand from published widths. */
static void flops_are_of_the_experts_met(void **state) {
  (void)state;
  tri_model m;
  EXPECT_OK(tri_model_load("dots1", &m));
  double attention = 4.0 * 4096 * 4096, expert = 3.0 * 4096 * 1408, head = 4096.0 * 152064;
  double experts = 128.0 * 4096 + 8 * expert, dense = 3.0 * 4096 * 10944;
  double met = 62 * attention + dense + 61 * experts + head, scores = 62.0 * 2 * 1000 * 4096;
  assert_true(fabs(tri_model_flops_per_token(&m, 1000, 1) / (6 * (met + scores)) - 1) < 1e-12);
  assert_true(fabs(tri_model_head_in_layers(&m) / (head / (attention + experts)) - 1) < 1e-12);
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

/* ---- files ------------------------------------------------------------------------------------------------------- */

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
      {"family: bert\n",
       "`family` at line 1 of m.yaml must be one of gpt2, llama, qwen3, mixtral, qwen3_moe, olmoe, dots1, gemma, "
       "gemma2, gemma3, phi, phi3, gpt_neox, olmo2, smollm3, falcon, stablelm, granite, opt, starcoder2, not `bert`"},
      {"family: gpt2\n",
       "`num_layers` is missing from m.yaml; add `num_layers:`, for example `num_layers: 12`; also missing: "
       "`hidden_size` (for example 768), `num_heads` (for example 12), `vocab_size` (for example 50257), "
       "`max_sequence` "
       "(for example 1024)"},
      {"[]\n", "a model file at line 1 of m.yaml must be a mapping of keys such as `num_layers: 12`"},
      {SMALL "attention_bias: false\n",
       "`attention_bias` at line 7 of m.yaml cannot be false in the family gpt2, which always has these biases"},
      {SMALL "head_dim: 15\n",
       "`head_dim` does not fit: num_heads 4 x head_dim 15 = 60, not hidden_size 64; leave it out or choose numbers "
       "whose "
       "product fits (line 7 of m.yaml)"},
      {SMALL "rope_scaling:\n  factor: 2\n",
       "`rope_scaling` is for llama and 17 others; gpt2 has none, so leave it out (line 7 of m.yaml)"},
      {SMALL "rope_scaling:\n  facto: 2\n",
       "`facto` is not a key of `rope_scaling:` at line 8 of m.yaml; did you mean `factor`?"},
      {"", "m.yaml is empty"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_file("m.yaml", cases[i].text);
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, tri_model_load("m.yaml", &m));
  }
  EXPECT_FAILS(TRI_BAD_CONFIG, "the model is a file that does not exist: none.yaml (relative to the current directory)",
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
  static const char *const names[] = {"gpt2-124m",
                                      "llama-3-405b",
                                      "frontier-1t",
                                      "mixtral-8x7b",
                                      "qwen3-0.6b",
                                      "olmoe-1b-7b",
                                      "deepseek-v3-ordinary-attention"};
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

/* Each choice of layers is printed in one form, from which the same layers are read. */
static void window_layers_have_one_form(void **state) {
  (void)state;
  static const struct {
    const char *given, *form, *layers; /* w: with a window */
  } cases[] = {
      {"", "all", "wwwwww"},
      {"all", "all", "wwwwww"},
      {"0-", "all", "wwwwww"},
      {"5, 0,3-4,1 - 2", "all", "wwwwww"},
      {"3 of 3", "all", "wwwwww"},
      {"1 of 2", "1 of 2", "w-w-w-"},
      {"0,2,4", "1 of 2", "w-w-w-"},
      {"2of3", "2 of 3", "ww-ww-"},
      {"5 of 6", "0-4", "wwwww-"},
      {"4-", "4-5", "----ww"},
      {"1, 3-3, 4", "1, 3-4", "-w-ww-"},
      {"1 of 4", "0, 4", "w---w-"},
  };
  tri_model m = {.family = TRI_FAMILY_LLAMA,
                 .num_layers = 6,
                 .hidden_size = 16,
                 .num_heads = 2,
                 .ffn_size = 8,
                 .vocab_size = 9,
                 .max_sequence = 99,
                 .window = 7};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model at = m;
    snprintf(at.window_layers, sizeof at.window_layers, "%s", cases[i].given);
    EXPECT_OK(tri_model_complete(&at));
    assert_string_equal(at.window_layers, cases[i].form);
    for (int l = 0; l < 6; l++) assert_int_equal(tri_model_window(&at, l), cases[i].layers[l] == 'w' ? 7 : 0);
  }
  static const char *const wrong[] = {"some", "0 of 3", "4 of 3", "1 of", "1 of 0", "3 of 5x",
                                      "3-1",  "1,,2",   "1;2",    "-1",   "2, all"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    tri_model at = m;
    snprintf(at.window_layers, sizeof at.window_layers, "%s", wrong[i]);
    EXPECT_FAILS_LIKE(TRI_BAD_CONFIG,
                      "it takes `all`, some of each group of layers (`5 of 6`), or layers from 0 on (`0, 4-7`, `28-`)",
                      tri_model_complete(&at));
  }
  /* Every fifth and every seventh of very many layers: no text is long enough. */
  static bool windowed[1000];
  char text[TRI_LAYER_SET_BYTES];
  for (int l = 0; l < 1000; l++) windowed[l] = l % 5 == 1 || l % 7 == 2;
  EXPECT_FAILS_LIKE(TRI_UNSUPPORTED, "more regular", tri_layer_set_print(windowed, "window_layers", 1000, text));
}

int main(void) {
#define IN_FOLDER(TEST) cmocka_unit_test_setup_teardown(TEST, enter_folder, leave_folder)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(presets_have_their_published_sizes),
      cmocka_unit_test(newer_presets_have_their_published_sizes),
      cmocka_unit_test(fills_in_by_family),
      cmocka_unit_test(completes_what_is_built_by_hand),
      cmocka_unit_test(refuses_impossible_models),
      cmocka_unit_test(refuses_impossible_experts),
      cmocka_unit_test(dense_families_take_no_experts),
      cmocka_unit_test(experts_have_defaults),
      cmocka_unit_test(flops_are_of_the_experts_met),
      cmocka_unit_test(window_layers_have_one_form),
      cmocka_unit_test(llama_heads_may_differ_from_the_width),
      IN_FOLDER(reads_files),
      IN_FOLDER(names_the_file_at_fault),
      IN_FOLDER(finds_presets_of_the_site_first),
      IN_FOLDER(prints_what_loads_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
