/* Files of adapters: names, adapter_config.json in both directions, and checkpoints with PEFT's files in the place of a
 * model's. tests/oracle/test_peft_folders.py tests the commands. */
#include "checkpoint_test.h"
#include "small_model.h"

#include "checkpoint/huggingface.h"
#include "checkpoint/merged.h"
#include "checkpoint/peft.h"

#include <sys/stat.h>

#define LAYER "transformer.h.1."
#define FACTOR_A LAYER "attn.c_attn.lora_A.weight"
#define FACTOR_B LAYER "attn.c_attn.lora_B.weight"

static void test_names(void **state) {
  (void)state;
  char name[TRI_PEFT_NAME_BYTES];
  tri_peft_name("model.layers.0.self_attn.q_proj.lora_A.weight", name);
  assert_string_equal(name, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  assert_string_equal(tri_peft_own_name(name), "model.layers.0.self_attn.q_proj.lora_A.weight");
  assert_string_equal(tri_peft_own_name("transformer.wte.weight"), "transformer.wte.weight");
}

/* ---- adapter_config.json ----------------------------------------------------------------------------------------- */

static void parse_good(const char *text, tri_peft *out) { CHECK_OK(tri_peft_parse("A/c", text, strlen(text), out)); }

#define BEGIN "{\"peft_type\": \"LORA\", \"lora_alpha\": 16"
#define GOOD BEGIN ", \"r\": 8"

static void test_parse(void **state) {
  (void)state;
  static tri_peft peft;
  parse_good(GOOD
             ", \"target_modules\": [\"q_proj\", \"v_proj\"], \"lora_dropout\": 0.1, \"bias\": \"none\", "
             "\"base_model_name_or_path\": \"org/name\", \"modules_to_save\": [\"lm_head\"], \"use_dora\": false, "
             "\"rank_pattern\": {}, \"not_known_yet\": null, \"task_type\": \"CAUSAL_LM\"}",
             &peft);
  assert_int_equal(peft.adapter.rank, 8);
  assert_true(peft.adapter.alpha == 16 && peft.adapter.dropout == 0.1);
  assert_int_equal(peft.adapter.targets.count, 2);
  assert_string_equal(peft.adapter.targets.words[1].text, "v_proj");
  assert_string_equal(peft.adapter.train.words[0].text, "lm_head");
  assert_string_equal(peft.base, "org/name");
  assert_string_equal(peft.signature.frame, "");
  parse_good(GOOD ", \"target_modules\": \"all-linear\"}", &peft);
  assert_string_equal(peft.adapter.targets.words[0].text, "all-linear");
  assert_string_equal(peft.base, "");
}

static void test_refused(void **state) {
  (void)state;
  static tri_peft peft;
  static const struct {
    const char *text;
    tri_status status;
    const char *words;
  } cases[] = {
      {"", TRI_BAD_FILE, "A/c is not valid JSON"},
      {"{\"r\": 1, \"r\": 2}", TRI_BAD_FILE, "no `peft_type`"}, /* the last one counts */
      {"[1]", TRI_BAD_FILE, "is not an object"},
      {"{}", TRI_BAD_FILE, "`peft_type`"},
      {"{\"peft_type\": \"IA3\"}", TRI_UNSUPPORTED, "`peft_type`"},
      {"{\"peft_type\": 3}", TRI_BAD_FILE, "`peft_type` is 3"},
      {BEGIN "}", TRI_BAD_FILE, "no `r`"},
      {BEGIN ", \"r\": 0}", TRI_BAD_FILE, "`r` is 0"},
      {BEGIN ", \"r\": 65537}", TRI_BAD_FILE, "`r` is 65537"},
      {BEGIN ", \"r\": 8.5}", TRI_BAD_FILE, "`r` is 8.5"},
      {BEGIN ", \"r\": 99999999999999999999}", TRI_BAD_FILE, "not valid JSON"},
      {"{\"peft_type\": \"LORA\", \"r\": 8}", TRI_BAD_FILE, "`lora_alpha`"},
      {"{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 1e300}", TRI_BAD_FILE, "`lora_alpha`"},
      {"{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 1e-300}", TRI_BAD_FILE, "`lora_alpha`"},
      {GOOD ", \"lora_dropout\": 1}", TRI_BAD_FILE, "`lora_dropout`"},
      {GOOD ", \"bias\": \"all\"}", TRI_UNSUPPORTED, "`bias` is \"all\""},
      {GOOD ", \"use_rslora\": \"yes\"}", TRI_BAD_FILE, "`use_rslora`"},
      {GOOD ", \"rank_pattern\": {\"q_proj\": 0}}", TRI_BAD_FILE, "`rank_pattern` of q_proj"},
      {GOOD ", \"rank_pattern\": {\"q_proj\": 4.5}}", TRI_BAD_FILE, "`rank_pattern` of q_proj"},
      {GOOD ", \"rank_pattern\": {\"(q_proj\": 4}}", TRI_UNSUPPORTED, "`rank_pattern`: (q_proj"},
      {GOOD ", \"rank_pattern\": [4]}", TRI_BAD_FILE, "`rank_pattern`"},
      {GOOD ", \"alpha_pattern\": {\"q_proj\": \"4\"}}", TRI_BAD_FILE, "`alpha_pattern` of q_proj"},
      {GOOD ", \"init_lora_weights\": \"pissa_niter_4\"}", TRI_UNSUPPORTED, "`init_lora_weights`"},
      {GOOD ", \"use_dora\": \"yes\"}", TRI_BAD_FILE, "`use_dora`"},
      {GOOD ", \"lora_bias\": true}", TRI_UNSUPPORTED, "`lora_bias` is true: factors with biases, which"},
      {GOOD ", \"layer_replication\": [[0, 2]]}", TRI_UNSUPPORTED,
       "`layer_replication` is [[0,2]]: layers of the base"},
      {GOOD ", \"trainable_token_indices\": [1]}", TRI_UNSUPPORTED, "`trainable_token_indices` is [1]: trained rows"},
      {GOOD ", \"alora_invocation_tokens\": [1]}", TRI_UNSUPPORTED, "`alora_invocation_tokens` is [1]: activated"},
      {GOOD ", \"arrow_config\": {\"top_k\": 3}}", TRI_UNSUPPORTED, "`arrow_config` is {\"top_k\":3}: routing"},
      {GOOD ", \"use_qalora\": true}", TRI_UNSUPPORTED, "`use_qalora` is true: QA-LoRA"},
      {"{\"peft_type\": \"ADALORA\"}", TRI_UNSUPPORTED, "`peft_type` is \"ADALORA\": another kind of adapter"},
      {GOOD ", \"lora_magic\": 1}", TRI_UNSUPPORTED, "`lora_magic`"},
      {GOOD ", \"target_modules\": [1]}", TRI_BAD_FILE, "`target_modules`"},
      {GOOD ", \"target_modules\": {}}", TRI_BAD_FILE, "`target_modules`"},
      {GOOD ", \"fan_in_fan_out\": \"no\"}", TRI_BAD_FILE, "`fan_in_fan_out`"},
      {GOOD ", \"trireme\": []}", TRI_BAD_FILE, "`trireme`"},
      {GOOD ", \"trireme\": {\"base\": \"0123\"}}", TRI_BAD_FILE, "`base`"},
      {GOOD ", \"trireme\": {\"base\": \"0123456789ABCDEF\"}}", TRI_BAD_FILE, "`base`"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CHECK_FAILS(tri_peft_parse("A/c", cases[i].text, strlen(cases[i].text), &peft), cases[i].status, cases[i].words);
  }
  assert_int_equal(tri_memory_bytes(), 0);
}

static void add_word(tri_trainable_words *words, const char *text) {
  snprintf(words->words[words->count++].text, TRI_TRAINABLE_WORD_BYTES, "%s", text);
}

static json_t *printed(const tri_peft *peft, const tri_model *model, char **text) {
  CHECK_OK(tri_peft_print(peft, model, text));
  json_t *document = json_loads(*text, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(document);
  return document;
}

static void test_print(void **state) {
  (void)state;
  static tri_peft peft, back;
  const tri_model model = small_model();
  char *text = NULL, *again = NULL;
  peft = (tri_peft){.adapter = {.rank = 8, .alpha = 16, .dropout = 0.05}, .base = "/models/gpt2"};
  snprintf(peft.signature.frame, sizeof peft.signature.frame, "0123456789abcdef");
  add_word(&peft.adapter.train, "transformer.ln_f.*");
  add_word(&peft.adapter.train, "*.c_attn.bias");
  json_t *document = printed(&peft, &model, &text);
  assert_non_null(strstr(text, "\"lora_dropout\": 0.05,"));
  json_t *wanted = json_loads(
      "{\"r\": 8, \"lora_alpha\": 16, \"fan_in_fan_out\": true, \"peft_type\": \"LORA\", "
      "\"bias\": \"none\", \"task_type\": \"CAUSAL_LM\", \"inference_mode\": true, "
      "\"base_model_name_or_path\": \"/models/gpt2\", \"rank_pattern\": {}, "
      "\"target_modules\": [\"c_attn\", \"c_proj\", \"c_fc\"], "
      "\"modules_to_save\": [\"transformer.ln_f\"]}",
      0, NULL);
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(wanted, key, value) {
    if (!json_equal(json_object_get(document, key), value)) fail_msg("%s in %s", key, text);
  }
  json_decref(wanted);
  json_decref(document);
  parse_good(text, &back);
  assert_int_equal(back.adapter.targets.count, 0);
  assert_int_equal(back.adapter.train.count, 2);
  assert_string_equal(back.signature.frame, "0123456789abcdef");
  CHECK_OK(tri_peft_print(&back, &model, &again));
  assert_string_equal(text, again);
  tri_free(again);
  tri_free(text);
  assert_int_equal(tri_memory_bytes(), 0);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static float factor_a[2 * 64], factor_b[192 * 2], moment[2 * 64];

static void fill(float *values, int64_t count, float first) {
  for (int64_t i = 0; i < count; i++) values[i] = first + (float)(i % 7) / 4;
}

static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}";

static void save_adapter(const char *root, int64_t shard_bytes, char path[TRI_PATH_BYTES]) {
  fill(factor_a, 2 * 64, -1);
  fill(factor_b, 192 * 2, 0.5f);
  const tri_checkpoint_tensor tensors[] = {
      {.name = FACTOR_A, .type = TRI_FP32, .num_dims = 2, .shape = {2, 64}, .data = factor_a},
      {.name = FACTOR_B, .type = TRI_FP32, .num_dims = 2, .shape = {192, 2}, .data = factor_b},
      {.name = FACTOR_A TRI_CHECKPOINT_MOMENT1, .type = TRI_FP32, .num_dims = 2, .shape = {2, 64}, .data = moment},
  };
  const tri_checkpoint_request request = {.root = root,
                                          .state = {.step = 3},
                                          .weights = tensors,
                                          .num_weights = 2,
                                          .optimizer = tensors + 2,
                                          .num_optimizer = 1,
                                          .shard_bytes = shard_bytes,
                                          .model_config = CT_CONFIG,
                                          .stem = TRI_PEFT_STEM,
                                          .adapter_config = config};
  CHECK_OK(tri_checkpoint_save(&request, path));
}

static void check_adapter(const char *path) {
  static float values[192 * 2];
  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_verify(NULL, path));
  CHECK_OK(tri_checkpoint_open(path, &checkpoint));
  assert_true(tri_checkpoint_is_adapter(checkpoint));
  assert_true(tri_peft_is_folder(path));
  const int64_t index = tri_checkpoint_index_of(checkpoint, FACTOR_B);
  assert_true(index >= 0);
  assert_string_equal(tri_checkpoint_get_entry(checkpoint, index).tensor->name, "base_model.model." FACTOR_B);
  assert_int_equal(tri_checkpoint_index_of(checkpoint, "base_model.model." FACTOR_B), index);
  assert_int_equal(tri_checkpoint_index_of(checkpoint, LAYER "attn.c_attn.weight"), -1);
  assert_true(tri_checkpoint_has(checkpoint, FACTOR_A TRI_CHECKPOINT_MOMENT1));
  CHECK_OK(tri_checkpoint_read(checkpoint, FACTOR_B, TRI_FP32, 2, (int64_t[]){192, 2}, NULL, values));
  assert_memory_equal(values, factor_b, sizeof factor_b);
  CHECK_FAILS(tri_checkpoint_read(checkpoint, "transformer.wte.weight", TRI_FP32, 2, (int64_t[]){17, 33}, NULL, values),
              TRI_BAD_FILE, "it is an adapter");
  tri_checkpoint_close(checkpoint);
}

static void test_checkpoint(void **state) {
  (void)state;
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES], file[TRI_PATH_BYTES];
  assert_int_equal(ct_make_root(root), 0);
  save_adapter(root, 0, path);
  assert_true(tri_path_exists(ct_join(file, path, "adapter_model.safetensors")));
  assert_false(tri_path_exists(ct_join(file, path, "model.safetensors")));
  check_adapter(path);
  save_adapter(root, 600, path);
  assert_true(tri_path_exists(ct_join(file, path, "adapter_model-00002-of-00002.safetensors")));
  assert_true(tri_path_exists(ct_join(file, path, "adapter_model.safetensors.index.json")));
  check_adapter(path);
  CHECK_OK(tri_directory_remove(root));
  assert_int_equal(tri_memory_bytes(), 0);
}

/* Damages a byte of each file in turn, adds a file that is not part of the checkpoint, and removes a file. */
static void test_damaged_checkpoints(void **state) {
  (void)state;
  static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors"};
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES], file[TRI_PATH_BYTES];
  static tri_peft peft;
  assert_int_equal(ct_make_root(root), 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    save_adapter(root, 0, path);
    FILE *open = fopen(ct_join(file, path, names[i]), "r+b");
    assert_non_null(open);
    fseek(open, -3, SEEK_END);
    const int byte = fgetc(open);
    fseek(open, -3, SEEK_END);
    fputc(byte ^ 1, open);
    fclose(open);
    CHECK_FAILS(tri_checkpoint_verify(NULL, path), TRI_BAD_FILE, names[i]);
    if (i == 0) CHECK_FAILS(tri_peft_load(path, true, &peft), TRI_BAD_FILE, "damaged");
  }
  save_adapter(root, 0, path);
  CHECK_OK(tri_file_replace(ct_join(file, path, "model.safetensors"), "x", 1));
  CHECK_FAILS(tri_checkpoint_verify(NULL, path), TRI_BAD_FILE, "model.safetensors is not listed");
  assert_int_equal(unlink(file), 0);
  assert_int_equal(unlink(ct_join(file, path, "adapter_config.json")), 0);
  CHECK_FAILS(tri_checkpoint_verify(NULL, path), TRI_BAD_FILE, "adapter_config.json");
  CHECK_OK(tri_directory_remove(root));
  assert_int_equal(tri_memory_bytes(), 0);
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Merges in pieces of any length: each element is W + scale B A. */
static void test_gemm_time(void **state) {
  (void)state;
  enum { ROWS = 37, COLUMNS = 300, RANK = 3 };
  static double left[ROWS * RANK], right[RANK * COLUMNS], values[ROWS * COLUMNS];
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  static float zeros[ROWS * COLUMNS];
  assert_int_equal(ct_make_root(root), 0);
  const tri_checkpoint_tensor tensor = {
      .name = "w.weight", .type = TRI_FP32, .num_dims = 2, .shape = {ROWS, COLUMNS}, .data = zeros};
  const tri_checkpoint_request request = {
      .root = root, .weights = &tensor, .num_weights = 1, .model_config = CT_CONFIG, .state = {.step = 1}};
  CHECK_OK(tri_checkpoint_save(&request, path));
  tri_merged merged = {.named = NULL};
  CHECK_OK(tri_checkpoint_open(path, &merged.named));
  for (int i = 0; i < ROWS * RANK; i++) left[i] = i % 11 - 5;
  for (int i = 0; i < RANK * COLUMNS; i++) right[i] = i % 13 - 6;
  const tri_low_rank factors = {left, right, COLUMNS, RANK, 0.5, NULL};
  const tri_parameter parameter = {.name = "w.weight", .num_dims = 2, .shape = {ROWS, COLUMNS}};
  for (int64_t done = 0, piece = 1; done < ROWS * COLUMNS; done += piece, piece = piece * 3 + 1) {
    if (piece > ROWS * COLUMNS - done) piece = ROWS * COLUMNS - done;
    const tri_checkpoint_slice slice = {.first = done, .count = piece, .data = values + done};
    CHECK_OK(tri_merged_read_part(&merged, &parameter, &factors, TRI_FP64, &slice, NULL));
  }
  for (int i = 0; i < ROWS; i++) {
    for (int j = 0; j < COLUMNS; j++) {
      double sum = 0;
      for (int k = 0; k < RANK; k++) sum += left[i * RANK + k] * right[k * COLUMNS + j];
      assert_true(values[i * COLUMNS + j] == 0.5 * sum);
    }
  }
  tri_merged_close(&merged);
  CHECK_OK(tri_directory_remove(root));
  assert_int_equal(tri_memory_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),     cmocka_unit_test(test_parse),      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_print),     cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_damaged_checkpoints),
      cmocka_unit_test(test_gemm_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
