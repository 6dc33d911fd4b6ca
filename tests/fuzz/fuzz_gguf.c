/* A GGUF file with any content: names of an accepted file are found, its tensors are in the file and can be read, its
 * values can be got by their types, its tokenizer is refused or becomes two JSON files, and its keys are refused or
 * describe a model whose tensors can be listed. */
#include "fuzz_file.h"
#include "gguf/gguf.h"
#include "llamacpp/read_model.h"
#include "llamacpp/tensors.h"
#include "llamacpp/tokenizer_files.h"

#include <jansson.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition) {
  if (!condition) abort();
}

static void get_array(const tri_gguf_file *file, const tri_gguf_key *key) {
  tri_gguf_text *texts = NULL;
  int64_t *integers = NULL, count = 0;
  double *numbers = NULL;
  size_t sum = 0;
  if (tri_gguf_get_strings(file, key->name, &texts, &count) == TRI_OK) {
    for (int64_t i = 0; i < count; i++) {
      for (size_t c = 0; c < texts[i].bytes; c++) sum += (size_t)texts[i].text[c];
    }
    require(sum != 1 || texts != NULL);
  }
  (void)tri_gguf_get_integers(file, key->name, &integers, &count);
  (void)tri_gguf_get_numbers(file, key->name, &numbers, &count);
  tri_free(texts);
  tri_free(integers);
  tri_free(numbers);
}

static void get_value(const tri_gguf_file *file, const tri_gguf_key *key) {
  const char *text = NULL;
  int64_t integer = 0;
  double number = 0;
  bool truth = false;
  require(tri_gguf_find_key(file, key->name) == key);
  if (tri_gguf_get_string(file, key->name, &text) == TRI_OK) require(strlen(text) == key->data_bytes);
  (void)tri_gguf_get_integer(file, key->name, &integer);
  (void)tri_gguf_get_number(file, key->name, &number);
  (void)tri_gguf_get_bool(file, key->name, &truth);
  get_array(file, key);
}

static void read_tensor(const tri_gguf_file *file, const tri_gguf_tensor *tensor) {
  static char in[4096];
  static float out[4096 * TRI_GGUF_BLOCK_ELEMENTS];
  const int64_t most = (int64_t)sizeof in / tensor->type->bytes, all = (int64_t)tensor->bytes / tensor->type->bytes,
                blocks = all < most ? all : most;
  require(tri_gguf_find_tensor(file, tensor->name) == tensor && tensor->offset >= file->data_offset);
  require(tensor->offset % file->alignment == file->data_offset % file->alignment);
  require(tensor->bytes == 0 || tensor->offset + tensor->bytes <= file->file_bytes);
  require(tri_gguf_read(file, tensor, 0, (uint64_t)(blocks * tensor->type->bytes), in) == TRI_OK);
  (void)tri_gguf_decode(tensor->type, file->path, blocks, in, out);
}

static void require_object(char *text) {
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  require(json_is_object(root));
  json_decref(root);
  free(text);
}

static void make_tokenizer(const tri_gguf_file *file) {
  char *json = NULL, *config = NULL;
  const tri_status status = tri_llamacpp_tokenizer_json(file, &json, &config);
  require(status == TRI_OK || status == TRI_BAD_FILE || status == TRI_UNSUPPORTED);
  if (status != TRI_OK) return;
  require_object(json);
  require_object(config);
}

/* Reads the model of a file; lists the tensors of a small one. */
static void read_model(const tri_gguf_file *file) {
  enum { SMALL = 4 };
  const tri_llamacpp_arch *arch = NULL;
  tri_model model;
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  tri_llamacpp_tensors tensors = {0};
  const tri_status status = tri_llamacpp_read_model(file, &model, &arch);
  require(status == TRI_OK || status == TRI_BAD_FILE || status == TRI_UNSUPPORTED);
  if (status != TRI_OK || model.num_layers > SMALL || model.num_experts > SMALL) return;
  require(tri_parameter_table_create(&model, NULL, &table) == TRI_OK && tri_tensor_list_create(table, &list) == TRI_OK);
  const tri_gguf_type *type = tri_gguf_type_of(TRI_GGUF_F32);
  if (tri_llamacpp_tensors_create(arch, &model, &list, type, &tensors) == TRI_OK) require(tensors.count > 0);
  tri_llamacpp_tensors_release(&tensors);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
}

static tri_status read_file(const char *path) {
  tri_gguf_file file;
  TRI_TRY(tri_gguf_open(path, &file));
  for (int64_t k = 0; k < file.num_keys; k++) get_value(&file, &file.keys[k]);
  for (int64_t t = 0; t < file.num_tensors; t++) read_tensor(&file, &file.tensors[t]);
  make_tokenizer(&file);
  read_model(&file);
  tri_gguf_close(&file);
  return TRI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_with_file(data, bytes, read_file);
  return 0;
}
