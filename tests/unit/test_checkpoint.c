/* Saving, finding, reading and removing checkpoints; damage of every kind. Crashes are in test_checkpoint_crash.c. */
#include "checkpoint_test.h"

#include "checkpoint/element_sum.h"
#include "checkpoint/output.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char root[TRI_PATH_BYTES];

static int set_up(void **state) {
  (void)state;
  return ct_make_root(root);
}

static int tear_down(void **state) {
  (void)state;
  return tri_directory_remove(root) != TRI_OK;
}

static void save(int64_t step, int64_t variant, int64_t keep) {
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = step, .variant = variant, .keep = keep}, NULL));
}

static bool exists(const char *name) {
  char path[TRI_PATH_BYTES];
  return tri_path_exists(ct_join(path, root, name));
}

static int64_t newest_step(void) {
  char path[TRI_PATH_BYTES];
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  return path[0] == '\0' ? -1 : ct_check_content(path);
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

/* Returns a pid that was in use and is free now. */
static pid_t dead_pid(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  return child;
}

/* ---- saving and reading ------------------------------------------------------------------------------------------ */

/* Runs first, since it measures the peak of the whole program: saving, reading and verifying must not hold a second
 * copy of the tensors. */
static void test_no_second_copy(void **state) {
  (void)state;
  size_t bytes = 96u << 20;
  float *data = malloc(bytes);
  for (size_t i = 0; i < bytes / 4; i++) data[i] = (float)i;
  tri_checkpoint_tensor tensor = {.name = "w", .type = TRI_FP32, .num_dims = 1, .shape = {(int64_t)(bytes / 4)}};
  tensor.data = data;
  const tri_checkpoint_request request = {
      .root = root, .state = {.step = 1}, .weights = &tensor, .num_weights = 1, .model_config = "{}"};
  char path[TRI_PATH_BYTES];
  CHECK_OK(tri_checkpoint_save(&request, NULL));
  memset(data, 0, bytes);
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_open(path, &checkpoint));
  assert_null(tri_checkpoint_get_state(checkpoint)->progress);
  assert_null(tri_checkpoint_get_state(checkpoint)->run_config);
  CHECK_OK(tri_checkpoint_read(checkpoint, "w", TRI_FP32, 1, tensor.shape, NULL, data));
  tri_checkpoint_close(checkpoint);
  for (size_t i = 0; i < bytes / 4; i++) assert_true(data[i] == (float)i);
  free(data);
  assert_true(tri_memory_peak_bytes() < TRI_CHECKPOINT_BUFFER_BYTES + (4u << 20));
  assert_int_equal(tri_memory_bytes(), 0);
}

