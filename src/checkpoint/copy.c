#include "checkpoint/copy.h"

#include "base/memory.h"
#include "checkpoint/copy_quantised.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_parts.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_targets.h"
#include "checkpoint/principal.h"
#include "checkpoint/tensor_list.h"
#include "checkpoint/ties.h"
#include "files/json_reader.h"
#include "model/module_names.h"
#include "model/trainable.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 4 << 20, CONFIG_LIMIT_BYTES = 1 << 24 };

/* ---- copying ----------------------------------------------------------------------------------------------------- */

/* Converts in[count] of type `from`, fp32 or fp64, to the narrower `type`. */
static void narrow(tri_dtype from, const void *in, int64_t count, tri_dtype type, void *out) {
  const float *singles = in;
  const double *doubles = in;
  const bool wide = tri_dtype_bytes(from) == sizeof *doubles;
  float *to_singles = out;
  uint16_t *to_halves = out;
  for (int64_t i = 0; i < count && tri_dtype_bytes(type) == sizeof *singles; i++) to_singles[i] = (float)doubles[i];
  for (int64_t i = 0; i < count && tri_dtype_bytes(type) == sizeof *to_halves; i++) {
    to_halves[i] = tri_bf16_of(wide ? tri_float_to_odd(doubles[i]) : singles[i]);
  }
}

typedef struct copying {
  const tri_merged *from;
  tri_dtype type;
  tri_checkpoint_saving *saving;
  tri_device *quantiser;   /* device that quantises the matrices of layers to 4 bits; NULL: all weights are written
                              as `type` */
  void *wide, *narrow;     /* [PIECE_ELEMENTS] each: wide: values as read; narrow: the same values as `type`, if that
                              is narrower */
  tri_saved_error strange; /* error about a value of the current tensor that is NaN or infinite */
  const tri_copy_adapter_request *doubled; /* request to subtract the factors' initial values, which doubles their rank;
                                              NULL: nothing is subtracted */
  const tri_tensor_list *matrices;         /* the model's tensors; only used with `doubled` */
  char of[TRI_PARAMETER_NAME_BYTES]; /* name of the matrix whose initial factors `first` has; "": `first` is empty */
  tri_principal first;
} copying;

/* Checks the values as read and as written, because rounding to a narrower type may make a large value infinite. */
static tri_status check_piece(const copying *c, const tri_parameter *parameter, tri_dtype read_as,
                              const tri_checkpoint_slice *slice) {
  const tri_checkpoint *from = tri_merged_source(c->from, parameter->name);
  tri_checkpoint_slice wide = *slice;
  wide.data = c->wide;
  TRI_TRY(tri_checkpoint_check_finite(from, parameter, read_as, &wide));
  return tri_checkpoint_check_finite(from, parameter, c->type, slice);
}

static tri_status copy_pieces(copying *c, const tri_parameter *parameter, const tri_low_rank *factors, int64_t number) {
  const tri_dtype read_as = tri_low_rank_is_plain(factors) ? tri_dtype_wide(c->type) : TRI_FP64;
  const int64_t count = tri_parameter_global_count(parameter);
  uint64_t sum = 0;
  for (int64_t done = 0; done < count;) {
    int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    tri_checkpoint_slice slice = {.tensor = number, .first = done, .count = piece, .data = c->wide};
    TRI_TRY(tri_merged_read_part(c->from, parameter, factors, read_as, &slice, &sum));
    if (read_as != c->type) {
      narrow(read_as, c->wide, piece, c->type, c->narrow);
      slice.data = c->narrow;
    }
    /* A wrong checksum is reported before a NaN, which may only be its consequence, so the NaN waits for the end of the
     * tensor. */
    tri_error_save(&c->strange, check_piece(c, parameter, read_as, &slice));
    if (c->strange.status == TRI_OK) TRI_TRY(tri_checkpoint_save_slice(c->saving, &slice));
    done += piece;
  }
  TRI_TRY(tri_merged_compare(c->from, parameter, sum));
  return tri_saved_error_restore(&c->strange);
}

/* Returns the matrix of a factor, "MODULE.weight" for "MODULE.lora_A.weight"; NULL if it is not a factor. Magnitudes
 * (DoRA) are not converted: the base plus the product of the doubled factors is the same matrix as before, so its norms
 * are the same. */
