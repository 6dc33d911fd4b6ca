/* A save by many ranks at the same time.
 *
 * The first rank creates the folder and every file in it at its full length, with its header. The offset of a tensor
 * follows from names, types and shapes, so each rank computes all offsets itself, and writes its slices directly to the
 * files. A tensor's checksum is a sum over its elements (element_sum.h), and each rank sums what it has written. When
 * all ranks have flushed their files, the sums are added, and the first rank writes state.json and COMPLETE, and
 * renames the folder.
 *
 * Only tri_checkpoint_save_begin and _join communicate. Another thread may write while the rank computes, so a save is
 * split into these steps. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/element_sum.h"
#include "checkpoint/extra_files.h"
#include "checkpoint/finite.h"
#include "checkpoint/folder.h"
#include "checkpoint/named_folder.h"
#include "checkpoint/output.h"
#include "checkpoint/peft.h"
#include "checkpoint/slices.h"
#include "checkpoint/state.h"
#include "checkpoint/stream.h"

#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "files/write_fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 18 };

/* A file with tensors of the save. */
typedef struct stored_file {
  char name[64];
  int64_t first, end; /* the file has the tensors [first, end) of the save */
  char *header;       /* [header_bytes]: length and JSON text, as they are in the file */
  size_t header_bytes;
  uint64_t file_bytes;
} stored_file;

struct tri_checkpoint_saving {
  tri_checkpoint_request request;
  tri_group alone; /* group of only this rank, if the request has none */
  const tri_group *group;
  char temporary[TRI_PATH_BYTES], final[TRI_PATH_BYTES]; /* paths of the folder during the save and after it; `final` is
                                                            "" except on the first rank */
  tri_named_folder named;                                /* the folder, if the request names it */
  int64_t num_tensors; /* number of weights and optimizer's tensors, which are numbered in this order */
  tri_safetensors_tensor *tensors;
  char (*names)[TRI_PEFT_NAME_BYTES]; /* [num_weights]: PEFT's names of an adapter's weights; NULL: not an adapter */
  uint64_t *sums; /* [num_tensors]: checksums of the tensors; before tri_checkpoint_save_join, this rank's parts
                     of them */
  tri_checkpoint_slice *slices; /* [num_slices]: this rank's slices, sorted by tensor */
  tri_slice_extent window;
  int64_t num_slices;
  stored_file *files;
  int64_t num_files;
  tri_stream *stream;
  const stored_file *open; /* file to which the stream writes; NULL: none */
  json_t *facts;           /* the files' entries of state.json, on the first rank; NULL on others */
};

typedef tri_checkpoint_saving saving;

static bool is_first(const saving *s) { return s->group->rank == 0; }

/* ---- files and offsets ------------------------------------------------------------------------------------------- */

static const tri_checkpoint_tensor *tensor_at(const tri_checkpoint_request *request, int64_t i) {
  return i < request->num_weights ? &request->weights[i] : &request->optimizer[i - request->num_weights];
}

static size_t element_bytes_of(const tri_checkpoint_tensor *tensor) {
  return tensor->bytes ? 1 : tri_dtype_bytes(tensor->type);
}

static uint64_t bytes_of(const tri_checkpoint_tensor *tensor) {
  uint64_t bytes = element_bytes_of(tensor);
  for (int d = 0; d < tensor->num_dims; d++) bytes *= (uint64_t)tensor->shape[d];
  return bytes;
}

/* Returns whether an adapter has factors in the module of a tensor that is not a factor itself. */
static bool has_factors(const saving *s, const char *name) {
  const char *end = strrchr(name, '.');
  if (end == NULL || strstr(name, ".lora_") != NULL) return false;
  for (int64_t i = 0; i < s->request.num_weights; i++) {
    const char *other = s->request.weights[i].name;
    if (strncmp(other, name, (size_t)(end - name)) == 0 && strncmp(other + (end - name), ".lora_", 6) == 0) return true;
  }
  return false;
}