static void test_round_trip(void **state) {
  (void)state;
  char tokenizer[TRI_PATH_BYTES], path[TRI_PATH_BYTES], file[TRI_PATH_BYTES], found[TRI_PATH_BYTES], wanted[64];
  write_text(ct_join(tokenizer, root, "tok.json"), "{\"model\": {}}");
  const ct_save request = {.root = root, .step = 1200, .tokenizer = tokenizer};
  CHECK_OK(ct_do_save(&request, path));
  assert_string_equal(strrchr(path, '/'), "/step-00001200");
  assert_int_equal(ct_check_content(path), 1200);
  CHECK_OK(tri_checkpoint_verify(NULL, path));
  CHECK_OK(tri_checkpoint_newest(NULL, root, found));
  assert_string_equal(found, path);
  char *text = NULL;
  CHECK_OK(tri_file_read(ct_join(file, path, "tokenizer.json"), 4096, &text, NULL));
  assert_string_equal(text, "{\"model\": {}}");
  tri_free(text);
  CHECK_OK(tri_file_read(ct_join(file, path, "config.json"), 4096, &text, NULL));
  assert_string_equal(text, CT_CONFIG);
  tri_free(text);

  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_open(path, &checkpoint));
  assert_string_equal(tri_checkpoint_path(checkpoint), path);
  for (int64_t i = 0; i < CT_WEIGHTS + CT_OPTIMIZER; i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(checkpoint, i);
    assert_string_equal(strrchr(entry.file, '/') + 1, i < CT_WEIGHTS ? "model.safetensors" : "optimizer.safetensors");
    assert_true(entry.has_checksum);
    double raw[CT_VALUES];
    size_t width = (size_t)tri_safetensors_type_bits(entry.tensor->type) / 8;
    tri_safetensors_file plain;
    CHECK_OK(tri_safetensors_open(entry.file, &plain));
    CHECK_OK(tri_safetensors_read_bytes(&plain, entry.tensor, 0, entry.tensor->bytes, raw));
    tri_safetensors_close(&plain);
    assert_true(entry.checksum == tri_element_sum(width, 0, (int64_t)(entry.tensor->bytes / width), raw));
  }
  /* Tensors of wider types come first. */
  assert_string_equal(tri_checkpoint_get_entry(checkpoint, 0).tensor->name, ct_tensors[2].name);
  assert_true(tri_checkpoint_has(checkpoint, "transformer.wte.weight"));
  assert_false(tri_checkpoint_has(checkpoint, "lm_head.weight"));

  float data[CT_VALUES];
  CHECK_FAILS(tri_checkpoint_read(checkpoint, "lm_head.weight", TRI_FP32, 2, (int64_t[]){17, 33}, NULL, data),
              TRI_BAD_FILE, "step-00001200 has no tensor `lm_head.weight`");
  snprintf(wanted, sizeof wanted, "has shape [17, 33], but the model's has [33, 17]");
  CHECK_FAILS(tri_checkpoint_read(checkpoint, "transformer.wte.weight", TRI_FP32, 2, (int64_t[]){33, 17}, NULL, data),
              TRI_BAD_FILE, wanted);
  CHECK_FAILS(tri_checkpoint_read(checkpoint, "transformer.wte.weight", TRI_FP32, 1, (int64_t[]){561}, NULL, data),
              TRI_BAD_FILE, "model.safetensors: tensor `transformer.wte.weight`");
  tri_checkpoint_close(checkpoint);
}

static void test_nothing_to_find(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES] = "x", absent[TRI_PATH_BYTES];
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  assert_string_equal(path, "");
  CHECK_OK(tri_checkpoint_newest(NULL, ct_join(absent, root, "absent"), path));
  assert_string_equal(path, "");
  tri_checkpoint *checkpoint = NULL;
  CHECK_FAILS(tri_checkpoint_open(absent, &checkpoint), TRI_BAD_FILE, "absent is not a folder");
  CHECK_FAILS(tri_checkpoint_open(root, &checkpoint), TRI_BAD_FILE,
              "is not a checkpoint: it has neither model.safetensors");
  CHECK_FAILS(tri_checkpoint_verify(NULL, root), TRI_BAD_FILE, "has no COMPLETE");
}

/* A root with several missing parent folders, and folders with names that are not the program's. */
static void test_new_root(void **state) {
  (void)state;
  char deep[TRI_PATH_BYTES], path[TRI_PATH_BYTES], other[TRI_PATH_BYTES];
  ct_join(deep, root, "runs/first/checkpoints");
  CHECK_OK(ct_do_save(&(ct_save){.root = deep, .step = 7}, path));
  const char *const others[] = {"step-9", "step-00000009x", "step-", "step-000000010", "mine", ".tmp-step-00000009-x"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    CHECK_OK(tri_directory_create(ct_join(other, deep, others[i])));
  }
  char found[TRI_PATH_BYTES];
  CHECK_OK(tri_checkpoint_newest(NULL, deep, found));
  assert_string_equal(found, path);
}

