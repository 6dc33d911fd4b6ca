#include "llamacpp/import.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/named_folder.h"
#include "llamacpp/read_model.h"
#include "llamacpp/tensors.h"
#include "llamacpp/tokenizer_files.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* PIECE_ELEMENTS: number of elements that are read and converted at once, unless the rows of a tensor change their
 * order. DECODED_AT_ONCE: number of elements that a thread converts at once, a multiple of all blocks. */
enum { PIECE_ELEMENTS = 4 << 20, DECODED_AT_ONCE = 1 << 16 };

/* A source of a tensor of the file: one of the model's tensors. */
typedef struct origin {
  const tri_llamacpp_tensor *tensor;
  int64_t number; /* index among the tensor's sources */
} origin;

typedef struct importing {
  const tri_gguf_file *file;
  const tri_tensor_list *list;
  origin *origins; /* [list->count] */
  tri_checkpoint_saving *saving;
  void *encoded;
  float *values, *ordered;
  size_t encoded_room, values_room, ordered_room;
} importing;

/* ---- the tensors of the file ------------------------------------------------------------------------------------- */

static tri_status check_tensor(const tri_gguf_file *file, const tri_llamacpp_tensor *wanted) {
  const tri_gguf_tensor *found = tri_gguf_find_tensor(file, wanted->name);
  char shape[96];
  if (found == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has no tensor `%s`, which the model that its keys describe has", file->path,
                    wanted->name);
  }
  if (memcmp(found->dims, wanted->dims, sizeof found->dims) != 0) {
    snprintf(shape, sizeof shape, "%" PRId64 " x %" PRId64 " x %" PRId64, wanted->dims[0], wanted->dims[1],
             wanted->dims[2]);
    return tri_fail(TRI_BAD_FILE, "%s: the tensor `%s` is %" PRId64 " x %" PRId64 " x %" PRId64 ", but the keys say %s",
                    file->path, wanted->name, found->dims[0], found->dims[1], found->dims[2], shape);
  }
  if (found->type->decode != NULL) return TRI_OK;
  return tri_fail(
      TRI_UNSUPPORTED,
      "%s: the tensor `%s` has the type %s, which is not read; take a file in Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, "
      "Q6_K, F16, BF16 or F32, or the Hugging Face folder",
      file->path, wanted->name, found->type->name);
}

/* Fails unless a vector that the model does not have is 0. */
static tri_status check_zeros(const tri_gguf_file *file, const tri_llamacpp_tensor *wanted) {
  const tri_gguf_tensor *found = tri_gguf_find_tensor(file, wanted->name);
  float *values = NULL;
  bool zero = found->type->number == TRI_GGUF_F32;
  TRI_TRY(tri_alloc("a vector", (size_t)found->dims[0], sizeof *values, &values));
  const tri_status status = zero ? tri_gguf_read(file, found, 0, found->bytes, values) : TRI_OK;
  for (int64_t i = 0; i < found->dims[0] && zero; i++) zero = values[i] == 0;
  tri_free(values);
  TRI_TRY(status);
  if (zero) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s: `%s` is not 0, but the model has no biases of q, k and v; it is not supported",
                  file->path, wanted->name);
}

/* Finds the origin of each of the model's tensors. Fails if the file lacks a tensor, or has one that the model does not
 * have. */