static const char *name_of(saving *s, int64_t i) {
  const char *own = tensor_at(&s->request, i)->name;
  if (s->names == NULL || i >= s->request.num_weights) return own;
  if (has_factors(s, own)) {
    tri_peft_base_layer_name(own, s->names[i]);
  } else {
    tri_peft_name(own, s->names[i]);
  }
  return s->names[i];
}

static const char *stem_of(const tri_checkpoint_request *request) {
  return request->stem == NULL ? "model" : request->stem;
}

static void describe_tensors(saving *s) {
  for (int64_t i = 0; i < s->num_tensors; i++) {
    const tri_checkpoint_tensor *from = tensor_at(&s->request, i);
    const tri_safetensors_type type = from->bytes ? TRI_SAFETENSORS_U8 : tri_safetensors_type_of(from->type);
    s->tensors[i] = (tri_safetensors_tensor){.name = name_of(s, i), .type = type, .num_dims = from->num_dims};
    memcpy(s->tensors[i].shape, from->shape, sizeof from->shape);
  }
}

/* Divides the tensors [first, end) into files of at most shard_bytes, or of one tensor. A single file has no number.
 * Makes the headers of the files. */
static tri_status divide(saving *s, const char *stem, int64_t first, int64_t end) {
  uint64_t limit = s->request.shard_bytes > 0 ? (uint64_t)s->request.shard_bytes : UINT64_MAX, held = 0;
  int64_t begin = s->num_files;
  for (int64_t i = first; i < end; i++) {
    uint64_t bytes = bytes_of(tensor_at(&s->request, i));
    if (i == first || held > limit || bytes > limit - held) {
      TRI_TRY(tri_realloc("the files of a checkpoint", (size_t)s->num_files + 1, sizeof *s->files, &s->files));
      s->files[s->num_files++] = (stored_file){.first = i};
      held = 0;
    }
    held += bytes;
    s->files[s->num_files - 1].end = i + 1;
  }
  int count = (int)(s->num_files - begin);
  for (int k = 0; k < count; k++) {
    stored_file *file = &s->files[begin + k];
    char *name = file->name;
    if (count == 1) snprintf(name, sizeof file->name, "%s.safetensors", stem);
    if (count > 1) snprintf(name, sizeof file->name, "%s-%05d-of-%05d.safetensors", stem, k + 1, count);
    TRI_TRY(tri_safetensors_layout(s->tensors + file->first, file->end - file->first, "pt", &file->header,
                                   &file->header_bytes, &file->file_bytes));
  }
  return TRI_OK;
}

static int compare_slices(const void *left, const void *right) {
  const tri_checkpoint_slice *a = left, *b = right;
  if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

/* Collects this rank's slices, sorted by tensor. A tensor with data is one slice. */
static tri_status gather_slices(saving *s) {
  const tri_checkpoint_request *request = &s->request;
  size_t room = (size_t)(request->num_slices + s->num_tensors);
  TRI_TRY(tri_alloc("the slices of a checkpoint", room, sizeof *s->slices, &s->slices));
  for (int64_t i = 0; i < request->num_slices; i++) s->slices[s->num_slices++] = request->slices[i];
  for (int64_t i = 0; i < s->num_tensors; i++) {
    const tri_checkpoint_tensor *tensor = tensor_at(request, i);
    if (tensor->data == NULL) continue;
    int64_t count = (int64_t)(bytes_of(tensor) / element_bytes_of(tensor));
    s->slices[s->num_slices++] =
        (tri_checkpoint_slice){.tensor = i, .count = count, .data = (void *)(uintptr_t)tensor->data};
  }
  if (s->num_slices > 0) qsort(s->slices, (size_t)s->num_slices, sizeof *s->slices, compare_slices);
  return TRI_OK;
}

static tri_status save_plan(saving *s) {
  s->num_tensors = s->request.num_weights + s->request.num_optimizer;
  TRI_TRY(tri_alloc("the table of a checkpoint", (size_t)s->num_tensors, sizeof *s->tensors, &s->tensors));
  TRI_TRY(tri_alloc("the table of a checkpoint", (size_t)s->num_tensors, sizeof *s->sums, &s->sums));
  if (s->request.adapter_config != NULL) {
    TRI_TRY(tri_alloc("the names of a checkpoint", (size_t)s->request.num_weights, sizeof *s->names, &s->names));
  }
  describe_tensors(s);
  TRI_TRY(divide(s, stem_of(&s->request), 0, s->request.num_weights));
  TRI_TRY(divide(s, "optimizer", s->request.num_weights, s->num_tensors));
  return gather_slices(s);
}

/* ---- the folder, on the first rank ------------------------------------------------------------------------------- */

/* Sets the entry of a file in state.json, and takes over `facts`. Fails if `facts` is NULL, because the memory for it
 * was exhausted. */
static tri_status save_describe(saving *s, const char *name, json_t *facts) {
  if (json_object_set_new(s->facts, name, facts) == 0) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the checksums of a checkpoint");
}

static json_t *describe_plain(uint64_t bytes, uint64_t checksum) {
  return json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "xxh3", tri_state_checksum(checksum));
}