static void test_keep(void **state) {
  (void)state;
  for (int64_t step = 1; step <= 5; step++) save(step, 0, 0);
  assert_true(exists("step-00000001") && exists("step-00000005"));
  save(6, 0, 3);
  assert_false(exists("step-00000003"));
  assert_true(exists("step-00000004") && exists("step-00000005") && exists("step-00000006"));
  /* The run went back to an older step: the newest save is kept, although its step is lower. */
  save(2, 0, 2);
  assert_true(exists("step-00000002") && exists("step-00000006"));
  assert_false(exists("step-00000004") || exists("step-00000005"));
  save(3, 0, 1);
  assert_true(exists("step-00000003"));
  assert_false(exists("step-00000002") || exists("step-00000006"));
  assert_int_equal(newest_step(), 3);
  /* An incomplete folder does not count as one of the N, and is not removed. */
  char other[TRI_PATH_BYTES];
  CHECK_OK(tri_directory_create(ct_join(other, root, "step-00000009")));
  save(4, 0, 1);
  assert_true(exists("step-00000004") && exists("step-00000009"));
  assert_false(exists("step-00000003"));
  assert_int_equal(newest_step(), 4);
}

static void mark(int64_t step, bool proven) {
  CHECK_OK(proven ? tri_checkpoint_prove(root, step, 0) : tri_checkpoint_disprove(root, step));
}

static void test_keep_what_is_proven(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES];
  CHECK_OK(tri_checkpoint_newest_proven(root, path));
  assert_string_equal(path, "");
  for (int64_t step = 1; step <= 5; step++) save(step, 0, 0);
  mark(1, true);
  mark(2, true);
  mark(4, false);
  assert_int_equal(newest_step(), 5);
  save(6, 0, 2);
  assert_true(exists("step-00000002") && exists("step-00000005") && exists("step-00000006"));
  assert_false(exists("step-00000001") || exists("step-00000003") || exists("step-00000004"));
  CHECK_OK(tri_checkpoint_newest_proven(root, path));
  assert_non_null(strstr(path, "step-00000002"));
  mark(6, false);
  assert_int_equal(newest_step(), 5);
  assert_int_equal(tri_checkpoint_highest_step(root), 5);
  /* Once the newest checkpoint is proven, no more than the requested number are kept. */
  save(7, 0, 2);
  assert_true(exists("step-00000002") && exists("step-00000005"));
  CHECK_OK(tri_checkpoint_prove(root, 7, 2));
  assert_true(exists("step-00000005") && exists("step-00000007"));
  assert_false(exists("step-00000002") || exists("step-00000006"));
  /* A save of the same step begins without a mark. */
  save(7, 1, 2);
  CHECK_OK(tri_checkpoint_newest_proven(root, path));
  assert_string_equal(path, "");
}

/* A save with NaN or infinity leaves nothing, for every type and every position of the value. */
static void test_not_finite(void **state) {
  (void)state;
  save(1, 0, 0);
  float single[300];
  double wide[300];
  uint16_t half[300];
  void *const data[] = {single, wide, half};
  static const tri_dtype types[] = {TRI_FP32, TRI_FP64, TRI_BF16};
  for (int which = 0; which < 3 * 4; which++) {
    int type = which / 4, place = which % 2 == 0 ? 0 : 299;
    memset(single, 0x7e, sizeof single); /* large and finite */
    memset(wide, 0x7e, sizeof wide);
    memset(half, 0x7e, sizeof half);
    single[place] = wide[place] = which % 4 < 2 ? (double)NAN : -(double)INFINITY;
    half[place] = which % 4 < 2 ? 0x7fc0 : 0xff80;
    const tri_checkpoint_tensor tensor = {
        .name = "h.0.w", .type = types[type], .num_dims = 1, .shape = {300}, .data = data[type]};
    const tri_checkpoint_request request = {
        .root = root, .state = {.step = 2}, .weights = &tensor, .num_weights = 1, .model_config = CT_CONFIG, .keep = 1};
    assert_int_equal(tri_checkpoint_save(&request, NULL), TRI_DIVERGED);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "element %d of `h.0.w` is NaN or infinite", place);
    assert_non_null(strstr(tri_status_message(), wanted));
    assert_true(exists("step-00000001"));
    assert_false(exists("step-00000002"));
  }
}