static const tri_parameter *matrix_of(const copying *c, const char *name) {
  char factor[TRI_PEFT_NAME_BYTES], matrix[TRI_PARAMETER_NAME_BYTES];
  tri_module_names(name, factor, sizeof factor);
  if (strstr(factor, ".lora_A.") == NULL && strstr(factor, ".lora_B.") == NULL) return NULL;
  const char *end = strstr(factor, ".lora_");
  const size_t length = end == NULL ? 0 : (size_t)(end - factor);
  for (int64_t t = 0; t < c->matrices->count && end != NULL; t++) {
    const tri_parameter *tensor = &c->matrices->tensors[t];
    tri_module_names(tensor->name, matrix, sizeof matrix);
    if (strncmp(matrix, factor, length) == 0 && strcmp(matrix + length, ".weight") == 0) return tensor;
  }
  return NULL;
}

/* Computes the initial values of both factors of a matrix, unless c->first already has them. The second factor of a
 * matrix directly follows the first in the list of tensors, so the values are computed once. */
static tri_status find_first(copying *c, const tri_parameter *matrix) {
  const tri_adapter_pair pair = tri_adapter_pair_of(c->doubled->with_base->adapter, matrix->name);
  if (strcmp(c->of, matrix->name) == 0) return TRI_OK;
  tri_principal_release(&c->first);
  c->of[0] = '\0';
  TRI_TRY(tri_principal_create(c->doubled->with_base->base, matrix, &pair, &c->first));
  snprintf(c->of, sizeof c->of, "%s", matrix->name);
  return TRI_OK;
}

/* Writes A [rank, in] above A0, or B [out, rank] with -B0 to its right. */
static tri_status make_doubled(copying *c, const tri_parameter *parameter, double *own, double *out) {
  const bool is_a = strstr(parameter->name, ".lora_A.") != NULL;
  const int64_t rank = c->first.rank, rows = is_a ? rank : parameter->shape[0];
  const int64_t columns = is_a ? parameter->shape[1] : rank;
  const int64_t shape[2] = {rows, columns};
  TRI_TRY(tri_checkpoint_read(c->from->named, parameter->name, TRI_FP64, 2, shape, NULL, own));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      const int64_t at = i * columns + j;
      out[is_a ? at : 2 * i * columns + j] = own[at];
      out[is_a ? rows * columns + at : (2 * i + 1) * columns + j] =
          is_a ? (double)c->first.a[at] : -(double)c->first.b[at];
    }
  }
  return TRI_OK;
}

static tri_status copy_doubled(copying *c, const tri_parameter *parameter, const tri_parameter *matrix,
                               int64_t number) {
  const int64_t count = tri_parameter_global_count(parameter);
  double *own = NULL, *both = NULL;
  void *halves = NULL;
  TRI_TRY(find_first(c, matrix));
  tri_status status = tri_alloc("a factor", (size_t)count, sizeof *own, &own);
  if (status == TRI_OK) status = tri_alloc("a factor", (size_t)count, sizeof *both, &both);
  if (status == TRI_OK) status = tri_alloc("a factor", (size_t)count, sizeof(float), &halves);
  if (status == TRI_OK) status = make_doubled(c, parameter, own, both);
  tri_checkpoint_slice slice = {.tensor = number, .count = count, .data = both};
  if (status == TRI_OK) status = tri_checkpoint_check_finite(c->from->named, parameter, TRI_FP64, &slice);
  if (status == TRI_OK && c->type != TRI_FP64) {
    narrow(TRI_FP64, both, count, c->type, halves);
    slice.data = halves;
    status = tri_checkpoint_check_finite(c->from->named, parameter, c->type, &slice);
  }
  if (status == TRI_OK) status = tri_checkpoint_save_slice(c->saving, &slice);
  tri_free(halves);
  tri_free(both);
  tri_free(own);
  return status;
}

static tri_status copy_tensor(copying *c, const tri_parameter *parameter, int64_t number) {
  tri_low_rank factors;
  const tri_parameter *matrix = c->doubled == NULL ? NULL : matrix_of(c, parameter->name);
  if (matrix != NULL) return copy_doubled(c, parameter, matrix, number);
  TRI_TRY(tri_merged_factors(c->from, parameter, &factors));
  tri_status status = copy_pieces(c, parameter, &factors, number);
  tri_low_rank_release(&factors);
  return status;
}

static bool is_quantised(const copying *c, const tri_parameter *parameter) {
  return c->quantiser != NULL && tri_trainable_can_quantise(parameter);
}