static tri_status write_text(saving *s, const char *name, const char *text) {
  char path[TRI_PATH_BYTES];
  size_t bytes = strlen(text);
  TRI_TRY(tri_path_join(path, s->temporary, name));
  TRI_TRY(tri_output_file(path, text, bytes));
  return save_describe(s, name, describe_plain(bytes, tri_checksum(text, bytes)));
}

/* Creates a file of tensors at its full length, with its header, and holes for the tensors; describes it in state.json.
 */
static tri_status create_file(saving *s, const stored_file *file) {
  char path[TRI_PATH_BYTES];
  tri_output output = {.file = -1, .direct = -1};
  uint64_t header_sum = 0;
  TRI_TRY(tri_path_join(path, s->temporary, file->name));
  TRI_TRY(tri_output_create(path, file->file_bytes, &output));
  tri_status status = tri_output_write(&output, 0, file->header, file->header_bytes, &header_sum);
  if (status == TRI_OK) status = tri_output_set_length(&output, file->file_bytes);
  if (status == TRI_OK) status = tri_output_finish(&output);
  if (status != TRI_OK) {
    tri_output_abandon(&output);
    return status;
  }
  return save_describe(
      s, file->name,
      json_pack("{s:I, s:o}", "bytes", (json_int_t)file->file_bytes, "header", tri_state_checksum(header_sum)));
}

/* Writes STEM.safetensors.index.json, the index of the tensors in files [first_file, end_file), in transformers'
 * format. */
static tri_status write_index(saving *s, const char *stem, int64_t first_file, int64_t end_file) {
  char name[64];
  uint64_t total = 0;
  json_t *map = json_object();
  for (int64_t f = first_file; f < end_file; f++) {
    for (int64_t i = s->files[f].first; i < s->files[f].end; i++) {
      json_object_set_new(map, s->tensors[i].name, json_string(s->files[f].name));
      total += s->tensors[i].bytes;
    }
  }
  json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
  char *text = index == NULL ? NULL : json_dumps(index, JSON_INDENT(1) | JSON_SORT_KEYS);
  json_decref(index);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the index of a checkpoint");
  snprintf(name, sizeof name, "%s.safetensors.index.json", stem);
  tri_status status = write_text(s, name, text);
  free(text);
  return status;
}

/* Copies an extra file into the folder of `context`, a saving, and describes it in state.json. */
static tri_status copy_extra_file(void *context, const char *name) {
  saving *s = context;
  char from[TRI_PATH_BYTES], to[TRI_PATH_BYTES], folder[TRI_PATH_BYTES];
  uint64_t bytes = 0, checksum = 0;
  const char *slash = strchr(name, '/');
  TRI_TRY(tri_path_join(from, s->request.extra_files, name));
  TRI_TRY(tri_path_join(to, s->temporary, name));
  if (slash != NULL) {
    snprintf(folder, sizeof folder, "%.*s", (int)(strlen(to) - strlen(slash)), to);
    TRI_TRY(tri_directory_create(folder));
  }
  TRI_TRY(tri_output_copy(from, to, &bytes, &checksum));
  return save_describe(s, name, describe_plain(bytes, checksum));
}