static void test_same_step_again(void **state) {
  (void)state;
  save(5, 1, 2);
  save(5, 2, 2);
  char path[TRI_PATH_BYTES];
  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_newest(NULL, root, path));
  CHECK_OK(tri_checkpoint_open(path, &checkpoint));
  assert_int_equal(json_integer_value(json_object_get(tri_checkpoint_get_state(checkpoint)->progress, "variant")), 2);
  tri_checkpoint_close(checkpoint);
  assert_int_equal(ct_check_content(path), 5);
}

/* ---- Hugging Face folders ---------------------------------------------------------------------------------------- */

static void write_one(const char *name, const char *tensor_name, const float *values) {
  char path[TRI_PATH_BYTES], *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;
  tri_safetensors_tensor tensor = {.name = tensor_name, .type = TRI_SAFETENSORS_F32, .num_dims = 1, .shape = {4}};
  const void *data = values;
  CHECK_OK(tri_safetensors_layout(&tensor, 1, "pt", &header, &header_bytes, &file_bytes));
  ct_join(path, root, name);
  CHECK_OK(tri_safetensors_write(path, &tensor, &data, 1, header, header_bytes, file_bytes, NULL));
  tri_free(header);
}

static void test_plain_folder(void **state) {
  (void)state;
  const float values[4] = {1, 2, 3, 4};
  float back[4];
  write_one("model.safetensors", "wte.weight", values);
  tri_checkpoint *checkpoint = NULL;
  CHECK_OK(tri_checkpoint_open(root, &checkpoint));
  assert_null(tri_checkpoint_get_state(checkpoint));
  assert_false(tri_checkpoint_get_entry(checkpoint, 0).has_checksum);
  /* The file is that of a base model, whose names have no prefix. Its tensors are found by their names with and without
   * it. */
  CHECK_OK(tri_checkpoint_read(checkpoint, "transformer.wte.weight", TRI_FP32, 1, (int64_t[]){4}, NULL, back));
  assert_memory_equal(values, back, sizeof values);
  CHECK_OK(tri_checkpoint_read(checkpoint, "wte.weight", TRI_FP32, 1, (int64_t[]){4}, NULL, back));
  tri_checkpoint_close(checkpoint);
  CHECK_FAILS(tri_checkpoint_verify(NULL, root), TRI_BAD_FILE, "has no COMPLETE");
}

static void test_shards(void **state) {
  (void)state;
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  float back[4];
  char index[TRI_PATH_BYTES];
  tri_checkpoint *checkpoint = NULL;
  write_one("model-00001-of-00002.safetensors", "model.a", a);
  write_one("model-00002-of-00002.safetensors", "model.b", b);
  ct_join(index, root, "model.safetensors.index.json");
  write_text(index,
             "{\"metadata\": {\"total_size\": 32}, \"weight_map\": {\"model.b\": "
             "\"model-00002-of-00002.safetensors\", \"model.a\": \"model-00001-of-00002.safetensors\"}}");
  CHECK_OK(tri_checkpoint_open(root, &checkpoint));
  assert_int_equal(tri_checkpoint_num_tensors(checkpoint), 2);
  CHECK_OK(tri_checkpoint_read(checkpoint, "model.a", TRI_FP32, 1, (int64_t[]){4}, NULL, back));
  assert_memory_equal(a, back, sizeof a);
  CHECK_OK(tri_checkpoint_read(checkpoint, "model.b", TRI_FP32, 1, (int64_t[]){4}, NULL, back));
  assert_memory_equal(b, back, sizeof b);
  assert_string_equal(tri_checkpoint_get_entry(checkpoint, 1).tensor->name, "model.a");
  tri_checkpoint_close(checkpoint);

  static const struct {
    const char *text, *message;
  } bad[] = {
      {"{", "model.safetensors.index.json is not valid JSON at line 1"},
      {"{\"weight_map\": 3}", "has no `weight_map`"},
      {"{\"weight_map\": {\"a\": 3}}", "does not place `a` in a file of this folder"},
      {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "does not place `a` in a file of this folder"},
      {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", "gone.safetensors: No such file"},
      {"{\"weight_map\": {\"c\": \"model-00001-of-00002.safetensors\"}}",
       "model-00001-of-00002.safetensors has no tensor `c`, which"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    write_text(index, bad[i].text);
    CHECK_FAILS(tri_checkpoint_open(root, &checkpoint), TRI_BAD_FILE, bad[i].message);
  }
  assert_int_equal(tri_memory_bytes(), 0);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static const char *const parts[] = {"config.json",           "model.safetensors", "tokenizer.json",
                                    "optimizer.safetensors", "state.json",        "COMPLETE"};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Step 1 is good; step 2, at `path`, is about to be damaged. */
static void save_two(char path[TRI_PATH_BYTES]) {
  char tokenizer[TRI_PATH_BYTES];
  write_text(ct_join(tokenizer, root, "tok.json"), "{\"model\": {}}");
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 1, .tokenizer = tokenizer}, path));
  CHECK_OK(ct_do_save(&(ct_save){.root = root, .step = 2, .tokenizer = tokenizer}, path));
}