/* Reads a whole matrix in fp32, the input of the quantisation, merged with its factors. Compares its checksum, and
 * refuses NaN and infinity. */
static tri_status read_whole(copying *c, const tri_parameter *matrix, const tri_low_rank *factors, float *out) {
  const bool plain = tri_low_rank_is_plain(factors);
  const tri_dtype read_as = plain ? TRI_FP32 : TRI_FP64;
  const int64_t count = tri_parameter_global_count(matrix);
  uint64_t sum = 0;
  for (int64_t done = 0; done < count; done += PIECE_ELEMENTS) {
    const int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    const tri_checkpoint_slice slice = {.first = done, .count = piece, .data = plain ? (void *)(out + done) : c->wide};
    TRI_TRY(tri_merged_read_part(c->from, matrix, factors, read_as, &slice, &sum));
    if (!plain) narrow(read_as, c->wide, piece, TRI_FP32, out + done);
  }
  TRI_TRY(tri_merged_compare(c->from, matrix, sum));
  const tri_checkpoint_slice whole = {.count = count, .data = out};
  return tri_checkpoint_check_finite(tri_merged_source(c->from, matrix->name), matrix, TRI_FP32, &whole);
}

static tri_status copy_matrix(copying *c, const tri_parameter *matrix, int64_t number) {
  tri_low_rank factors;
  float *values = NULL;
  TRI_TRY(tri_merged_factors(c->from, matrix, &factors));
  tri_status status = tri_alloc("a matrix", (size_t)tri_parameter_global_count(matrix), sizeof *values, &values);
  if (status == TRI_OK) status = read_whole(c, matrix, &factors, values);
  if (status == TRI_OK) status = tri_copy_quantised_save(c->quantiser, matrix, c->type, values, number, c->saving);
  tri_free(values);
  tri_low_rank_release(&factors);
  return status;
}

static tri_status copy_all(copying *c, const tri_parameter *parameters, int64_t count) {
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 8, &c->wide));
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 4, &c->narrow));
  for (int64_t t = 0, number = 0; t < count; t++) {
    if (is_quantised(c, &parameters[t])) {
      TRI_TRY(copy_matrix(c, &parameters[t], number));
      number += TRI_QUANTISED_TENSORS;
    } else {
      TRI_TRY(copy_tensor(c, &parameters[t], number++));
    }
  }
  TRI_TRY(tri_checkpoint_save_write(c->saving));
  return tri_checkpoint_save_publish(c->saving);
}

/* Describes the parameters as tensors of a save in `tensors`, and returns their number. Writes the names of tensors in
 * 4 bits to `names`, to which the descriptions point. */
static int64_t describe_all(const copying *c, const tri_parameter *parameters, int64_t count,
                            char (*names)[TRI_QUANTISED_NAME_BYTES], tri_checkpoint_tensor *tensors) {
  int64_t number = 0;
  for (int64_t t = 0; t < count; t++) {
    const tri_parameter *parameter = &parameters[t];
    if (is_quantised(c, parameter)) {
      tri_copy_quantised_describe(parameter, names + number, tensors + number);
      number += TRI_QUANTISED_TENSORS;
      continue;
    }
    tri_checkpoint_tensor *tensor = &tensors[number++];
    *tensor = (tri_checkpoint_tensor){.name = parameter->name, .type = c->type, .num_dims = parameter->num_dims};
    for (int d = 0; d < parameter->num_dims; d++) tensor->shape[d] = parameter->shape[d];
  }
  return number;
}

/* Saves the parameters. Sets the tensors in `save`, whose other members the caller has set. */
static tri_status copy_listed(copying *c, const tri_parameter *parameters, int64_t count,
                              tri_checkpoint_request *save) {
  const size_t most = (size_t)count * (c->quantiser == NULL ? 1 : TRI_QUANTISED_TENSORS);
  tri_checkpoint_tensor *tensors = NULL;
  char(*names)[TRI_QUANTISED_NAME_BYTES] = NULL;
  TRI_TRY(tri_alloc("the table of a checkpoint", most, sizeof *tensors, &tensors));
  tri_status status =
      tri_alloc("the names of tensors in 4 bits", c->quantiser == NULL ? 0 : most, sizeof *names, &names);
  if (status == TRI_OK) {
    save->weights = tensors;
    save->num_weights = describe_all(c, parameters, count, names, tensors);
    status = tri_checkpoint_save_begin(save, &c->saving);
  }
  if (status == TRI_OK) {
    status = copy_all(c, parameters, count);
    tri_checkpoint_save_end(c->saving, status == TRI_OK);
  }
  tri_free(c->narrow);
  tri_free(c->wide);
  tri_free(names);
  tri_free(tensors);
  return status;
}