static tri_status match(importing *at, const tri_llamacpp_tensors *tensors) {
  TRI_TRY(tri_alloc("the tensors of a file", (size_t)at->list->count, sizeof *at->origins, &at->origins));
  for (int64_t i = 0; i < tensors->count; i++) {
    const tri_llamacpp_tensor *tensor = &tensors->all[i];
    TRI_TRY(check_tensor(at->file, tensor));
    if (tensor->source == NULL && tensor->values == NULL) TRI_TRY(check_zeros(at->file, tensor));
    for (int64_t k = 0; tensor->source != NULL && k < tensor->num_sources; k++) {
      origin *of = &at->origins[tensor->source + k * tensor->stride - at->list->tensors];
      if (of->tensor == NULL) *of = (origin){tensor, k};
    }
  }
  for (int64_t i = 0; i < at->file->num_tensors; i++) {
    const char *name = at->file->tensors[i].name;
    bool known = false;
    for (int64_t k = 0; k < tensors->count && !known; k++) known = strcmp(tensors->all[k].name, name) == 0;
    if (known) continue;
    return tri_fail(TRI_UNSUPPORTED, "%s has a tensor `%s`, which this architecture does not have here", at->file->path,
                    name);
  }
  return TRI_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct decoding {
  const tri_gguf_file *file;
  const tri_gguf_type *type;
  const char *in;
  float *out;
  int64_t count;
} decoding;

static tri_status decode_part(void *context, int64_t i, int thread) {
  const decoding *of = context;
  const int64_t first = i * DECODED_AT_ONCE, left = of->count - first;
  const int64_t count = left < DECODED_AT_ONCE ? left : DECODED_AT_ONCE;
  (void)thread;
  return tri_gguf_decode(of->type, of->file->path, count / of->type->elements,
                         of->in + first / of->type->elements * of->type->bytes, of->out + first);
}

/* Reads elements of a tensor of the file, which are whole blocks, into at->values. */
static tri_status read_values(importing *at, const tri_gguf_tensor *from, int64_t first, int64_t count) {
  const tri_gguf_type *type = from->type;
  const uint64_t begin = (uint64_t)(first / type->elements * type->bytes);
  const uint64_t bytes = (uint64_t)(count / type->elements * type->bytes);
  TRI_TRY(tri_reserve("a piece of a file", 1, (size_t)bytes, &at->encoded_room, &at->encoded));
  TRI_TRY(tri_reserve("a piece of a tensor", sizeof *at->values, (size_t)count, &at->values_room, &at->values));
  TRI_TRY(tri_gguf_read(at->file, from, begin, bytes, at->encoded));
  decoding part = {at->file, type, at->encoded, at->values, count};
  return tri_parallel_for((count + DECODED_AT_ONCE - 1) / DECODED_AT_ONCE, tri_loop_threads(), decode_part, &part);
}

static tri_status save(importing *at, int64_t number, int64_t first, int64_t count, const float *values) {
  const tri_checkpoint_slice slice = {
      .tensor = number, .first = first, .count = count, .data = (void *)(uintptr_t)values};
  const tri_status status = tri_checkpoint_save_slice(at->saving, &slice);
  if (status != TRI_DIVERGED) return status;
  return tri_fail(TRI_BAD_FILE, "%s: the tensor `%s` has a value that is NaN or infinite", at->file->path,
                  at->origins[number].tensor->name);
}

static tri_status import_tensor(importing *at, int64_t number) {
  const origin *of = &at->origins[number];
  const tri_llamacpp_tensor *tensor = of->tensor;
  const tri_gguf_tensor *from = tri_gguf_find_tensor(at->file, tensor->name);
  const int64_t all = tri_parameter_global_count(&at->list->tensors[number]), row = tensor->dims[0];
  const bool whole = !tri_llamacpp_keeps_order(tensor);
  const int64_t rows = PIECE_ELEMENTS / row > 0 ? PIECE_ELEMENTS / row : 1;
  for (int64_t done = 0; done < all;) {
    const int64_t count = whole || all - done < rows * row ? all - done : rows * row;
    TRI_TRY(read_values(at, from, of->number * all + done, count));
    for (int64_t i = 0; i < count && tensor->added != 0; i++) at->values[i] -= (float)tensor->added;
    const float *values = at->values;
    if (whole) {
      TRI_TRY(tri_reserve("a tensor", sizeof *at->ordered, (size_t)count, &at->ordered_room, &at->ordered));
      tri_llamacpp_reorder(tensor, true, at->values, at->ordered);
      values = at->ordered;
    }
    TRI_TRY(save(at, number, done, count, values));
    done += count;
  }
  return TRI_OK;
}

/* ---- the checkpoint ---------------------------------------------------------------------------------------------- */

static tri_status import_all(importing *at, tri_checkpoint_request *request) {
  tri_checkpoint_tensor *weights = NULL;
  const int64_t count = at->list->count;
  TRI_TRY(tri_alloc("the table of a checkpoint", (size_t)count, sizeof *weights, &weights));
  for (int64_t i = 0; i < count; i++) {
    const tri_parameter *of = &at->list->tensors[i];
    weights[i] = (tri_checkpoint_tensor){.name = of->name, .type = TRI_FP32, .num_dims = of->num_dims};
    for (int d = 0; d < of->num_dims; d++) weights[i].shape[d] = of->shape[d];
  }
  request->weights = weights;
  request->num_weights = count;
  tri_status status = tri_checkpoint_save_begin(request, &at->saving);
  if (status == TRI_OK) {
    for (int64_t i = 0; i < count && status == TRI_OK; i++) status = import_tensor(at, i);
    if (status == TRI_OK) status = tri_checkpoint_save_write(at->saving);
    if (status == TRI_OK) status = tri_checkpoint_save_publish(at->saving);
    tri_checkpoint_save_end(at->saving, status == TRI_OK);
  }
  tri_free(weights);
  return status;
}

/* Saves the model with the tokenizer of `folder`. */
static tri_status save_model(const tri_llamacpp_import_request *request, importing *at, const tri_model *model,
                             const char *folder) {
  char tokenizer[TRI_PATH_BYTES], *config = NULL;
  tri_extra_texts texts;
  bool found = false;
  TRI_TRY(tri_tokenizer_of_folder(folder, tokenizer, &found));
  if (!found) return tri_fail(TRI_BAD_USAGE, "import: --tokenizer %s has no tokenizer.json", folder);
  TRI_TRY(tri_extra_texts_make(folder, tokenizer, -1, &texts));
  tri_status status = tri_huggingface_print(model, TRI_FP32, texts.end_of_text, folder, &config);
  tri_checkpoint_request save = {.folder = request->to,
                                 .shard_bytes = request->shard_bytes,
                                 .model_config = config,
                                 .tokenizer = tokenizer,
                                 .extra_files = folder,
                                 .extra_texts = &texts};
  if (status == TRI_OK) status = import_all(at, &save);
  tri_extra_texts_release(&texts);
  tri_free(config);
  return status;
}

/* Writes a generation_config.json with the tokens that end a text, if the file has other ones than eos_token_id. */
static tri_status write_ends(const tri_gguf_file *file, const char *folder) {
  static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
  char path[TRI_PATH_BYTES], text[128] = "{\"eos_token_id\": [";
  size_t used = strlen(text);
  int count = 0;
  int64_t ids[3] = {-1, -1, -1};
  for (int i = 0; i < 3; i++) {
    if (tri_gguf_find_key(file, keys[i]) == NULL) continue;
    TRI_TRY(tri_gguf_get_integer(file, keys[i], &ids[i]));
    if (ids[i] < 0 || ids[i] > INT32_MAX || (i > 0 && ids[i] == ids[0]) || (i > 1 && ids[i] == ids[1])) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, count++ > 0 ? ", " : "", ids[i]);
  }
  if (count < 2) return TRI_OK;
  TRI_TRY(tri_path_join(path, folder, "generation_config.json"));
  used += (size_t)snprintf(text + used, sizeof text - used, "]}\n");
  return tri_file_replace(path, text, used);
}

