/* Conversion of Hugging Face's config.json to a model, and back. tests/oracle/test_huggingface.py checks that
 * transformers reads the result. */
#include "check.h"

#include "base/memory.h"
#include "checkpoint/huggingface.h"
#include "files/file.h"
#include "model/model_config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tri_status parse(const char *text, tri_model *out) {
  return tri_huggingface_parse("C/config.json", text, strlen(text), out);
}

/* The keys of the file of openai-community/gpt2. */
static void test_gpt2(void **state) {
  (void)state;
  tri_model m;
  CHECK_OK(
      parse("{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1,"
            "\"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02,"
            "\"layer_norm_epsilon\": 1e-5, \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 768,"
            "\"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, \"resid_pdrop\": 0.1,"
            "\"summary_type\": \"cls_index\", \"task_specific_params\": {}, \"vocab_size\": 50257}",
            &m));
  assert_int_equal(m.family, TRI_FAMILY_GPT2);
  assert_int_equal(m.num_layers, 12);
  assert_int_equal(m.hidden_size, 768);
  assert_int_equal(m.num_heads, 12);
  assert_int_equal(m.num_kv_heads, 12);
  assert_int_equal(m.head_dim, 64);
  assert_int_equal(m.ffn_size, 3072);
  assert_int_equal(m.vocab_size, 50257);
  assert_int_equal(m.max_sequence, 1024);
  assert_true(m.tied && m.attention_bias);
  assert_int_equal(m.activation, TRI_ACTIVATION_GELU_TANH);
  assert_true(m.dropout == 0.1 && m.norm_eps == 1e-5 && m.init_std == 0.02);
  assert_string_equal(m.name, "inline");
}

/* The keys of the file of meta-llama/Llama-3.1-8B. */
#define LLAMA31(rope, more)                                                                                            \
  "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0,"                 \
  "\"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008], \"hidden_act\": \"silu\", \"hidden_size\": 4096,"     \
  "\"initializer_range\": 0.02, \"intermediate_size\": 14336, \"max_position_embeddings\": 131072,"                    \
  "\"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32, \"num_hidden_layers\": 32,"            \
  "\"num_key_value_heads\": 8, \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-5, " rope                                   \
  "\"torch_dtype\": \"bfloat16\","                                                                                     \
  "\"_name_or_path\": \"meta-llama/Llama-3.1-8B\", " more "\"vocab_size\": 128256}"
#define LLAMA3_NUMBERS                                                                                                 \
  "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192"

static void check_llama31(const char *text) {
  tri_model m;
  CHECK_OK(parse(text, &m));
  assert_int_equal(m.family, TRI_FAMILY_LLAMA);
  assert_string_equal(m.name, "Llama-3.1-8B");
  assert_int_equal(m.num_kv_heads, 8);
  assert_int_equal(m.head_dim, 128);
  assert_int_equal(m.ffn_size, 14336);
  assert_int_equal(m.max_sequence, 131072);
  assert_true(!m.tied && !m.attention_bias && m.dropout == 0 && m.norm_eps == 1e-5);
  assert_true(m.rope_theta == 500000 && m.rope_scaling.factor == 8 && m.rope_scaling.low_freq_factor == 1 &&
              m.rope_scaling.high_freq_factor == 4);
  assert_int_equal(m.rope_scaling.original_max_sequence, 8192);
}

