#include "checkpoint/copy.h"

#include "base/memory.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/tensor_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 4 << 20 };

/* ---- what there is ----------------------------------------------------------------------------------------------- */

static tri_status check_names(const tri_checkpoint *from, const tri_tensor_list *list) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(from); i++) {
    tri_checkpoint_entry entry = tri_checkpoint_get_entry(from, i);
    if (tri_tensor_list_knows(list, entry.tensor->name)) continue;
    return tri_fail(TRI_BAD_FILE, "%s: the model of config.json has no place for the tensor `%.200s`", entry.file,
                    entry.tensor->name);
  }
  for (int64_t t = 0; t < list->count; t++) {
    if (tri_checkpoint_has(from, list->tensors[t].name)) continue;
    return tri_fail(TRI_BAD_FILE, "%s has no tensor `%s`, which the model of its config.json needs",
                    tri_checkpoint_path(from), list->tensors[t].name);
  }
  return TRI_OK;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

static void narrow(const float *in, int64_t count, uint16_t *out) {
  for (int64_t i = 0; i < count; i++) out[i] = tri_bf16_of(in[i]);
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

static tri_status copy_all(copying *c, const tri_tensor_list *list) {
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 8, &c->wide));
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, 2, &c->narrow));
  for (int64_t t = 0; t < list->count; t++) TRI_TRY(copy_tensor(c, &list->tensors[t], t));
  TRI_TRY(tri_checkpoint_save_write(c->saving));
  return tri_checkpoint_save_publish(c->saving);
}

static tri_status copy_listed(const tri_copy_request *request, const tri_tensor_list *list,
                              tri_checkpoint_tensor *tensors) {
  copying c = {.request = request};
  char *config = NULL;
  for (int64_t t = 0; t < list->count; t++) {
    const tri_parameter *parameter = &list->tensors[t];
    tri_checkpoint_tensor *tensor = &tensors[t];
    *tensor = (tri_checkpoint_tensor){.name = parameter->name, .type = request->type, .num_dims = parameter->num_dims};
    for (int d = 0; d < parameter->num_dims; d++) tensor->shape[d] = parameter->shape[d];
  }
  TRI_TRY(tri_huggingface_print(request->model, request->type, -1, &config));
  tri_checkpoint_request save = {.folder = request->to,
                                 .plain = request->plain,
                                 .weights = tensors,
                                 .num_weights = list->count,
                                 .shard_bytes = request->shard_bytes,
                                 .model_config = config,
                                 .tokenizer = request->tokenizer};
  tri_status status = tri_checkpoint_save_begin(&save, &c.saving);
  if (status == TRI_OK) {
    status = copy_all(&c, list);
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
  tri_tensor_list list = {0};
  if (tri_path_exists(request->to)) {
    return tri_fail(TRI_BAD_USAGE, "%s is there already; name a folder that is not", request->to);
  }
  TRI_TRY(tri_parameter_table_create(request->model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) status = check_names(request->from, &list);
  if (status == TRI_OK) {
    status = tri_alloc("the table of a checkpoint", (size_t)list.count, sizeof *tensors, &tensors);
  }
  if (status == TRI_OK) status = copy_listed(request, &list, tensors);
  tri_free(tensors);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}
