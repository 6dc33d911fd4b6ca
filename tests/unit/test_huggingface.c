/* config.json of Hugging Face's: to a model, and back. That transformers reads what is written here is
 * tests/oracle/test_huggingface.py. */
#include "check.h"

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/huggingface.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tri_status parse(const char *text, tri_model *out) {
  return tri_huggingface_parse("C/config.json", text, strlen(text), out);
}

/* The keys of the file that openai-community/gpt2 has. */
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

/* The keys of the file that meta-llama/Llama-3.1-8B has. */
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
  /* Beyond its window the model would be another one. */
  CHECK_OK(parse("{\"model_type\": \"mistral\", \"max_position_embeddings\": 32768}", &m));
  assert_int_equal(m.max_sequence, 4096);
  CHECK_OK(parse("{\"model_type\": \"llama\", \"num_key_value_heads\": null}", &m));
  assert_int_equal(m.num_kv_heads, 32);
}

static const struct {
  const char *text;
  tri_status code;
  const char *message;
} refused[] = {
    {"{\"model_type\": \"gpt2\",\n \"n_layer\": }", TRI_BAD_FILE, "C/config.json is not legal JSON at line 2"},
    {"[]", TRI_BAD_FILE, "C/config.json is not a JSON object"},
    {"{}", TRI_BAD_FILE, "C/config.json has no `model_type`"},
    {"{\"model_type\": 3}", TRI_BAD_FILE, "C/config.json: `model_type` is 3, but should be a string"},
    {"{\"model_type\": \"bert\"}", TRI_UNSUPPORTED,
     "C/config.json: `model_type` is `bert`; gpt2, llama, mistral and qwen2 are supported"},
    {"{\"model_type\": \"gpt2\", \"n_layer\": \"12\"}", TRI_BAD_FILE,
     "C/config.json: `n_layer` is \"12\", but should be an integer of at least 1"},
    {"{\"model_type\": \"gpt2\", \"n_head\": 0}", TRI_BAD_FILE,
     "`n_head` is 0, but should be an integer of at least 1"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": -768}", TRI_BAD_FILE, "`n_embd` is -768"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": 768.5}", TRI_BAD_FILE, "`n_embd` is 768.5"},
    {"{\"model_type\": \"gpt2\", \"n_head\": 7}", TRI_BAD_FILE, "C/config.json: `num_heads` 7 does not divide"},
    {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": \"x\"}", TRI_BAD_FILE,
     "`layer_norm_epsilon` is \"x\", but should be a number"},
    {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", TRI_BAD_FILE,
     "`tie_word_embeddings` is 1, but should be true"},
    {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}", TRI_UNSUPPORTED,
     "`activation_function` is `relu`; gelu_new"},
    {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", TRI_UNSUPPORTED, "`scale_attn_weights` is false"},
    {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}", TRI_UNSUPPORTED, "scaled by the layer"},
    {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", TRI_UNSUPPORTED, "cross-attention is not supported"},
    {"{\"model_type\": \"gpt2\", \"quantization_config\": {}}", TRI_UNSUPPORTED, "quantized weights"},
    {"{\"model_type\": \"llama\", \"attention_bias\": true}", TRI_UNSUPPORTED,
     "`attention_bias` is true: a bias on the output projection of attention is not supported"},
    {"{\"model_type\": \"llama\", \"mlp_bias\": true}", TRI_UNSUPPORTED, "`mlp_bias` is true"},
    {"{\"model_type\": \"llama\", \"hidden_act\": \"gelu\"}", TRI_UNSUPPORTED, "`hidden_act` is `gelu`; only silu"},
    {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5}", TRI_UNSUPPORTED, "`partial_rotary_factor` is 0.5"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": 3}", TRI_BAD_FILE, "`rope_scaling` is 3, but should be an object"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", TRI_UNSUPPORTED,
     "`rope_scaling` is of type `linear`; llama3 and default are supported"},
    {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"yarn\"}}", TRI_UNSUPPORTED,
     "`rope_parameters` is of type `yarn`"},
    {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": "
     "4}}",
     TRI_BAD_FILE, "`rope_scaling` of type llama3 has no `low_freq_factor`"},
    {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", TRI_BAD_FILE,
     "C/config.json: `num_kv_heads` 5 does not"},
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
  CHECK_OK(tri_huggingface_print(&m, TRI_FP32, -1, &text));
  CHECK_OK(parse(text, &back));
  tri_free(text);
  assert_string_equal(m.name, back.name);
  assert_true(m.family == back.family && m.tied == back.tied && m.attention_bias == back.attention_bias &&
              m.activation == back.activation);
  assert_true(m.num_layers == back.num_layers && m.hidden_size == back.hidden_size && m.num_heads == back.num_heads &&
              m.num_kv_heads == back.num_kv_heads && m.head_dim == back.head_dim && m.ffn_size == back.ffn_size &&
              m.vocab_size == back.vocab_size && m.max_sequence == back.max_sequence);
  assert_true(m.dropout == back.dropout && m.norm_eps == back.norm_eps && m.init_std == back.init_std &&
              m.rope_theta == back.rope_theta);
  assert_true(m.rope_scaling.factor == back.rope_scaling.factor);
  if (m.rope_scaling.factor == 1) return;
  assert_true(m.rope_scaling.low_freq_factor == back.rope_scaling.low_freq_factor &&
              m.rope_scaling.high_freq_factor == back.rope_scaling.high_freq_factor &&
              m.rope_scaling.original_max_sequence == back.rope_scaling.original_max_sequence);
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
  llama.num_heads = 8;
  llama.num_kv_heads = 2;
  llama.head_dim = 16;
  llama.tied = true;
  llama.rope_scaling = (tri_rope_scaling){
      .factor = 8.5, .low_freq_factor = 1.25, .high_freq_factor = 4.125, .original_max_sequence = 16};
  check_round_trip(llama);
  llama.attention_bias = true;
  check_round_trip(llama);
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
  CHECK_OK(tri_huggingface_print(&m, TRI_FP64, 7, &text));
  assert_non_null(strstr(text, "\"Qwen2ForCausalLM\""));
  assert_non_null(strstr(text, "\"rms_norm_eps\": 1e-5,"));
  assert_non_null(strstr(text, "\"torch_dtype\": \"float64\""));
  assert_non_null(strstr(text, "\"eos_token_id\": 7"));
  tri_free(text);
  m.attention_bias = false;
  CHECK_OK(tri_huggingface_print(&m, TRI_BF16, -1, &text));
  assert_non_null(strstr(text, "\"LlamaForCausalLM\""));
  assert_non_null(strstr(text, "\"rope_scaling\": null"));
  assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
  assert_non_null(strstr(text, "\"eos_token_id\": null"));
  tri_free(text);
  memcpy(m.name, "\xff", 2);
  CHECK_FAILS(tri_huggingface_print(&m, TRI_FP32, -1, &text), TRI_INTERNAL, "cannot be written as JSON");
  m.family = TRI_FAMILY_GPT2;
  m.head_dim = 16;
  CHECK_FAILS(tri_huggingface_print(&m, TRI_FP32, -1, &text), TRI_UNSUPPORTED,
              "no words for head_dim 16 x num_heads 2");
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
      cmocka_unit_test(test_gpt2),    cmocka_unit_test(test_llama_rope_forms), cmocka_unit_test(test_relatives),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_print),
      cmocka_unit_test(test_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