static tri_status write_extra_texts(saving *s, const tri_extra_texts *texts) {
  if (texts == NULL) return TRI_OK;
  if (texts->tokenizer_config != NULL) TRI_TRY(write_text(s, "tokenizer_config.json", texts->tokenizer_config));
  return texts->generation_config == NULL ? TRI_OK : write_text(s, "generation_config.json", texts->generation_config);
}

static tri_status fill_folder(saving *s) {
  const tri_checkpoint_request *request = &s->request;
  if (request->model_config != NULL) TRI_TRY(write_text(s, TRI_FILE_CONFIG, request->model_config));
  if (request->adapter_config != NULL) TRI_TRY(write_text(s, TRI_FILE_ADAPTER_CONFIG, request->adapter_config));
  if (request->tokenizer != NULL) {
    char path[TRI_PATH_BYTES];
    uint64_t bytes = 0, checksum = 0;
    TRI_TRY(tri_path_join(path, s->temporary, TRI_FILE_TOKENIZER));
    TRI_TRY(tri_output_copy(request->tokenizer, path, &bytes, &checksum));
    TRI_TRY(save_describe(s, TRI_FILE_TOKENIZER, describe_plain(bytes, checksum)));
  }
  if (request->extra_files != NULL) TRI_TRY(tri_extra_files_walk(request->extra_files, copy_extra_file, s));
  TRI_TRY(write_extra_texts(s, request->extra_texts));
  if (request->best) {
    char mark[TRI_PATH_BYTES];
    TRI_TRY(tri_path_join(mark, s->temporary, TRI_FILE_BEST));
    TRI_TRY(tri_output_file(mark, "", 0));
  }
  int64_t models = 0;
  for (int64_t f = 0; f < s->num_files; f++) {
    TRI_TRY(create_file(s, &s->files[f]));
    models += s->files[f].first < request->num_weights ? 1 : 0;
  }
  if (models > 1) TRI_TRY(write_index(s, stem_of(request), 0, models));
  if (s->num_files - models > 1) TRI_TRY(write_index(s, "optimizer", models, s->num_files));
  return TRI_OK;
}

static tri_status create_root(const char *root) {
  if (tri_path_is_directory(root)) return TRI_OK;
  char parent[TRI_PATH_BYTES];
  TRI_TRY(tri_directory_create(root));
  TRI_TRY(tri_path_join(parent, root, ".."));
  return tri_directory_sync(parent);
}

static tri_status create_named(saving *s) {
  TRI_TRY(tri_named_folder_begin(s->request.folder, &s->named));
  memcpy(s->temporary, s->named.temporary, sizeof s->temporary);
  memcpy(s->final, s->named.name, sizeof s->final);
  s->facts = json_object();
  return fill_folder(s);
}

static tri_status create_folder(saving *s) {
  if (s->request.folder != NULL) return create_named(s);
  const char *root = s->request.root;
  int64_t step = s->request.state.step;
  if (step < 0 || s->request.keep < 0) {
    return tri_fail_internal("a checkpoint of step %" PRId64 " with keep %" PRId64, step, s->request.keep);
  }
  TRI_TRY(create_root(root));
  if (tri_folder_clear(root, TRI_FOLDER_TEMPORARY) != TRI_OK) {
    tri_warn("an unfinished checkpoint stays: %s", tri_status_message());
  }
  char temporary[TRI_PATH_BYTES];
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_TEMPORARY, step, temporary));
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_FINAL, step, s->final));
  if (mkdir(temporary, 0777) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot create the directory %s: %s", temporary, tri_write_fault(errno));
  }
  memcpy(s->temporary, temporary, sizeof temporary);
  s->facts = json_object();
  return fill_folder(s);
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

/* Removes the temporary folder, if it exists, and keeps the earlier error message. */
static void drop_folder(saving *s) {
  tri_saved_error failure = {TRI_OK, ""};
  if (!is_first(s) || s->temporary[0] == '\0') return;
  tri_error_save(&failure, TRI_IO_FAILED); /* the code does not matter, because the caller returns its own */
  const tri_status status =
      s->request.folder != NULL ? tri_named_folder_drop(&s->named) : tri_directory_remove(s->temporary);
  if (status != TRI_OK) tri_warn("%s", tri_status_message());
  (void)tri_saved_error_restore(&failure);
}