/* Checks that step 1 is now the newest, and that the log names this file as the reason why step 2 was ignored. */
static void expect_passed_over(const char *path, const char *part, const char *reason) {
  char found[TRI_PATH_BYTES], log[4096], wanted[TRI_PATH_BYTES + 64];
  CHECK_OK(ct_newest(root, found, log, sizeof log));
  assert_int_equal(ct_check_content(found), 1);
  snprintf(wanted, sizeof wanted, "passing over the checkpoint %s: ", path);
  if (strstr(log, wanted) == NULL) fail_msg("no \"%s\" in: %s", wanted, log);
  const char *rest = strstr(log, wanted) + strlen(wanted);
  if (strstr(rest, part) == NULL) fail_msg("no \"%s\" in: %s", part, rest);
  if (strstr(rest, reason) == NULL) fail_msg("no \"%s\" in: %s", reason, rest);
}

static void flip(const char *path, off_t place) {
  int file = open(path, O_RDWR);
  unsigned char byte = 0;
  assert_int_equal(pread(file, &byte, 1, place), 1);
  byte ^= (unsigned char)(1u << (place % 8));
  assert_int_equal(pwrite(file, &byte, 1, place), 1);
  close(file);
}

static off_t size_of(const char *path) {
  struct stat facts;
  assert_int_equal(stat(path, &facts), 0);
  return facts.st_size;
}

static void test_flipped_bytes(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], file[TRI_PATH_BYTES];
  save_two(path);
  for (int p = 0; p < PARTS; p++) {
    ct_join(file, path, parts[p]);
    off_t bytes = size_of(file), stride = bytes / 40 + 1;
    for (off_t place = 0; place < bytes; place += stride) {
      flip(file, place);
      expect_passed_over(path, parts[p], "");
      flip(file, place);
    }
  }
  assert_int_equal(newest_step(), 2);
  /* The message about damage in a tensor names the tensor. */
  ct_join(file, path, "model.safetensors");
  flip(file, size_of(file) - 1);
  expect_passed_over(path, "model.safetensors", "tensor `transformer.ln_f.bias` is damaged: its bytes [");
}

static void test_cut_and_grown_files(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], file[TRI_PATH_BYTES];
  save_two(path);
  for (int p = 0; p < PARTS; p++) {
    char *content = NULL;
    size_t bytes = 0;
    CHECK_OK(tri_file_read(ct_join(file, path, parts[p]), 1 << 20, &content, &bytes));
    const size_t cuts[] = {0, bytes / 2, bytes - 1};
    for (int c = 0; c < 3; c++) {
      assert_int_equal(truncate(file, (off_t)cuts[c]), 0);
      expect_passed_over(path, parts[p], p < 4 ? "it is truncated" : "is damaged");
      CHECK_OK(tri_file_replace(file, content, bytes));
    }
    assert_int_equal(truncate(file, (off_t)bytes + 1), 0);
    expect_passed_over(path, parts[p], "is damaged");
    CHECK_OK(tri_file_replace(file, content, bytes));
    tri_free(content);
  }
  assert_int_equal(newest_step(), 2);
}