static void test_llama_rope_forms(void **state) {
  (void)state;
  check_llama31(
      LLAMA31("\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", " LLAMA3_NUMBERS "},", ""));
  check_llama31(LLAMA31("\"rope_theta\": 500000, \"rope_scaling\": {\"type\": \"llama3\", " LLAMA3_NUMBERS "},", ""));
  check_llama31(
      LLAMA31("\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", " LLAMA3_NUMBERS "},", ""));
  tri_model m;
  CHECK_OK(parse(LLAMA31("\"rope_theta\": 5e5, \"rope_scaling\": null,", ""), &m));
  assert_true(m.rope_theta == 500000 && m.rope_scaling.factor == 1);
  CHECK_OK(parse(LLAMA31("\"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"default\"},", ""), &m));
  assert_true(m.rope_theta == 500000 && m.rope_scaling.factor == 1);
  CHECK_OK(parse(LLAMA31("", "\"tie_word_embeddings\": true, \"head_dim\": 64,"), &m));
  assert_true(m.rope_theta == 10000 && m.tied && m.head_dim == 64);
}

static const tri_rope_scaling *scaling_of(const char *text, tri_model *m) {
  CHECK_OK(parse(text, m));
  return &m->rope_scaling;
}

/* The keys of published models (Qwen 2.5 for long texts, DeepSeek V2), and older forms. */
static void test_rope_types(void **state) {
  (void)state;
  tri_model m;
  const tri_rope_scaling *s = scaling_of(
      "{\"model_type\": \"qwen2\", \"num_key_value_heads\": 8, \"max_position_embeddings\": 32768, "
      "\"rope_scaling\": {\"factor\": 4.0, \"original_max_position_embeddings\": 32768, \"type\": \"yarn\"}}",
      &m);
  assert_true(s->type == TRI_ROPE_YARN && s->factor == 4 && s->original_max_sequence == 32768 && s->truncate);
  assert_true(s->attention_factor == 0 && s->mscale == 0 && s->beta_fast == 32 && s->beta_slow == 1);
  assert_int_equal(m.max_sequence, 32768);
  s = scaling_of(LLAMA31("\"rope_theta\": 1e4, \"rope_scaling\": {\"beta_fast\": 16, \"beta_slow\": 2, \"factor\": 40, "
                         "\"mscale\": 0.707, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 4096, "
                         "\"truncate\": false, \"attention_factor\": null, \"rope_type\": \"yarn\"},",
                         ""),
                 &m);
  assert_true(s->factor == 40 && s->mscale == 0.707 && s->mscale_all_dim == 1 && s->beta_fast == 16 && !s->truncate);
  /* A missing factor is the ratio of the two lengths; a missing length is the config's. */
  s = scaling_of(LLAMA31("\"rope_parameters\": {\"rope_theta\": 1e4, \"rope_type\": \"yarn\", \"factor\": null, "
                         "\"original_max_position_embeddings\": 8192},",
                         ""),
                 &m);
  assert_true(s->factor == 16 && s->original_max_sequence == 8192);
  s = scaling_of(LLAMA31("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2},", ""), &m);
  assert_true(s->factor == 2 && s->original_max_sequence == 131072);
  s = scaling_of("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", &m);
  assert_true(s->type == TRI_ROPE_LINEAR && s->factor == 2 && m.max_sequence == 2048);
  s = scaling_of("{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.5}}", &m);
  assert_true(s->type == TRI_ROPE_DYNAMIC && s->factor == 2.5 && s->original_max_sequence == 2048);
  assert_int_equal(m.max_sequence, 5120);
}

/* Phi-3's form: the original length at the top level, no factor; its first names; and transformers' own form. */
static void test_longrope(void **state) {
  (void)state;
  tri_model m;
#define PHI3(TYPE, TOP, MORE)                                                                                          \
  "{\"model_type\": \"phi3\", \"hidden_size\": 32, \"num_attention_heads\": 8, \"max_position_embeddings\": "          \
  "131072, " TOP " \"rope_scaling\": {\"type\": \"" TYPE "\", " MORE                                                   \
  " \"short_factor\": [1.05, 2], \"long_factor\": [1, 31.5]}}"
#define ORIGINAL(N) "\"original_max_position_embeddings\": " #N ","
  const char *const files[] = {
      PHI3("longrope", ORIGINAL(4096), ""),
      PHI3("su", ORIGINAL(4096), ""),
      PHI3("yarn", ORIGINAL(4096), ""),
      PHI3("longrope", ORIGINAL(4096), ORIGINAL(9)),
      PHI3("longrope", "", ORIGINAL(4096)),
      PHI3("longrope", "", ORIGINAL(4096) "\"factor\": 32.0,"),
      PHI3("longrope", "", ORIGINAL(4096) "\"attention_factor\": null,"),
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    const tri_rope_scaling *s = scaling_of(files[i], &m);
    assert_true(s->type == TRI_ROPE_LONG && s->original_max_sequence == 4096 && s->factor == 32);
    assert_true(s->short_factor[0] == 1.05 && s->short_factor[1] == 2 && s->long_factor[1] == 31.5);
    assert_true(tri_rope_count(s->short_factor) == 2 && s->attention_factor == 0);
  }
  /* sqrt(1 + ln 32 / ln 4096) */
  assert_true(fabs(tri_rope_attention_factor(&m.rope_scaling) - 1.1902380714238083) < 1e-15);
  const tri_rope_scaling *s = scaling_of(PHI3("longrope", ORIGINAL(262144), "\"attention_factor\": 1.5,"), &m);
  assert_true(s->factor == 1 && tri_rope_attention_factor(s) == 1.5);
}

static void test_relatives(void **state) {
  (void)state;
  tri_model m;
  CHECK_OK(
      parse("{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, \"max_window_layers\": 21,"
            "\"num_attention_heads\": 14, \"num_hidden_layers\": 24, \"num_key_value_heads\": 2,"
            "\"sliding_window\": 32768, \"use_sliding_window\": false, \"tie_word_embeddings\": true,"
            "\"rope_theta\": 1000000.0, \"vocab_size\": 151936}",
            &m));
  assert_true(m.family == TRI_FAMILY_LLAMA && m.attention_bias && m.tied && m.rope_theta == 1e6 && m.norm_eps == 1e-6);
  assert_int_equal(m.max_sequence, 32768);
  CHECK_OK(parse("{\"model_type\": \"mistral\", \"max_position_embeddings\": 32768, \"sliding_window\": null}", &m));
  assert_true(m.num_kv_heads == 8 && m.ffn_size == 14336 && m.max_sequence == 32768 && !m.attention_bias);
  assert_int_equal(m.window, 0);
  CHECK_OK(parse("{\"model_type\": \"mistral\", \"max_position_embeddings\": 32768}", &m));
  assert_true(m.max_sequence == 32768 && m.window == 4096 && strcmp(m.window_layers, "all") == 0);
  CHECK_OK(parse("{\"model_type\": \"llama\", \"num_key_value_heads\": null}", &m));
  assert_int_equal(m.num_kv_heads, 32);
}

/* The ways in which model types select the layers with a window. */
static void test_windows(void **state) {
  (void)state;
#define QWEN "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 4, \"use_sliding_window\": true"
#define MINISTRAL "{\"model_type\": \"ministral\", \"num_hidden_layers\": 4"
#define TYPES(a, b) ", \"layer_types\": [\"" a "\", \"" b "\", \"" a "\", \"" b "\"]}"
  static const struct {
    const char *text;
    int64_t window;
    const char *layers;
  } cases[] = {
      {QWEN "}", 0, "all"}, /* from layer 28 on */
      {QWEN ", \"max_window_layers\": 1}", 4096, "1-3"},
      {QWEN ", \"max_window_layers\": 0, \"sliding_window\": 77}", 77, "all"},
      {QWEN ", \"max_window_layers\": 4, \"sliding_window\": 77}", 0, "all"},
      {QWEN ", \"max_window_layers\": 1, \"sliding_window\": null}", 0, "all"},
      {QWEN ", \"max_window_layers\": 1, \"sliding_window\": 8" TYPES("sliding_attention", "full_attention"), 8,
       "1 of 2"},
      {MINISTRAL "}", 4096, "all"},
      {MINISTRAL ", \"sliding_window\": 9" TYPES("full_attention", "sliding_attention"), 9, "1, 3"},
      {MINISTRAL ", \"sliding_window\": 9" TYPES("full_attention", "full_attention"), 0, "all"},
      {MINISTRAL ", \"sliding_window\": null}", 0, "all"},
      {"{\"model_type\": \"llama\", \"sliding_window\": 9}", 0, "all"}, /* it has none */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model m;
    CHECK_OK(parse(cases[i].text, &m));
    assert_int_equal(m.window, cases[i].window);
    assert_string_equal(m.window_layers, cases[i].layers);
  }
  tri_model m;
  CHECK_FAILS(
      parse(MINISTRAL TYPES("full_attention", "chunked_attention"), &m), TRI_UNSUPPORTED,
      "C/config.json: `layer_types` has `chunked_attention`; full_attention and sliding_attention are supported");
  CHECK_FAILS(parse(MINISTRAL ", \"layer_types\": [\"full_attention\"]}", &m), TRI_BAD_FILE,
              "C/config.json: `layer_types` is not a list of 4 (num_hidden_layers)");
  CHECK_FAILS(parse(QWEN ", \"max_window_layers\": -1}", &m), TRI_BAD_FILE, "`max_window_layers` is -1");
}

static const struct {
  const char *text;
  tri_status code;
  const char *message;
} refused[] = {
    {"{\"model_type\": \"gpt2\",\n \"n_layer\": }", TRI_BAD_FILE, "C/config.json is not valid JSON at line 2"},
    {"[]", TRI_BAD_FILE, "C/config.json is not a JSON object"},
    {"{}", TRI_BAD_FILE, "C/config.json has no `model_type`"},
    {"{\"model_type\": 3}", TRI_BAD_FILE, "C/config.json: `model_type` is 3, but should be a string"},
    {"{\"model_type\": \"bert\"}", TRI_UNSUPPORTED,
     "C/config.json: `model_type` is `bert`; gpt2, llama, mistral, ministral, qwen2, qwen3, mixtral, qwen3_moe, olmoe, "
     "dots1, gemma, gemma2, gemma3_text, phi, phi3, gpt_neox, olmo2, smollm3, falcon, stablelm, granite, opt and "
     "starcoder2 are supported"},
    {"{\"model_type\": \"cohere\", \"vocab_size\": 10, \"hidden_size\": 8, \"intermediate_size\": 16, "
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_act\": \"silu\", \"use_qk_norm\": false, "
     "\"logit_scale\": 0.0625, \"rms_norm_eps\": 1e-5, \"parts\": [1]}",
     TRI_UNSUPPORTED,
     "`model_type` is `cohere`, which is unknown. The most similar one is llama but for `logit_scale` (0.0625), "
     "`parts`; "
     "gpt2, "},
    {"{\"model_type\": \"gpt2\", \"n_layer\": \"12\"}", TRI_BAD_FILE,
     "C/config.json: `n_layer` is \"12\", but should be an integer of at least 1"},
    {"{\"model_type\": \"gpt2\", \"n_head\": 0}", TRI_BAD_FILE,
     "`n_head` is 0, but should be an integer of at least 1"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": -768}", TRI_BAD_FILE, "`n_embd` is -768"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": 768.5}", TRI_BAD_FILE, "`n_embd` is 768.5"},
    {"{\"model_type\": \"gpt2\", \"n_head\": 7}", TRI_BAD_FILE, "C/config.json: `n_head` 7 does not divide"},
    {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": \"x\"}", TRI_BAD_FILE,
     "`layer_norm_epsilon` is \"x\", but should be a number"},
    {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", TRI_BAD_FILE,
     "`tie_word_embeddings` is 1, but should be true"},
    {"{\"model_type\": \"gpt2\", \"activation_function\": \"softmax\"}", TRI_UNSUPPORTED,
     "`activation_function` is `softmax`; gelu_new, gelu, silu"},
    {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", TRI_UNSUPPORTED, "`scale_attn_weights` is false"},
    {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}", TRI_UNSUPPORTED, "scaled by the layer"},
    {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", TRI_UNSUPPORTED, "cross-attention is not supported"},
    {"{\"model_type\": \"gpt2\", \"quantization_config\": {}}", TRI_UNSUPPORTED, "quantized weights"},
    {"{\"model_type\": \"llama\", \"hidden_act\": \"softmax\"}", TRI_UNSUPPORTED,
     "`hidden_act` is `softmax`; gelu_new, gelu, silu"},
    {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5, \"rope_scaling\": {\"type\": \"linear\", \"factor\": "
     "2}}",
     TRI_UNSUPPORTED, "`partial_rotary_factor` is 0.5"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": 3}", TRI_BAD_FILE, "`rope_scaling` is 3, but should be an object"},
    {"{\"model_type\": \"falcon\", \"num_ln_in_parallel_attn\": 2}", TRI_UNSUPPORTED,
     "C/config.json: `num_ln_in_parallel_attn` goes with `new_decoder_architecture`; correct one of them"},
    {"{\"model_type\": \"falcon\", \"multi_query\": false, \"num_kv_heads\": 8}", TRI_UNSUPPORTED,
     "C/config.json: `num_kv_heads` goes with `new_decoder_architecture`; correct one of them"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"xpos\", \"factor\": 2}}", TRI_UNSUPPORTED,
     "`rope_scaling` is of type `xpos`; default, linear, dynamic, yarn, longrope and llama3 are supported"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2}}", TRI_BAD_FILE,
     "`rope_scaling` of type longrope has no `short_factor`"},
    {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 0], \"long_factor\": []}}",
     TRI_BAD_FILE, "C/config.json: `short_factor` is [1,0], but should be a list of up to 128 numbers above 0"},
    {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], \"long_factor\": 2}}",
     TRI_BAD_FILE, "C/config.json: `long_factor` is 2, but should be a list of up to 128 numbers above 0"},
    {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, 3], "
     "\"long_factor\": [1]}}",
     TRI_BAD_FILE,
     "`rope_scaling.short_factor` has 3 numbers and needs 48, one for each pair of the 96 components of a head"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}", TRI_BAD_FILE,
     "`rope_scaling` of type linear has no `factor`"},
    {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"yarn\"}}", TRI_BAD_FILE,
     "`rope_parameters` of type yarn has no `factor`"},
    {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": null}}", TRI_BAD_FILE,
     "`rope_parameters` of type dynamic has no `factor`"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 0.5}}", TRI_BAD_FILE,
     "C/config.json: `rope_scaling.factor` must be between 1 and 1000000, not 0.5"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": "
     "0.0}}",
     TRI_BAD_FILE, "`attention_factor` is 0.0, but should be a number above 0"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"mscale\": -1}}",
     TRI_BAD_FILE, "`mscale` is -1, but should be a number above 0"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"beta_fast\": 0.5}}",
     TRI_BAD_FILE, "C/config.json: `rope_scaling.beta_fast` 0.5 must not be below beta_slow 1"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": 1}}",
     TRI_BAD_FILE, "`truncate` is 1, but should be true or false"},
    {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
     "\"partial_rotary_factor\": 0.5}}",
     TRI_UNSUPPORTED, "`partial_rotary_factor` is 0.5"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": "
     "4}}",
     TRI_BAD_FILE, "`rope_scaling` of type llama3 has no `low_freq_factor`"},
    {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", TRI_BAD_FILE,
     "C/config.json: `num_key_value_heads` 5 does not"},
};