static tri_status print_config(const tri_copy_request *request, const tri_tensor_list *list, int32_t end_of_text,
                               char **out) {
  TRI_TRY(tri_huggingface_print(request->model, request->type, end_of_text, request->extra_files, out));
  TRI_TRY(tri_run_notes_add(request->notes, out));
  return request->quantised ? tri_copy_quantised_add_config(request->model, list, request->type, out) : TRI_OK;
}

static tri_status copy_model(const tri_copy_request *request, const tri_tensor_list *list) {
  copying c = {.from = request->from, .type = request->type};
  char *config = NULL;
  tri_extra_texts texts;
  if (request->quantised) TRI_TRY(tri_copy_quantised_check(request->from, list));
  TRI_TRY(tri_extra_texts_make(request->extra_files, request->tokenizer, -1, &texts));
  tri_status status = print_config(request, list, texts.end_of_text, &config);
  if (status == TRI_OK && request->quantised) status = tri_device_create("cpu", 0, &c.quantiser);
  tri_checkpoint_request save = {.folder = request->to,
                                 .plain = request->plain,
                                 .shard_bytes = request->shard_bytes,
                                 .model_config = config,
                                 .tokenizer = request->tokenizer,
                                 .extra_files = request->extra_files,
                                 .extra_texts = &texts};
  if (status == TRI_OK) status = copy_listed(&c, list->tensors, list->count, &save);
  tri_device_destroy(c.quantiser);
  tri_extra_texts_release(&texts);
  tri_free(config);
  return status;
}