static void test_missing_files(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], file[TRI_PATH_BYTES], aside[TRI_PATH_BYTES];
  save_two(path);
  for (int p = 0; p < PARTS; p++) {
    ct_join(file, path, parts[p]);
    assert_int_equal(rename(file, ct_join(aside, root, "aside")), 0);
    expect_passed_over(path, parts[p], p == PARTS - 1 ? "has no COMPLETE: the save was not finished" : "No such file");
    assert_int_equal(rename(aside, file), 0);
  }
  assert_int_equal(newest_step(), 2);
}

static void test_all_bad(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], file[TRI_PATH_BYTES], found[TRI_PATH_BYTES], log[4096];
  save_two(path);
  flip(ct_join(file, path, "model.safetensors"), 300);
  ct_join(path, root, "step-00000001");
  flip(ct_join(file, path, "optimizer.safetensors"), 3);
  CHECK_FAILS(ct_newest(root, found, log, sizeof log), TRI_BAD_FILE, "none of the 2 checkpoints in ");
  assert_non_null(strstr(log, "step-00000002"));
  assert_non_null(strstr(log, "step-00000001"));
}

/* A checkpoint of a later version is refused, although it is not damaged. */
static void test_later_version(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], file[TRI_PATH_BYTES], *text = NULL, line[128];
  size_t bytes = 0;
  save_two(path);
  CHECK_OK(tri_file_read(ct_join(file, path, "state.json"), 1 << 20, &text, &bytes));
  char *version = strstr(text, "\"version\": 2");
  assert_non_null(version);
  version[strlen("\"version\": ")] = '3';
  CHECK_OK(tri_file_replace(file, text, bytes));
  snprintf(line, sizeof line, "state.json %zu %016" PRIx64 "\n", bytes, tri_checksum(text, bytes));
  CHECK_OK(tri_file_replace(ct_join(file, path, "COMPLETE"), line, strlen(line)));
  tri_free(text);
  expect_passed_over(path, "state.json", "has format version 3; this program reads version 2");
  tri_checkpoint *checkpoint = NULL;
  CHECK_FAILS(tri_checkpoint_open(path, &checkpoint), TRI_UNSUPPORTED, "format version 3");
}

/* ---- what others left, and failing saves ------------------------------------------------------------------------- */

static void test_stale_folders(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], ours[64], dead[64], alive[64], old[64];
  pid_t gone = dead_pid();
  snprintf(ours, sizeof ours, ".tmp-step-00000003-%ld", (long)getpid());
  snprintf(dead, sizeof dead, ".tmp-step-00000004-%ld", (long)gone);
  snprintf(alive, sizeof alive, ".tmp-step-00000005-%ld", (long)getppid());
  snprintf(old, sizeof old, ".old-step-00000006-%ld", (long)gone);
  const char *const names[] = {ours, dead, alive, old};
  for (int i = 0; i < 4; i++) {
    CHECK_OK(tri_directory_create(ct_join(path, root, names[i])));
    char file[TRI_PATH_BYTES];
    write_text(ct_join(file, path, "model.safetensors"), "x");
  }
  assert_int_equal(newest_step(), -1);
  save(3, 0, 0);
  assert_false(exists(ours) || exists(dead) || exists(old) || exists(alive)); /* a number that is in use again */
  assert_int_equal(newest_step(), 3);
}

/* A crash between the two renames of a replacement: the old checkpoint has only its `.old-` name, and is found. It is
 * removed after the next save has succeeded, not before. */