static void test_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    tri_model m;
    CHECK_FAILS(parse(refused[i].text, &m), refused[i].code, refused[i].message);
  }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void check_round_trip(tri_model m) {
  tri_model back;
  char *text = NULL;
  CHECK_OK(tri_model_complete(&m));
  CHECK_OK(tri_huggingface_print(&m, TRI_FP32, -1, NULL, &text));
  CHECK_OK(parse(text, &back));
  tri_free(text);
  assert_string_equal(m.name, back.name);
  assert_true(m.family == back.family && m.tied == back.tied && m.attention_bias == back.attention_bias &&
              m.output_bias == back.output_bias && m.mlp_bias == back.mlp_bias && m.activation == back.activation);
  assert_true(m.num_layers == back.num_layers && m.hidden_size == back.hidden_size && m.num_heads == back.num_heads &&
              m.num_kv_heads == back.num_kv_heads && m.head_dim == back.head_dim && m.ffn_size == back.ffn_size &&
              m.vocab_size == back.vocab_size && m.max_sequence == back.max_sequence);
  assert_true(m.dropout == back.dropout && m.norm_eps == back.norm_eps && m.init_std == back.init_std &&
              m.rope_theta == back.rope_theta);
  assert_int_equal(m.window, back.window);
  assert_string_equal(m.window_layers, back.window_layers);
  assert_true(tri_rope_is_plain(&m.rope_scaling) ? tri_rope_is_plain(&back.rope_scaling)
                                                 : tri_rope_scalings_equal(&m.rope_scaling, &back.rope_scaling));
  assert_int_equal(m.window, back.window);
  assert_string_equal(m.window_layers, back.window_layers);
}