static tri_status check_new(const char *to) {
  if (!tri_path_exists(to)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "%s already exists; name a new folder", to);
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

tri_status tri_checkpoint_copy(const tri_copy_request *request) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  TRI_TRY(check_new(request->to));
  TRI_TRY(tri_parameter_table_create(request->model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) status = copy_model(request, &list);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

/* ---- an adapter by itself ---------------------------------------------------------------------------------------- */

/* If the adapter trains a tied embedding, it has the embedding and not the head, but PEFT needs both. Then writes the
 * head's name to `out`, and lets the open adapter return the embedding when the head is read. Else writes "". */
static void find_tied(const tri_copy_adapter_request *request, char out[TRI_PARAMETER_NAME_BYTES]) {
  char path[TRI_PATH_BYTES], head[TRI_PARAMETER_NAME_BYTES], embedding[TRI_PARAMETER_NAME_BYTES];
  const char *folder = tri_checkpoint_path(request->from);
  tri_model model;
  out[0] = '\0';
  if (tri_path_join(path, folder, TRI_FILE_CONFIG) != TRI_OK || !tri_path_exists(path))
    return; /* the folder was written by PEFT, and has no config.json */
  if (tri_huggingface_load_unverified(folder, &model) != TRI_OK || !tri_ties_names(&model, head, embedding)) return;
  if (!tri_checkpoint_has(request->from, embedding) || tri_checkpoint_has(request->from, head)) return;
  tri_checkpoint_read_as((tri_checkpoint *)(uintptr_t)request->from, head, embedding);
  snprintf(out, TRI_PARAMETER_NAME_BYTES, "%s", head);
}

/* Replaces *config by the text of a document, and releases the document. */
static tri_status replace_config(json_t *document, char **config) {
  char *text = tri_huggingface_text(document), *copy = NULL;
  json_decref(document);
  if (text == NULL) return tri_fail_internal("an adapter's description cannot be written as JSON");
  tri_status status = tri_strdup(text, &copy);
  free(text);
  TRI_TRY(status);
  tri_free(*config);
  *config = copy;
  return TRI_OK;
}

/* Sets a key to true in the adapter_config.json in *config. */
static tri_status set_true(const char *key, char **config) {
  json_t *document = NULL;
  TRI_TRY(tri_json_parse(TRI_FILE_ADAPTER_CONFIG, *config, strlen(*config), 0, &document));
  json_object_set_new(document, key, json_true());
  return replace_config(document, config);
}

static tri_status rename_text(const char *text, char **out) {
  const size_t bytes = 2 * strlen(text) + 1; /* no new name is longer than twice the old one */
  TRI_TRY(tri_alloc("the name of a module", bytes, 1, out));
  tri_module_names(text, *out, bytes);
  return TRI_OK;
}

/* Sets *out to a copy of a key's value with renamed modules, which the caller releases: the value is a pattern, a list
 * of names, or an object whose keys are patterns. Sets *out to NULL for any other value. */
static tri_status rename_value(const json_t *value, json_t **out) {
  json_t *entry = NULL, *renamed = json_is_object(value) ? json_object() : json_is_array(value) ? json_array() : NULL;
  const char *key = NULL;
  char *text = NULL;
  size_t i = 0;
  tri_status status = TRI_OK;
  if (json_is_string(value)) {
    TRI_TRY(rename_text(json_string_value(value), &text));
    renamed = json_string(text);
    tri_free(text);
  }
  json_array_foreach(value, i, entry) {
    json_t *one = NULL;
    if (status == TRI_OK) status = rename_value(entry, &one);
    json_array_append_new(renamed, one);
  }
  json_object_foreach((json_t *)(uintptr_t)value, key, entry) {
    if (status == TRI_OK) status = rename_text(key, &text);
    if (status == TRI_OK) json_object_set(renamed, text, entry);
    tri_free(text);
    text = NULL;
  }
  *out = renamed;
  return status;
}

/* Renames modules in the adapter_config.json in *config to transformers 5's names, which the written tensors have as
 * well (tri_peft_name): an older adapter may have names of transformers 4. */
static tri_status rename_modules(char **config) {
  static const char *const keys[] = {"alpha_pattern", "exclude_modules", "modules_to_save", "rank_pattern",
                                     "target_modules"};
  json_t *document = NULL;
  if (!tri_module_names_differ(*config)) return TRI_OK;
  TRI_TRY(tri_json_parse(TRI_FILE_ADAPTER_CONFIG, *config, strlen(*config), 0, &document));
  tri_status status = TRI_OK;
  for (size_t k = 0; k < sizeof keys / sizeof keys[0] && status == TRI_OK; k++) {
    json_t *renamed = NULL;
    status = rename_value(json_object_get(document, keys[k]), &renamed);
    if (status == TRI_OK && renamed != NULL) json_object_set(document, keys[k], renamed);
    json_decref(renamed);
  }
  if (status == TRI_OK) return replace_config(document, config);
  json_decref(document);
  return status;
}

static void times(json_t *object, const char *key, double factor) {
  const double value = json_number_value(json_object_get(object, key)) * factor;
  json_object_set_new(object, key, value == floor(value) ? json_integer((json_int_t)value) : json_real(value));
}

/* Returns the factor of alpha that keeps the scale when the rank doubles. */
static double alpha_of_double(tri_scaling scaling) {
  switch (scaling) {
    case TRI_SCALING_LORA: break;
    case TRI_SCALING_RSLORA: return sqrt(2);
  }
  return 2;
}

/* Changes the adapter_config.json in *config to that of plain factors of twice the rank, whose initial values are not
 * subtracted, with the same scale of the products. */
static tri_status double_ranks(const tri_adapter *adapter, char **config) {
  static const char *const patterns[2] = {"rank_pattern", "alpha_pattern"};
  const double more[2] = {2, alpha_of_double(adapter->scaling)};
  json_t *document = NULL, *value = NULL;
  const char *key = NULL;
  TRI_TRY(tri_json_parse(TRI_FILE_ADAPTER_CONFIG, *config, strlen(*config), 0, &document));
  times(document, "r", more[0]);
  times(document, "lora_alpha", more[1]);
  for (int i = 0; i < 2; i++) {
    json_t *object = json_object_get(document, patterns[i]);
    json_object_foreach(object, key, value) { times(object, key, more[i]); }
  }
  json_object_set_new(document, "init_lora_weights", json_true());
  return replace_config(document, config);
}

/* Describes a tensor of the adapter as a parameter with our name. Fails if it is not a tensor of adapters, or if PEFT
 * does not read it. */
static tri_status describe_tensor(const tri_safetensors_tensor *tensor, const char *file, tri_parameter *out) {
  const char *name = tri_peft_own_name(tensor->name);
  if (tensor->num_dims < 1 || tensor->num_dims > 2 || strlen(name) >= sizeof out->name) {
    return tri_fail(TRI_BAD_FILE, "%s: the tensor `%.200s` is not one of an adapter's", file, tensor->name);
  }
  if (strstr(name, ".experts.") != NULL && strstr(name, ".lora_") == NULL) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: the tensor `%.200s` is of an expert that is trained as a whole (`adapter.train`), which PEFT "
                    "does not read by itself; write a model with --merge",
                    file, tensor->name);
  }
  *out = (tri_parameter){.num_dims = tensor->num_dims, .shape = {tensor->shape[0], 1}};
  if (tensor->num_dims == 2) out->shape[1] = tensor->shape[1];
  snprintf(out->name, sizeof out->name, "%s", name);
  return TRI_OK;
}