static void test_interrupted_replacement(void **state) {
  (void)state;
  char path[TRI_PATH_BYTES], old[TRI_PATH_BYTES], name[64], file[TRI_PATH_BYTES];
  save(8, 0, 0);
  snprintf(name, sizeof name, ".old-step-00000008-%ld", (long)dead_pid());
  assert_int_equal(rename(ct_join(path, root, "step-00000008"), ct_join(old, root, name)), 0);
  assert_int_equal(newest_step(), 8);
  const ct_save bad = {.root = root, .step = 9, .tokenizer = "/proc/none/tokenizer.json"};
  CHECK_FAILS(ct_do_save(&bad, NULL), TRI_BAD_FILE, "cannot open /proc/none/tokenizer.json");
  assert_int_equal(newest_step(), 8);
  /* The remains of a removal are neither found nor logged. */
  char log[4096];
  assert_int_equal(unlink(ct_join(file, old, "COMPLETE")), 0);
  CHECK_OK(ct_newest(root, path, log, sizeof log));
  assert_string_equal(path, "");
  assert_string_equal(log, "");
  save(9, 0, 0);
  assert_false(exists(name));
}

static void test_failing_saves(void **state) {
  (void)state;
  char temporary[64], file[TRI_PATH_BYTES];
  save(1, 0, 0);
  snprintf(temporary, sizeof temporary, ".tmp-step-00000002-%ld", (long)getpid());
  CHECK_FAILS(ct_do_save(&(ct_save){.root = root, .step = 2, .tokenizer = root}, NULL), TRI_BAD_FILE,
              " is a folder, not a plain file");
  assert_false(exists(temporary) || exists("step-00000002"));
  write_text(ct_join(file, root, "file"), "");
  CHECK_FAILS(ct_do_save(&(ct_save){.root = file, .step = 2}, NULL), TRI_IO_FAILED, "cannot create the directory ");
  assert_int_equal(newest_step(), 1);
  assert_int_equal(tri_memory_bytes(), 0);
}

/* Checks that the old checkpoint remains good, that nothing of the new one remains, and that the message has the
 * required bytes. */
static void expect_full(const char *where, const char *reason) {
  char path[TRI_PATH_BYTES], wanted[TRI_PATH_BYTES + 256], temporary[TRI_PATH_BYTES], name[64];
  size_t bytes = 8u << 20;
  float *data = calloc(bytes, 1);
  const tri_checkpoint_tensor tensor = {
      .name = "w", .type = TRI_FP32, .num_dims = 1, .shape = {(int64_t)(bytes / 4)}, .data = data};
  const tri_checkpoint_request request = {
      .root = where, .state = {.step = 2}, .weights = &tensor, .num_weights = 1, .model_config = "{}"};
  snprintf(name, sizeof name, ".tmp-step-00000002-%ld", (long)getpid());
  ct_join(temporary, where, name);
  snprintf(wanted, sizeof wanted, "cannot write %s/model.safetensors: %s; the file needs 8.00 MiB (8388", temporary,
           reason);
  CHECK_FAILS(tri_checkpoint_save(&request, NULL), TRI_IO_FAILED, wanted);
  free(data);
  assert_false(tri_path_exists(temporary));
  CHECK_OK(tri_checkpoint_newest(NULL, where, path));
  assert_int_equal(ct_check_content(path), 1);
}

static void test_file_size_limit(void **state) {
  (void)state;
  save(1, 0, 0);
  struct rlimit limit, lower;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  lower = limit;
  lower.rlim_cur = 1 << 20;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &lower), 0);
  expect_full(root, "File too large: beyond this process's file size limit (ulimit -f); raise it");
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, SIG_DFL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_no_second_copy),
      TEST(test_round_trip),
      TEST(test_nothing_to_find),
      TEST(test_new_root),
      TEST(test_keep),
      TEST(test_keep_what_is_proven),
      TEST(test_not_finite),
      TEST(test_same_step_again),
      TEST(test_plain_folder),
      TEST(test_shards),
      TEST(test_flipped_bytes),
      TEST(test_cut_and_grown_files),
      TEST(test_missing_files),
      TEST(test_all_bad),
      TEST(test_later_version),
      TEST(test_stale_folders),
      TEST(test_interrupted_replacement),
      TEST(test_failing_saves),
      TEST(test_file_size_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