static void test_round_trip(void **state) {
  (void)state;
  tri_model gpt2 = {.name = "tiny",
                    .family = TRI_FAMILY_GPT2,
                    .num_layers = 3,
                    .hidden_size = 60,
                    .num_heads = 5,
                    .vocab_size = 301,
                    .max_sequence = 33,
                    .tied = true,
                    .dropout = 0.1,
                    .init_std = 1.0 / 3.0};
  check_round_trip(gpt2);
  gpt2.tied = false;
  gpt2.activation = TRI_ACTIVATION_GELU_ERF;
  gpt2.ffn_size = 77;
  check_round_trip(gpt2);
  tri_model llama = {.name = "tiny",
                     .family = TRI_FAMILY_LLAMA,
                     .num_layers = 3,
                     .hidden_size = 60,
                     .num_heads = 5,
                     .ffn_size = 111,
                     .vocab_size = 301,
                     .max_sequence = 33,
                     .rope_theta = 500000};
  check_round_trip(llama);
  static const char *const layers[] = {"all", "2-", "0, 2", "1"};
  for (int i = 0; i < 8; i++) {
    tri_model windowed = llama;
    windowed.window = 11;
    windowed.attention_bias = i % 2 == 1;
    snprintf(windowed.window_layers, sizeof windowed.window_layers, "%s", layers[i / 2]);
    check_round_trip(windowed);
  }
  llama.num_heads = 6;
  llama.num_kv_heads = 2;
  llama.head_dim = 16;
  llama.tied = true;
  llama.rope_scaling = tri_rope_scaling_none();
  check_round_trip(llama);
  llama.rope_scaling.type = TRI_ROPE_LINEAR;
  check_round_trip(llama);
  llama.rope_scaling.factor = 2.75;
  check_round_trip(llama);
  llama.rope_scaling.type = TRI_ROPE_DYNAMIC;
  llama.rope_scaling.original_max_sequence = 12;
  check_round_trip(llama);
  llama.rope_scaling.type = TRI_ROPE_YARN;
  check_round_trip(llama);
  llama.rope_scaling.beta_fast = 20.5;
  llama.rope_scaling.beta_slow = 1.25;
  llama.rope_scaling.mscale = 0.707;
  llama.rope_scaling.mscale_all_dim = 0.5;
  llama.rope_scaling.truncate = false;
  check_round_trip(llama);
  llama.rope_scaling.attention_factor = 1.1;
  check_round_trip(llama);
  llama.rope_scaling = tri_rope_scaling_none();
  llama.rope_scaling.type = TRI_ROPE_LONG;
  llama.rope_scaling.factor = 3;
  for (int i = 0; i < 8; i++) {
    llama.rope_scaling.short_factor[i] = 1 + 0.1 * i;
    llama.rope_scaling.long_factor[i] = 2 + 0.3 * i;
  }
  check_round_trip(llama);
  llama.rope_scaling = tri_rope_scaling_none();
  llama.rope_scaling.factor = 8.5;
  llama.rope_scaling.low_freq_factor = 1.25;
  llama.rope_scaling.high_freq_factor = 4.125;
  llama.rope_scaling.original_max_sequence = 16;
  check_round_trip(llama);
  llama.attention_bias = true;
  check_round_trip(llama);
  llama.output_bias = true;
  check_round_trip(llama);
  llama.mlp_bias = true;
  check_round_trip(llama);
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

/* The keys in the files of published weights. */
static void test_families_with_experts(void **state) {
  (void)state;
  tri_model m;
  CHECK_OK(
      parse("{\"model_type\": \"mixtral\", \"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 4096,"
            "\"intermediate_size\": 14336, \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"rope_theta\": 1e6,"
            "\"output_router_logits\": false, \"router_aux_loss_coef\": 0.02, \"sliding_window\": null}",
            &m));
  assert_true(m.family == TRI_FAMILY_MIXTRAL && m.num_experts == 8 && m.experts_per_token == 2 && m.router_normalised);
  assert_true(m.expert_ffn_size == 14336 && m.ffn_size == 14336 && m.window == 0 && m.norm_eps == 1e-5);
  CHECK_OK(parse("{\"model_type\": \"mixtral\"}", &m));
  assert_true(m.num_experts == 8 && m.rope_theta == 1e6 && m.num_kv_heads == 8 && m.window == 0);
  CHECK_OK(
      parse("{\"model_type\": \"qwen3_moe\", \"head_dim\": 128, \"hidden_size\": 2048, \"intermediate_size\": 6144,"
            "\"moe_intermediate_size\": 768, \"mlp_only_layers\": [0, 1], \"norm_topk_prob\": true,"
            "\"num_experts\": 128, \"num_hidden_layers\": 48, \"decoder_sparse_step\": 1,"
            "\"use_sliding_window\": false, \"sliding_window\": 9}",
            &m));
  assert_true(m.family == TRI_FAMILY_QWEN3_MOE && m.num_experts == 128 && m.experts_per_token == 8);
  assert_true(m.dense_layers == 2 && m.ffn_size == 6144 && m.expert_ffn_size == 768 && m.window == 0);
  assert_true(m.router_normalised && m.router_scoring == TRI_ROUTER_SOFTMAX && !m.router_bias);
  CHECK_OK(parse("{\"model_type\": \"qwen3_moe\", \"num_local_experts\": 5, \"num_experts_per_tok\": 3}", &m));
  assert_true(m.num_experts == 5 && m.experts_per_token == 3 && !m.router_normalised);
  CHECK_OK(parse("{\"model_type\": \"olmoe\", \"clip_qkv\": null}", &m));
  assert_true(m.family == TRI_FAMILY_OLMOE && m.num_experts == 64 && m.expert_ffn_size == 2048 && !m.router_normalised);
  CHECK_OK(
      parse("{\"model_type\": \"dots1\", \"n_routed_experts\": 128, \"n_shared_experts\": 2,"
            "\"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"norm_topk_prob\": true, \"n_group\": 8,"
            "\"topk_group\": 4, \"routed_scaling_factor\": 2.5, \"sliding_window\": null}",
            &m));
  assert_true(m.family == TRI_FAMILY_DOTS1 && m.num_experts == 128 && m.shared_experts == 2 && m.dense_layers == 1);
  assert_true(m.router_scoring == TRI_ROUTER_SIGMOID && m.router_bias && m.router_normalised && m.router_scale == 2.5);
  assert_true(m.router_groups == 8 && m.router_kept_groups == 4 && m.head_dim == 144 && m.window == 0);
}

#define DOTS "{\"model_type\": \"dots1\", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
static void test_experts_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    tri_status code;
    const char *message;
  } cases[] = {
      {"{\"model_type\": \"dots1\"}", TRI_BAD_FILE, "C/config.json: `n_routed_experts` is missing; dots1 needs it"},
      {"{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9}", TRI_BAD_FILE,
       "C/config.json: `num_experts_per_tok` 9 is above num_local_experts 8"},
      {"{\"model_type\": \"mixtral\", \"num_local_experts\": 0}", TRI_BAD_FILE,
       "`num_local_experts` is 0, but should be an integer of at least 1"},
      {"{\"model_type\": \"olmoe\", \"clip_qkv\": 8.0}", TRI_UNSUPPORTED,
       "`clip_qkv` is 8.0: clipping of queries, keys and values is not supported"},
      {"{\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 2}", TRI_UNSUPPORTED,
       "`decoder_sparse_step` is 2: a layer without experts between others is not supported"},
      {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}", TRI_UNSUPPORTED,
       "`mlp_only_layers` lists layers other than the first ones (0, 1, ...)"},
      {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [\"a\"]}", TRI_UNSUPPORTED,
       "`mlp_only_layers` lists layers other"},
      {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": 1}", TRI_BAD_FILE,
       "`mlp_only_layers` is 1, but should be a list of layers"},
      {DOTS "\"n_group\": 3}", TRI_BAD_FILE, "`n_group` 3 does not divide n_routed_experts 8; try 2"},
      {DOTS "\"n_shared_experts\": -1}", TRI_BAD_FILE,
       "`n_shared_experts` is -1, but should be an integer of at least 0"},
      {DOTS "\"routed_scaling_factor\": 0}", TRI_BAD_FILE,
       "C/config.json: `routed_scaling_factor` is 0, but should be a number above 0"},
      {DOTS "\"routed_scaling_factor\": -2.5}", TRI_BAD_FILE,
       "C/config.json: `routed_scaling_factor` is -2.5, but should be a number above 0"},
      {"{\"model_type\": \"llama\", \"rms_norm_eps\": 0.0}", TRI_BAD_FILE,
       "C/config.json: `rms_norm_eps` is 0.0, but should be a number above 0"},
      {"{\"model_type\": \"llama\", \"rope_theta\": 0}", TRI_BAD_FILE,
       "C/config.json: `rope_theta` is 0, but should be a number above 0"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}}", TRI_BAD_FILE,
       "C/config.json: `factor` is 0, but should be a number above 0"},
      {"{\"model_type\": \"trireme_\"}", TRI_UNSUPPORTED, "C/config.json: `model_type` is `trireme_`; gpt2, llama, "},
      {"{\"model_type\": \"trireme_bert\"}", TRI_UNSUPPORTED, "C/config.json: `model_type` is `trireme_bert`; gpt2, "},
      {"{\"model_type\": \"\"}", TRI_UNSUPPORTED, "C/config.json: `model_type` is ``; gpt2, llama, "},
      {DOTS "\"trireme\": 3}", TRI_BAD_FILE, "`trireme` is 3, but should be an object"},
      {DOTS "\"trireme\": {\"num_layers\": \"3\"}}", TRI_BAD_FILE,
       "`trireme.num_layers` is not a key of a router with its value as a string"},
      {DOTS "\"trireme\": {\"router_quota\": 3}}", TRI_BAD_FILE, "`trireme.router_quota` is not a key of a router"},
      {DOTS "\"trireme\": {\"balance\": \"some\"}}", TRI_BAD_FILE,
       "`balance` must be one of none, sequence, bias, not `some`"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_model m;
    CHECK_FAILS(parse(cases[i].text, &m), cases[i].code, cases[i].message);
  }
}