static void save_destroy(saving *s) {
  if (s == NULL) return;
  for (int64_t f = 0; f < s->num_files; f++) tri_free(s->files[f].header);
  tri_stream_destroy(s->stream);
  json_decref(s->facts);
  tri_free(s->files);
  tri_free(s->slices);
  tri_slice_extent_release(&s->window);
  tri_free(s->sums);
  tri_free(s->names);
  tri_free(s->tensors);
  tri_free(s);
}

tri_status tri_checkpoint_save_begin(const tri_checkpoint_request *request, tri_checkpoint_saving **out) {
  saving *s = NULL;
  TRI_TRY(tri_alloc("a save", 1, sizeof *s, &s));
  s->request = *request;
  s->alone = tri_group_alone("save");
  s->group = request->group == NULL ? &s->alone : request->group;
  tri_status status = save_plan(s);
  if (status == TRI_OK && is_first(s)) status = create_folder(s);
  status = tri_common_status(s->group, status);
  if (status == TRI_OK) status = tri_broadcast(s->group, 0, sizeof s->temporary, s->temporary);
  if (status != TRI_OK) {
    drop_folder(s);
    save_destroy(s);
    return status;
  }
  *out = s;
  return TRI_OK;
}

const char *tri_checkpoint_save_folder(const tri_checkpoint_saving *s) { return s->temporary; }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Refuses NaN and infinity: a run must be able to resume from every checkpoint. */
static tri_status check_finite(const tri_safetensors_tensor *tensor, int64_t first, int64_t count, const void *data) {
  int64_t bad = tri_first_not_finite(tensor->type, count, data);
  if (bad < 0) return TRI_OK;
  return tri_fail(TRI_DIVERGED,
                  "nothing is saved, because element %" PRId64
                  " of `%.200s` is NaN or infinite; earlier checkpoints are unchanged; lower optimizer.lr, lengthen "
                  "optimizer.warmup, or look at optimizer.eps and optimizer.clip",
                  first + bad, tensor->name);
}

/* Writes a slice, and adds it to the checksum of its tensor; fails with TRI_DIVERGED for NaN and infinity. The pieces
 * fit into the cache, because the check, the checksum and the copy to the stream all read them. */
static tri_status write_slice(saving *s, const tri_checkpoint_slice *slice) {
  const tri_safetensors_tensor *tensor = &s->tensors[slice->tensor];
  size_t element = (size_t)tri_safetensors_type_bits(tensor->type) / 8;
  for (tri_slice_run run = {0}; tri_slice_next(slice, &run);) {
    for (int64_t done = 0, most = PIECE_BYTES / (int64_t)element; done < run.count;) {
      int64_t count = run.count - done < most ? run.count - done : most;
      const void *from = NULL;
      TRI_TRY(tri_slice_read(&s->window, slice, element, run.at + done, &count, &from));
      TRI_TRY(check_finite(tensor, run.global + done, count, from));
      s->sums[slice->tensor] += tri_element_sum(element, run.global + done, count, from);
      TRI_TRY(tri_stream_put(s->stream, tensor->offset + (uint64_t)(run.global + done) * element, from,
                             (uint64_t)count * element));
      done += count;
    }
  }
  return TRI_OK;
}

static tri_status close_file(saving *s) {
  if (s->open == NULL) return TRI_OK;
  s->open = NULL;
  return tri_stream_close(s->stream);
}

/* Opens the file of the slice's tensor, unless it is open; closes another open file first. */
static tri_status open_file_of(saving *s, const tri_checkpoint_slice *slice) {
  char path[TRI_PATH_BYTES];
  const stored_file *file = s->open == NULL ? s->files : s->open;
  if (s->open != NULL && slice->tensor >= file->first && slice->tensor < file->end) return TRI_OK;
  TRI_TRY(close_file(s));
  for (file = s->files; slice->tensor >= file->end;) file++;
  TRI_TRY(tri_path_join(path, s->temporary, file->name));
  TRI_TRY(tri_stream_open(s->stream, path, file->file_bytes));
  s->open = file;
  return TRI_OK;
}