/* Saves the model with the tokenizer that the request names, or with that of the file, whose files exist only until
 * then.
 */
static tri_status save_with_tokenizer(const tri_llamacpp_import_request *request, importing *at,
                                      const tri_model *model) {
  char name[TRI_PATH_BYTES];
  tri_named_folder files;
  if (request->tokenizer != NULL) return save_model(request, at, model, request->tokenizer);
  TRI_TRY(tri_path_with(name, request->to, ".tokenizer"));
  TRI_TRY(tri_named_folder_begin(name, &files));
  tri_status status = tri_llamacpp_write_tokenizer(at->file, files.temporary);
  if (status == TRI_OK) status = write_ends(at->file, files.temporary);
  if (status == TRI_OK) status = save_model(request, at, model, files.temporary);
  const tri_status dropped = tri_named_folder_drop(&files);
  return status == TRI_OK ? dropped : status;
}

static tri_status import_model(const tri_llamacpp_import_request *request, const tri_gguf_file *file) {
  const tri_llamacpp_arch *arch = NULL;
  tri_model model;
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  tri_llamacpp_tensors tensors = {0};
  importing at = {.file = file, .list = &list};
  TRI_TRY(tri_llamacpp_read_model(file, &model, &arch));
  TRI_TRY(tri_parameter_table_create(&model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK)
    status = tri_llamacpp_tensors_create(arch, &model, &list, tri_gguf_type_of(TRI_GGUF_F32), &tensors);
  if (status == TRI_OK) status = match(&at, &tensors);
  if (status == TRI_OK) status = save_with_tokenizer(request, &at, &model);
  tri_free(at.origins);
  tri_free(at.encoded);
  tri_free(at.values);
  tri_free(at.ordered);
  tri_llamacpp_tensors_release(&tensors);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

bool tri_llamacpp_is_file(const char *path) {
  char magic[4] = "";
  int file = -1;
  if (tri_path_is_directory(path) || tri_file_open_plain(path, &file) != TRI_OK) return false;
  const bool is = read(file, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
  (void)close(file);
  return is;
}

tri_status tri_llamacpp_import(const tri_llamacpp_import_request *request) {
  tri_gguf_file file;
  if (tri_path_exists(request->to)) {
    return tri_fail(TRI_BAD_USAGE, "%s already exists; name a new folder", request->to);
  }
  TRI_TRY(tri_gguf_open(request->from, &file));
  const tri_status status = import_model(request, &file);
  tri_gguf_close(&file);
  return status;
}