static tri_model with_experts(tri_family family) {
  return (tri_model){.name = "tiny",
                     .family = family,
                     .num_layers = 3,
                     .hidden_size = 60,
                     .num_heads = 6,
                     .num_kv_heads = 2,
                     .vocab_size = 301,
                     .max_sequence = 33,
                     .num_experts = 12,
                     .experts_per_token = 4,
                     .expert_ffn_size = 22,
                     .router_normalised = true,
                     .rope_scaling = tri_rope_scaling_none()};
}

/* Compares the keys of two models, since bytes between the members of a struct are undefined. */
static void expect_same_model(const tri_model *found, const tri_model *expected) {
  char *text = NULL, *wanted = NULL;
  CHECK_OK(tri_model_print(found, &text));
  CHECK_OK(tri_model_print(expected, &wanted));
  assert_string_equal(text, wanted);
  tri_free(wanted);
  tri_free(text);
}

static void check_all_come_back(tri_model m, const char *model_type) {
  tri_model back;
  char *text = NULL, type[80];
  CHECK_OK(tri_model_complete(&m));
  CHECK_OK(tri_huggingface_print(&m, TRI_FP32, -1, NULL, &text));
  snprintf(type, sizeof type, "\"model_type\": \"%s\"", model_type);
  assert_non_null(strstr(text, type));
  CHECK_OK(parse(text, &back));
  tri_free(text);
  expect_same_model(&back, &m);
}

