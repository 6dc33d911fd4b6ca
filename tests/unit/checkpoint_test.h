/* Shared by the tests of checkpoints: a small model whose values identify the save that wrote them, a folder for each
 * test, and the library's log. */
#ifndef TRI_TESTS_CHECKPOINT_TEST_H
#define TRI_TESTS_CHECKPOINT_TEST_H

#include "check.h"

#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "files/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CT_WEIGHTS = 3, CT_OPTIMIZER = 4, CT_VALUES = 17 * 33 };

/* One save. `variant` distinguishes saves of the same step. */
typedef struct ct_save {
  const char *root;
  int64_t step, variant, keep;
  const char *tokenizer;
} ct_save;

static inline double ct_value(int64_t step, int64_t variant, int64_t tensor, int64_t i) {
  return (double)(step * 64 + variant * 16 + tensor) + (double)i / 1024.0;
}

static const tri_checkpoint_tensor ct_tensors[CT_WEIGHTS + CT_OPTIMIZER] = {
    {.name = "transformer.wte.weight", .type = TRI_FP32, .num_dims = 2, .shape = {17, 33}},
    {.name = "transformer.ln_f.bias", .type = TRI_FP32, .num_dims = 1, .shape = {561}},
    {.name = "transformer.h.0.attn.c_attn.weight", .type = TRI_FP64, .num_dims = 2, .shape = {51, 11}},
    {.name = "transformer.wte.weight" TRI_CHECKPOINT_MOMENT1, .type = TRI_FP32, .num_dims = 2, .shape = {17, 33}},
    {.name = "transformer.wte.weight" TRI_CHECKPOINT_MOMENT2, .type = TRI_FP32, .num_dims = 2, .shape = {17, 33}},
    {.name = "transformer.ln_f.bias" TRI_CHECKPOINT_MOMENT1, .type = TRI_FP32, .num_dims = 1, .shape = {561}},
    {.name = "transformer.ln_f.bias" TRI_CHECKPOINT_MOMENT2, .type = TRI_FP32, .num_dims = 1, .shape = {561}},
};

#define CT_CONFIG "{\"model_type\": \"gpt2\"}\n"

static inline tri_status ct_do_save(const ct_save *save, char path[TRI_PATH_BYTES]) {
  tri_checkpoint_tensor tensors[CT_WEIGHTS + CT_OPTIMIZER];
  static double data[CT_WEIGHTS + CT_OPTIMIZER][CT_VALUES];
  for (int64_t t = 0; t < CT_WEIGHTS + CT_OPTIMIZER; t++) {
    tensors[t] = ct_tensors[t];
    tensors[t].data = data[t];
    float *single = (float *)data[t];
    for (int64_t i = 0; i < CT_VALUES; i++) {
      double value = ct_value(save->step, save->variant, t, i);
      if (tensors[t].type == TRI_FP64) {
        data[t][i] = value;
      } else {
        single[i] = (float)value;
      }
    }
  }
  json_t *progress = json_pack("{s:I, s:f}", "variant", (json_int_t)save->variant, "best_loss", 3.25);
  const tri_checkpoint_request request = {
      .root = save->root,
      .state = {.step = save->step,
                .samples = 32 * save->step,
                .tokens = 32768 * save->step,
                .seed = UINT64_MAX,
                .run_config = "model: gpt2-124m\n",
                .progress = progress},
      .weights = tensors,
      .num_weights = CT_WEIGHTS,
      .optimizer = tensors + CT_WEIGHTS,
      .num_optimizer = CT_OPTIMIZER,
      .model_config = CT_CONFIG,
      .tokenizer = save->tokenizer,
      .keep = save->keep,
  };
  tri_status status = tri_checkpoint_save(&request, path);
  json_decref(progress);
  return status;
}

/* Checks that the checkpoint contains exactly what ct_do_save wrote for the step and the variant that it names. Returns
 * the step. */
static inline int64_t ct_check_content(const char *path) {
  static double data[CT_VALUES];
  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_open(path, &checkpoint));
  const tri_checkpoint_state *state = tri_checkpoint_get_state(checkpoint);
  assert_non_null(state);
  int64_t step = state->step, variant = (int64_t)json_integer_value(json_object_get(state->progress, "variant"));
  assert_int_equal(state->samples, 32 * step);
  assert_int_equal(state->tokens, 32768 * step);
  assert_true(state->seed == UINT64_MAX);
  assert_string_equal(state->run_config, "model: gpt2-124m\n");
  assert_true(json_real_value(json_object_get(state->progress, "best_loss")) == 3.25);
  assert_int_equal(tri_checkpoint_num_tensors(checkpoint), CT_WEIGHTS + CT_OPTIMIZER);
  for (int64_t t = 0; t < CT_WEIGHTS + CT_OPTIMIZER; t++) {
    const tri_checkpoint_tensor *tensor = &ct_tensors[t];
    CHECK_OK(tri_checkpoint_read(checkpoint, tensor->name, TRI_FP64, tensor->num_dims, tensor->shape, NULL, data));
    for (int64_t i = 0; i < CT_VALUES; i++) {
      double wanted = ct_value(step, variant, t, i);
      assert_true(data[i] == (tensor->type == TRI_FP64 ? wanted : (double)(float)wanted));
    }
  }
  tri_checkpoint_close(checkpoint);
  return step;
}

/* Creates a new empty folder below TMPDIR. */
static inline int ct_make_root(char root[TRI_PATH_BYTES]) {
  const char *base = getenv("TMPDIR");
  snprintf(root, TRI_PATH_BYTES, "%s/trireme-checkpoint-XXXXXX", base == NULL ? "/tmp" : base);
  return mkdtemp(root) == NULL ? -1 : 0;
}

static inline char *ct_join(char out[TRI_PATH_BYTES], const char *folder, const char *name) {
  CHECK_OK(tri_path_join(out, folder, name));
  return out;
}

/* Calls tri_checkpoint_newest, and returns its log lines in log. */
static inline tri_status ct_newest(const char *root, char path[TRI_PATH_BYTES], char *log, size_t log_bytes) {
  FILE *file = tmpfile();
  int saved = dup(STDERR_FILENO);
  fflush(stderr);
  dup2(fileno(file), STDERR_FILENO);
  tri_status status = tri_checkpoint_newest(NULL, root, path);
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  rewind(file);
  size_t held = fread(log, 1, log_bytes - 1, file);
  log[held] = '\0';
  fclose(file);
  return status;
}

#endif