tri_status tri_checkpoint_save_slice(tri_checkpoint_saving *s, const tri_checkpoint_slice *slice) {
  if (s->stream == NULL) TRI_TRY(tri_stream_create(s->request.buffers, &s->stream));
  TRI_TRY(open_file_of(s, slice));
  return write_slice(s, slice);
}

tri_status tri_checkpoint_save_write(tri_checkpoint_saving *s) {
  tri_record record = tri_record_make(TRI_RECORD_WORK, "write a checkpoint's files");
  uint64_t ticket = tri_recorder_begin(&record);
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < s->num_slices && status == TRI_OK; i++) {
    status = tri_checkpoint_save_slice(s, &s->slices[i]);
  }
  if (status == TRI_OK) status = close_file(s);
  tri_recorder_end(ticket);
  return status;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static tri_status note_sums(saving *s) {
  for (int64_t f = 0; f < s->num_files; f++) {
    json_t *sums = json_object();
    for (int64_t i = s->files[f].first; i < s->files[f].end; i++) {
      json_object_set_new(sums, s->tensors[i].name, tri_state_checksum(s->sums[i]));
    }
    if (json_object_set_new(json_object_get(s->facts, s->files[f].name), "tensors", sums) != 0) {
      return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the checksums of a checkpoint");
    }
  }
  return TRI_OK;
}

tri_status tri_checkpoint_save_join(tri_checkpoint_saving *s, tri_status written) {
  TRI_TRY(tri_common_status(s->group, written));
  return tri_all_sum_int64(s->group, s->num_tensors, (int64_t *)s->sums);
}

/* Renames the finished folder to its final name. A folder of the same step is retired first, and gets its name back if
 * the renaming fails. */
static tri_status rename_folder(saving *s) {
  if (s->request.folder != NULL) return tri_named_folder_finish(&s->named);
  const char *root = s->request.root;
  int64_t step = s->request.state.step;
  bool replaces = tri_path_exists(s->final);
  if (replaces) TRI_TRY(tri_folder_retire(root, step));
  if (rename(s->temporary, s->final) == 0) return tri_directory_sync(root);
  tri_status status =
      tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", s->temporary, s->final, tri_write_fault(errno));
  char old[TRI_PATH_BYTES];
  if (replaces && tri_folder_path(root, TRI_FOLDER_OLD, step, old) == TRI_OK) (void)rename(old, s->final);
  return status;
}

tri_status tri_checkpoint_save_publish(tri_checkpoint_saving *s) {
  if (!is_first(s)) return TRI_OK;
  TRI_TRY(note_sums(s));
  if (!s->request.plain) TRI_TRY(tri_state_save(s->temporary, &s->request.state, s->facts));
  TRI_TRY(rename_folder(s));
  s->temporary[0] = '\0'; /* the temporary folder no longer exists, so that drop_folder does nothing */
  if (s->request.folder != NULL) return TRI_OK;
  if (tri_folder_keep(s->request.root, s->request.state.step, s->request.keep) != TRI_OK) {
    tri_warn("old checkpoints stay: %s", tri_status_message());
  }
  return TRI_OK;
}

void tri_checkpoint_save_end(tri_checkpoint_saving *s, bool good) {
  if (s != NULL && !good) drop_folder(s);
  save_destroy(s);
}

tri_status tri_checkpoint_save(const tri_checkpoint_request *request, char path[TRI_PATH_BYTES]) {
  saving *s = NULL;
  TRI_TRY(tri_checkpoint_save_begin(request, &s));
  tri_status status = tri_checkpoint_save_join(s, tri_checkpoint_save_write(s));
  if (status == TRI_OK) status = tri_first_rank_status(s->group, tri_checkpoint_save_publish(s));
  if (status == TRI_OK && path != NULL) snprintf(path, TRI_PATH_BYTES, "%s", s->final);
  if (status != TRI_OK) drop_folder(s);
  save_destroy(s);
  return status;
}