/* Settings that Hugging Face has keys for are written with these keys, other settings with keys of our own. If the
 * latter change what the model computes, its type is renamed, so that other programs refuse it. */
static void test_experts_round_trip(void **state) {
  (void)state;
  tri_model m = with_experts(TRI_FAMILY_MIXTRAL);
  check_all_come_back(m, "mixtral");
  m.window = 9;
  check_all_come_back(m, "mixtral");
  m.balance = TRI_BALANCE_EXPERTS_SEQUENCE;
  m.z_loss = 1.0 / 3.0;
  check_all_come_back(m, "mixtral");
  m.router_normalised = false;
  check_all_come_back(m, "trireme_mixtral");
  m = with_experts(TRI_FAMILY_QWEN3_MOE);
  m.router_normalised = false;
  m.ffn_size = 77;
  m.dense_layers = 2;
  check_all_come_back(m, "qwen3_moe");
  m.router_groups = 4;
  m.router_quota = true;
  check_all_come_back(m, "trireme_qwen3_moe");
  m = with_experts(TRI_FAMILY_QWEN3_MOE);
  m.router_bias = true;
  m.balance = TRI_BALANCE_EXPERTS_BIAS;
  check_all_come_back(m, "trireme_qwen3_moe");
  check_all_come_back(with_experts(TRI_FAMILY_OLMOE), "olmoe");
  m = with_experts(TRI_FAMILY_DOTS1);
  m.router_scoring = TRI_ROUTER_SIGMOID;
  m.router_bias = true;
  m.router_groups = 6;
  m.router_kept_groups = 3;
  m.router_scale = 2.5;
  m.shared_experts = 2;
  m.dense_layers = 1;
  m.ffn_size = 40;
  check_all_come_back(m, "dots1");
  m.window = 9;
  snprintf(m.window_layers, sizeof m.window_layers, "1-");
  check_all_come_back(m, "dots1");
  m.router_scoring = TRI_ROUTER_SOFTMAX;
  check_all_come_back(m, "trireme_dots1");
}