/* Copies the adapter's tensors, and `also`, a tensor that the checkpoint reads as another one ("": none). `parameters`
 * has room for all of them. With request->with_base the written factors have twice the rank; then fails with
 * TRI_UNSUPPORTED for factors of an embedding. */
static tri_status copy_described(const tri_copy_adapter_request *request, const char *config, const char *also,
                                 tri_parameter *parameters) {
  int64_t count = tri_checkpoint_num_tensors(request->from);
  const tri_merged from = {.named = (tri_checkpoint *)(uintptr_t)request->from};
  tri_parameter_table *table = NULL;
  tri_tensor_list matrices = {0};
  copying c = {.from = &from, .type = request->type, .matrices = &matrices};
  tri_checkpoint_request save = {.folder = request->to,
                                 .plain = true,
                                 .stem = TRI_PEFT_STEM,
                                 .adapter_config = config,
                                 .tokenizer = request->tokenizer,
                                 /* The extra files are the tokenizer's other files and the chat template, which the
                                  * base need not have. */
                                 .extra_files = request->tokenizer == NULL ? NULL : tri_checkpoint_path(request->from)};
  for (int64_t i = 0; i < count; i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(request->from, i);
    TRI_TRY(describe_tensor(entry.tensor, entry.file, &parameters[i]));
    if (request->with_base == NULL || strstr(parameters[i].name, ".lora_embedding_") == NULL) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%.200s` belongs to an embedding, for which PEFT's PiSSA has no singular vectors, so its "
                    "factors cannot be written as LoRA of twice the rank; use --merge",
                    entry.file, entry.tensor->name);
  }
  if (also[0] != '\0') {
    parameters[count] = parameters[tri_checkpoint_index_of(request->from, also)];
    snprintf(parameters[count++].name, sizeof parameters->name, "%s", also);
  }
  if (request->with_base == NULL) return copy_listed(&c, parameters, count, &save);
  c.doubled = request;
  TRI_TRY(tri_parameter_table_create(request->model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &matrices);
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    if (matrix_of(&c, parameters[i].name) == NULL) continue;
    parameters[i].shape[strstr(parameters[i].name, ".lora_A.") != NULL ? 0 : 1] *= 2;
  }
  if (status == TRI_OK) status = copy_listed(&c, parameters, count, &save);
  tri_principal_release(&c.first);
  tri_tensor_list_release(&matrices);
  tri_parameter_table_destroy(table);
  return status;
}

tri_status tri_checkpoint_copy_adapter(const tri_copy_adapter_request *request) {
  char path[TRI_PATH_BYTES], also[TRI_PARAMETER_NAME_BYTES], *config = NULL;
  size_t bytes = 0;
  tri_parameter *parameters = NULL;
  const int64_t count = tri_checkpoint_num_tensors(request->from);
  TRI_TRY(check_new(request->to));
  TRI_TRY(tri_peft_check_written(tri_checkpoint_path(request->from)));
  TRI_TRY(tri_path_join(path, tri_checkpoint_path(request->from), TRI_FILE_ADAPTER_CONFIG));
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &config, &bytes));
  tri_status status = tri_alloc("the tensors of an adapter", (size_t)count + 1, sizeof *parameters, &parameters);
  if (status == TRI_OK) status = tri_run_notes_add(request->notes, &config);
  if (status == TRI_OK && request->with_base != NULL) status = double_ranks(request->with_base->adapter, &config);
  if (status == TRI_OK) status = rename_modules(&config);
  find_tied(request, also);
  if (status == TRI_OK && also[0] != '\0') status = set_true("ensure_weight_tying", &config);
  if (status == TRI_OK) status = copy_described(request, config, also, parameters);
  tri_free(parameters);
  tri_free(config);
  return status;
}
