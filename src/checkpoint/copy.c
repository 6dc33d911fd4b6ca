#include "checkpoint/copy.h"

#include "base/memory.h"
#include "checkpoint/huggingface.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_ELEMENTS = 4 << 20 };

/* ---- what there is ----------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *ending) {
  size_t length = strlen(text), tail = strlen(ending);
  return length >= tail && strcmp(text + length - tail, ending) == 0;
}

/* Masks and frequencies, which follow from the configuration; what an optimizer keeps. */
static bool may_be_left(const char *name) {
  static const char *const endings[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq",
                                        TRI_CHECKPOINT_MOMENT1, TRI_CHECKPOINT_MOMENT2};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    if (ends_with(name, endings[i])) return true;
  }
  return false;
}

/* With or without the base model's prefix. */
static bool is_called(const tri_parameter *entry, const char *name) {
  const char *dot = strchr(entry->name, '.');
  return strcmp(entry->name, name) == 0 || (dot != NULL && strcmp(dot + 1, name) == 0);
}

/* A tied model's output projection may be there a second time: it is the embedding. */
static bool is_known(const tri_parameter_table *table, const char *name) {
  for (int64_t e = 0; e < table->num_entries; e++) {
    if (is_called(&table->entries[e], name)) return true;
  }
  return may_be_left(name);
}

static tri_status check_names(const tri_checkpoint *from, const tri_parameter_table *table) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(from); i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(from, i);
    if (is_known(table, entry.tensor->name)) continue;
    return tri_fail(TRI_BAD_FILE, "%s: the model of config.json has no place for the tensor `%.200s`", entry.file,
                    entry.tensor->name);
  }
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    if (parameter->tied_to >= 0 || tri_checkpoint_has(from, parameter->name)) continue;
    return tri_fail(TRI_BAD_FILE, "%s has no tensor `%s`, which the model of its config.json needs",
                    tri_checkpoint_path(from), parameter->name);
  }
  return TRI_OK;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

/* Rounds to nearest even; what is no number stays none. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static void narrow(const float *in, int64_t count, uint16_t *out) {
  for (int64_t i = 0; i < count; i++) out[i] = to_bf16(in[i]);
}

typedef struct copying {
  const tri_copy_request *request;
  tri_checkpoint_saving *saving;
  void *wide, *narrow;
  tri_kept strange; /* a value that is no number */
} copying;

/* As it was read, and as it is to be written: bf16 and fp32 hold less than fp32 and fp64. */
static tri_status check_piece(const copying *c, const tri_parameter *parameter, const tri_checkpoint_slice *slice) {
  const tri_checkpoint *from = c->request->from;
  tri_dtype read_as = tri_dtype_wide(c->request->type);
  tri_checkpoint_slice wide = *slice;
  wide.data = c->wide;
  TRI_TRY(tri_checkpoint_check_finite(from, parameter, read_as, &wide));
  return tri_checkpoint_check_finite(from, parameter, c->request->type, slice);
}

static tri_status copy_tensor(copying *c, const tri_parameter *parameter, int64_t number) {
  const tri_copy_request *request = c->request;
  tri_dtype read_as = tri_dtype_wide(request->type);
  int64_t count = tri_parameter_global_count(parameter);
  uint64_t sum = 0;
  for (int64_t done = 0; done < count;) {
    int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    tri_checkpoint_slice slice = {.tensor = number, .first = done, .count = piece, .data = c->wide};
    TRI_TRY(tri_checkpoint_read_part(request->from, parameter->name, read_as, parameter->num_dims, parameter->shape,
                                     &slice, &sum));
    if (request->type == TRI_BF16) {
      narrow(c->wide, piece, c->narrow);
      slice.data = c->narrow;
    }
    /* Damage goes before what it looks like, so a value that is no number waits for the end of its tensor. */
    tri_keep(&c->strange, check_piece(c, parameter, &slice));
    if (c->strange.status == TRI_OK) TRI_TRY(tri_checkpoint_save_slice(c->saving, &slice));
    done += piece;
  }
  TRI_TRY(tri_checkpoint_compare(request->from, parameter->name, sum));
  return tri_kept_tell(&c->strange);
}

static tri_status copy_all(copying *c, const tri_parameter_table *table) {
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 8, &c->wide));
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 2, &c->narrow));
  for (int64_t e = 0, number = 0; e < table->num_entries; e++) {
    if (table->entries[e].tied_to >= 0) continue;
    TRI_TRY(copy_tensor(c, &table->entries[e], number++));
  }
  TRI_TRY(tri_checkpoint_save_write(c->saving));
  return tri_checkpoint_save_publish(c->saving);
}

static tri_status copy_listed(const tri_copy_request *request, const tri_parameter_table *table,
                              tri_checkpoint_tensor *tensors) {
  copying c = {.request = request};
  char *config = NULL;
  int64_t count = 0;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *parameter = &table->entries[e];
    if (parameter->tied_to >= 0) continue;
    tri_checkpoint_tensor *tensor = &tensors[count++];
    *tensor = (tri_checkpoint_tensor){.name = parameter->name, .type = request->type, .num_dims = parameter->num_dims};
    for (int d = 0; d < parameter->num_dims; d++) tensor->shape[d] = parameter->shape[d];
  }
  TRI_TRY(tri_huggingface_print(request->model, request->type, -1, &config));
  tri_checkpoint_request save = {.folder = request->to,
                                 .plain = request->plain,
                                 .weights = tensors,
                                 .num_weights = count,
                                 .shard_bytes = request->shard_bytes,
                                 .model_config = config,
                                 .tokenizer = request->tokenizer};
  tri_status status = tri_checkpoint_save_begin(&save, &c.saving);
  if (status == TRI_OK) {
    status = copy_all(&c, table);
    tri_checkpoint_save_end(c.saving, status == TRI_OK);
  }
  tri_free(c.narrow);
  tri_free(c.wide);
  tri_free(config);
  return status;
}

tri_status tri_checkpoint_copy(const tri_copy_request *request) {
  tri_parameter_table *table = NULL;
  tri_checkpoint_tensor *tensors = NULL;
  if (tri_path_exists(request->to)) {
    return tri_fail(TRI_BAD_USAGE, "%s is there already; name a folder that is not", request->to);
  }
  TRI_TRY(tri_parameter_table_create(request->model, NULL, &table));
  tri_status status = check_names(request->from, table);
  if (status == TRI_OK) {
    status = tri_alloc("the table of a checkpoint", (size_t)table->num_entries, sizeof *tensors, &tensors);
  }
  if (status == TRI_OK) status = copy_listed(request, table, tensors);
  tri_free(tensors);
  tri_parameter_table_destroy(table);
  return status;
}