static void test_print(void **state) {
  (void)state;
  char *text = NULL;
  tri_model m = {.family = TRI_FAMILY_LLAMA,
                 .num_layers = 1,
                 .hidden_size = 8,
                 .num_heads = 2,
                 .ffn_size = 8,
                 .vocab_size = 9,
                 .max_sequence = 4,
                 .attention_bias = true};
  CHECK_OK(tri_model_complete(&m));
  CHECK_OK(tri_huggingface_print(&m, TRI_FP64, 7, NULL, &text));
  assert_non_null(strstr(text, "\"Qwen2ForCausalLM\""));
  assert_non_null(strstr(text, "\"rms_norm_eps\": 1e-5,"));
  assert_non_null(strstr(text, "\"torch_dtype\": \"float64\""));
  assert_non_null(strstr(text, "\"eos_token_id\": 7"));
  tri_free(text);
  m.attention_bias = false;
  CHECK_OK(tri_huggingface_print(&m, TRI_BF16, -1, NULL, &text));
  assert_non_null(strstr(text, "\"LlamaForCausalLM\""));
  assert_non_null(strstr(text, "\"rope_scaling\": null"));
  assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
  assert_non_null(strstr(text, "\"eos_token_id\": null"));
  tri_free(text);
  memcpy(m.name, "\xff", 2);
  CHECK_FAILS(tri_huggingface_print(&m, TRI_FP32, -1, NULL, &text), TRI_INTERNAL, "cannot be written as JSON");
  m.family = TRI_FAMILY_GPT2;
  m.head_dim = 16;
  CHECK_FAILS(tri_huggingface_print(&m, TRI_FP32, -1, NULL, &text), TRI_UNSUPPORTED,
              "cannot describe head_dim 16 x num_heads 2");
}

static void test_load(void **state) {
  (void)state;
  char folder[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  const char *base = getenv("TMPDIR"), *text = "{\"model_type\": \"gpt2\", \"n_layer\": 5}";
  snprintf(folder, sizeof folder, "%s/trireme-huggingface-XXXXXX", base == NULL ? "/tmp" : base);
  assert_non_null(mkdtemp(folder));
  tri_model m;
  CHECK_FAILS(tri_huggingface_load(folder, &m), TRI_BAD_FILE, "/config.json: No such file");
  CHECK_OK(tri_path_join(path, folder, "config.json"));
  CHECK_OK(tri_file_replace(path, text, strlen(text)));
  CHECK_OK(tri_huggingface_load(folder, &m));
  assert_int_equal(m.num_layers, 5);
  CHECK_OK(tri_directory_remove(folder));
  assert_int_equal(tri_memory_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gpt2),
      cmocka_unit_test(test_llama_rope_forms),
      cmocka_unit_test(test_rope_types),
      cmocka_unit_test(test_longrope),
      cmocka_unit_test(test_relatives),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_print),
      cmocka_unit_test(test_families_with_experts),
      cmocka_unit_test(test_experts_refused),
      cmocka_unit_test(test_experts_round_trip),
      cmocka_unit_test(test_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
