/* Opening and reading checkpoints and Hugging Face folders.
 *
 * The problem: a folder may come from a run of ours, from transformers, PEFT or bitsandbytes, or may be damaged.
 * Readers ask for a tensor by our name, in its global shape, and must get either the right values or an error.
 *
 * The idea: open_folder builds one list of tensors in steps. Each step removes one difference between programs:
 *
 *   1. state.json and COMPLETE, if present, are read and must belong together. They list every file with its checksums.
 *   2. model.safetensors, or the shards of its index, or adapter_model.safetensors: only headers are
 *      read.
 *   3. without state.json (another program's folder): parts of names from PyTorch's wrappers are removed
 *      (wrapped_names.h), the tensors of a matrix in 4 bits become one tensor (four_bits.h), and a tied model with the
 *      output projection alone reads it as the embedding as well (ties.h).
 *   4. the optimizer's files are added if the use needs them; for averages, they are only read by name.
 *
 * `find` then maps our name to a tensor of the list: exactly, with PEFT's prefix, without the base model's prefix, or
 * as an average. The shape must be equal. Values are converted while they are read, in any slices, and the checksum of
 * a tensor is a sum over its elements (element_sum.h), so ranks that each read a part can verify the whole together.
 *
 * The invariants: no tensor is read before its header is checked (safetensors.c); a folder with only one of state.json
 * and COMPLETE is damaged, never a Hugging Face folder; unless `unverified`, values that do not match a recorded
 * checksum are an error. */
#include "checkpoint/candidates.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/finite.h"
#include "checkpoint/folder.h"
#include "checkpoint/four_bits.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"
#include "checkpoint/slices.h"
#include "checkpoint/state.h"
#include "checkpoint/ties.h"
#include "checkpoint/wrapped_names.h"
#include "files/file_kind.h"
#include "files/hub.h"
#include "files/json_reader.h"

#include "base/log.h"
#include "base/memory.h"
#include "config/yaml.h"
#include "device/nf4.h"
#include "optimizers/optimizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tri_checkpoint {
  char path[TRI_PATH_BYTES];
  json_t *document; /* content of state.json; NULL: the folder is a Hugging Face folder */
  bool unverified;  /* whether checksums are not compared */
  bool adapter;     /* whether the folder's weights are those of an adapter */
  bool average;     /* whether the average of each weight that has one is read instead of the weight */
  char absent[TRI_PARAMETER_NAME_BYTES];  /* tensor of a tied pair that the files lack (ties.h); "": none */
  char present[TRI_PARAMETER_NAME_BYTES]; /* tensor that is read instead of `absent` */
  tri_checkpoint_state state;
  tri_safetensors_file *files;
  tri_four_bits *four_bits; /* [num_four_bits]: descriptions to which tensors in 4 bits point */
  int64_t num_four_bits;
  int64_t num_files, num_tensors;     /* num_tensors: number of tensors in all files except those from which only
                                         averages are read */
  int64_t num_misplaced;              /* number of ignored tensors that the index places in another file */
  char misplaced[2 * TRI_PATH_BYTES]; /* name of the first ignored tensor, and its file, as text for a warning */
};

enum { INDEX_LIMIT_BYTES = 1 << 28, TOKENIZER_LIMIT_BYTES = 1 << 30 };

/* Returns whether the optimizer's files are needed, which also have the averages. */
static bool wants_optimizer(const tri_checkpoint_use *use) { return use->optimizer || use->average; }

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static tri_status open_folder(const char *path, const tri_checkpoint_use *use, bool frame, tri_checkpoint **out);

/* Tests whether a folder is good for a use by one process (`context`, a tri_checkpoint_use). Sets *damaged to whether
 * it is not good because of its content. */
static tri_status try_use(void *context, const char *path, bool *damaged) {
  const tri_checkpoint_use *use = context;
  tri_checkpoint *checkpoint = NULL;
  json_t *document = NULL;
  tri_checkpoint_state state;
  tri_status status = TRI_OK;
  if (use->unverified) {
    status =
        open_folder(path, use, false, &checkpoint); /* warnings are logged later, when the folder is opened for use */
    tri_checkpoint_close(checkpoint);
  } else {
    tri_state_scope scope = {.ranks = 1, .tensors = !use->settings_only, .optimizer = wants_optimizer(use)};
    status = tri_state_load(path, &document, &state);
    if (status == TRI_OK) status = tri_state_verify(path, document, &scope);
    json_decref(document);
  }
  *damaged = status == TRI_BAD_FILE || status == TRI_UNSUPPORTED;
  return status;
}

static tri_status find_newest(const char *root, const tri_checkpoint_use *use, char path[TRI_PATH_BYTES]) {
  tri_candidates candidates = {.root = root, .first = true};
  TRI_TRY(tri_folder_list(root, &candidates.list, &candidates.count));
  tri_status status = tri_candidates_try(&candidates, try_use, (void *)(uintptr_t)use, path);
  tri_free(candidates.list);
  return status;
}

/* Returns whether a path is a model's folder itself: it has one of the files below. A file that is missing is reported
 * when it is needed. */
static bool is_a_model(const char *folder) {
  static const char *const marks[] = {TRI_FILE_CONFIG, TRI_FILE_ADAPTER_CONFIG, TRI_FILE_STATE, TRI_FILE_COMPLETE};
  char path[TRI_PATH_BYTES];
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (tri_path_join(path, folder, marks[i]) == TRI_OK && tri_path_exists(path)) return true;
  }
  return false;
}

static tri_status no_folder(const char *given) {
  const tri_file_kind *kind = tri_file_kind_find(given);
  if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, given, kind, "the folder of a model");
  char advice[TRI_HUB_ADVICE_BYTES], nearest[TRI_NEAREST_FILE_BYTES];
  if (!tri_path_exists(given)) {
    return tri_fail(TRI_BAD_FILE, "there is no checkpoint's folder %s%s%s", given,
                    tri_yaml_nearest_file(given, "", nearest), tri_hub_advice(given, advice));
  }
  return tri_fail(TRI_BAD_FILE, "%s is not a folder; a model and a checkpoint are folders", given);
}

tri_status tri_checkpoint_find(const char *name, const tri_checkpoint_use *use, char path[TRI_PATH_BYTES]) {
  char given[TRI_PATH_BYTES], inside[TRI_PATH_BYTES], hint[TRI_FOLDER_HINT_BYTES];
  TRI_TRY(tri_hub_resolve(name, given));
  if (!tri_path_is_directory(given)) return no_folder(given);
  if (is_a_model(given)) {
    int length = snprintf(path, TRI_PATH_BYTES, "%s", given);
    if (length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", given);
    while (length > 1 && path[length - 1] == '/') path[--length] = '\0';
    return TRI_OK;
  }
  TRI_TRY(tri_path_join(inside, given, "checkpoints"));
  const char *root = tri_path_is_directory(inside) ? inside : given;
  TRI_TRY(find_newest(root, use, path));
  if (path[0] != '\0') return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s contains neither a model (config.json) nor a checkpoint (step-...) nor an adapter (%s)%s", given,
                  TRI_FILE_ADAPTER_CONFIG, tri_folder_hint(given, TRI_CONTENT_MODEL, hint));
}

tri_status tri_checkpoint_verify_alone(const char *path) {
  json_t *document = NULL;
  tri_checkpoint_state state;
  const tri_state_scope scope = {.ranks = 1, .tensors = true, .optimizer = true};
  tri_status status = tri_state_load_any(path, &document, &state);
  if (status == TRI_OK && document == NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has no checksums to compare: checkpoints of runs have them (%s), but Hugging Face folders do "
                    "not. `trireme inspect` without --verify prints the contents of its files",
                    path, TRI_FILE_STATE);
  }
  if (status == TRI_OK) status = tri_state_verify(path, document, &scope);
  json_decref(document);
  return status;
}

tri_status tri_checkpoint_verify_file(const char *path) {
  char folder[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  json_t *document = NULL;
  tri_checkpoint_state state;
  const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
  if (strcmp(name, TRI_FILE_TOKENIZER) != 0 || strlen(path) >= sizeof folder) return TRI_OK;
  snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
  TRI_TRY(tri_state_load_any(folder, &document, &state));
  if (document == NULL) return TRI_OK;
  tri_status status = tri_file_read_plain(path, TOKENIZER_LIMIT_BYTES, &text, &bytes);
  if (status == TRI_OK) status = tri_state_verify_content(folder, document, name, text, bytes);
  tri_free(text);
  json_decref(document);
  return status;
}

int64_t tri_checkpoint_highest_step(const char *root) {
  tri_folder *list = NULL;
  int64_t count = 0, highest = -1;
  if (tri_folder_list(root, &list, &count) != TRI_OK) return -1;
  for (int64_t i = 0; i < count; i++) {
    if (list[i].kind != TRI_FOLDER_FINAL || list[i].step <= highest) continue;
    if (!tri_folder_has(root, &list[i], TRI_FILE_DISPROVED)) highest = list[i].step;
  }
  tri_free(list);
  return highest;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tri_status add_file(tri_checkpoint *checkpoint, const char *name) {
  char path[TRI_PATH_BYTES];
  const json_t *facts = NULL;
  int64_t count = checkpoint->num_files;
  if (checkpoint->document != NULL && !checkpoint->unverified) {
    TRI_TRY(tri_state_facts(checkpoint->path, checkpoint->document, name, &facts));
  }
  TRI_TRY(tri_path_join(path, checkpoint->path, name));
  TRI_TRY(tri_realloc("the files of a checkpoint", (size_t)count + 1, sizeof *checkpoint->files, &checkpoint->files));
  TRI_TRY(tri_safetensors_open(path, &checkpoint->files[count]));
  checkpoint->num_files++;
  checkpoint->num_tensors += checkpoint->files[count].header.num_tensors;
  return TRI_OK;
}

/* Ignores the tensors of a file that the index places in another file. An index has each name once, but a file that is
 * left of an earlier model (one before quantisation or further training) may have more tensors. */
static tri_status leave_out_misplaced(tri_checkpoint *checkpoint, const char *file, const json_t *map, int64_t number) {
  tri_safetensors_file *shard = &checkpoint->files[number];
  tri_safetensors_header *header = &shard->header;
  int64_t kept = 0;
  for (int64_t t = 0; t < header->num_tensors; t++) {
    const char *name = header->tensors[t].name, *place = json_string_value(json_object_get(map, name));
    if (place == NULL || strcmp(place, file) == 0) {
      header->tensors[kept++] = header->tensors[t];
    } else if (checkpoint->num_misplaced++ == 0) {
      snprintf(checkpoint->misplaced, sizeof checkpoint->misplaced, "`%.200s` of %s", name, file);
    }
  }
  if (kept == header->num_tensors) return TRI_OK;
  checkpoint->num_tensors -= header->num_tensors - kept;
  header->num_tensors = kept;
  return tri_safetensors_index(shard->input.path, header);
}

/* Adds each file of the index once. Each must be in this folder, and have the tensors that the index places in it;
 * its tensors that the index places elsewhere are ignored (leave_out_misplaced). */
static tri_status add_shards(tri_checkpoint *checkpoint, const char *path, const json_t *index) {
  json_t *map = json_object_get(index, "weight_map"), *value = NULL, *seen = NULL;
  const char *name = NULL;
  tri_status status = TRI_OK;
  if (!json_is_object(map)) return tri_fail(TRI_BAD_FILE, "%s has no `weight_map`", path);
  seen = json_object();
  json_object_foreach(map, name, value) {
    const char *file = json_string_value(value);
    if (file == NULL || strchr(file, '/') != NULL) {
      status = tri_fail(TRI_BAD_FILE, "%s: `weight_map` does not place `%.200s` in a file of this folder", path, name);
      goto drop_seen;
    }
    json_t *number = json_object_get(seen, file);
    if (number == NULL) {
      TRI_TRY_GOTO(add_file(checkpoint, file), drop_seen);
      number = json_integer(checkpoint->num_files - 1);
      json_object_set_new(seen, file, number);
    }
    const tri_safetensors_file *shard = &checkpoint->files[json_integer_value(number)];
    if (tri_safetensors_find(&shard->header, name) == NULL) {
      status =
          tri_fail(TRI_BAD_FILE, "%s has no tensor `%.200s`, which %s places there", shard->input.path, name, path);
      goto drop_seen;
    }
  }
  json_object_foreach(seen, name, value) {
    TRI_TRY_GOTO(leave_out_misplaced(checkpoint, name, map, json_integer_value(value)), drop_seen);
  }
drop_seen:
  json_decref(seen);
  return status;
}

/* Adds STEM.safetensors, or the shards of STEM.safetensors.index.json; sets *found to whether one of these two files
 * exists. */
static tri_status add_stem(tri_checkpoint *checkpoint, const char *stem, bool *found) {
  char name[64], path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  *found = true;
  snprintf(name, sizeof name, "%s.safetensors", stem);
  TRI_TRY(tri_path_join(path, checkpoint->path, name));
  if (tri_path_exists(path)) return add_file(checkpoint, name);
  snprintf(name, sizeof name, "%s.safetensors.index.json", stem);
  TRI_TRY(tri_path_join(path, checkpoint->path, name));
  *found = tri_path_exists(path);
  if (!*found) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, INDEX_LIMIT_BYTES, &text, &bytes));
  json_t *index = NULL;
  tri_status status = TRI_OK;
  if (checkpoint->document != NULL && !checkpoint->unverified) {
    status = tri_state_verify_content(checkpoint->path, checkpoint->document, name, text, bytes);
  }
  if (status == TRI_OK) status = tri_json_parse(path, text, bytes, JSON_REJECT_DUPLICATES, &index);
  tri_free(text);
  if (status == TRI_OK) status = add_shards(checkpoint, path, index);
  json_decref(index);
  return status;
}

/* Loads the state of a folder whose checksums are not compared. A damaged state.json is ignored. `say`: whether to warn
 * of that, and that checksums are not compared. */
static tri_status load_unverified(tri_checkpoint *checkpoint, bool say) {
  if (say) tri_warn("%s is not compared with its checksums (--no-verify)", checkpoint->path);
  tri_status status = tri_state_load_any(checkpoint->path, &checkpoint->document, &checkpoint->state);
  if (status != TRI_OK && status != TRI_BAD_FILE) return status;
  if (status == TRI_BAD_FILE && say) tri_warn("%s", tri_status_message());
  return TRI_OK;
}

static tri_status load_state(tri_checkpoint *checkpoint, const tri_checkpoint_use *use, bool frame) {
  if (checkpoint->unverified) return load_unverified(checkpoint, frame);
  TRI_TRY(tri_state_load_any(checkpoint->path, &checkpoint->document, &checkpoint->state));
  if (checkpoint->document == NULL || !frame) return TRI_OK;
  tri_state_scope scope = {.ranks = 1, .optimizer = wants_optimizer(use)};
  return tri_state_verify(checkpoint->path, checkpoint->document, &scope);
}

static bool has_averages(const tri_safetensors_file *file) {
  static const char suffix[] = TRI_AVERAGE_SUFFIX;
  for (int64_t t = 0; t < file->header.num_tensors; t++) {
    const char *name = file->header.tensors[t].name;
    const size_t length = strlen(name), tail = strlen(suffix);
    if (length > tail && strcmp(name + length - tail, suffix) == 0) return true;
  }
  return false;
}

/* Adds the optimizer's files for reading averages by name; fails with TRI_BAD_FILE if they have none. Their tensors do
 * not count among the checkpoint's. */
static tri_status add_averages(tri_checkpoint *checkpoint) {
  const int64_t first = checkpoint->num_files, tensors = checkpoint->num_tensors;
  TRI_TRY(add_stem(checkpoint, "optimizer", &checkpoint->average));
  checkpoint->num_tensors = tensors;
  for (int64_t f = first; f < checkpoint->num_files; f++) {
    if (has_averages(&checkpoint->files[f])) return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s has no average of the weights; set average.every in the run (for example 1) to keep one, or "
                  "leave out --average to use the weights themselves",
                  checkpoint->path);
}

/* Removes the parts that PyTorch's wrappers add to names, in folders of other programs; `say`: whether to log this. */
static tri_status unwrap(tri_checkpoint *checkpoint, bool say) {
  const char *taken = NULL;
  int64_t tensors = 0;
  TRI_TRY(tri_unwrap_names(checkpoint->files, checkpoint->num_files, &taken, &tensors));
  if (taken == NULL || !say) return TRI_OK;
  tri_log("%s: the prefix `%s` of a PyTorch wrapper is removed from the names of %" PRId64 " tensors", checkpoint->path,
          taken, tensors);
  return TRI_OK;
}

/* Finds matrices in 4 bits. Their scales then no longer count among the checkpoint's tensors. */
static tri_status find_four_bits(tri_checkpoint *checkpoint) {
  TRI_TRY(
      tri_four_bits_find(checkpoint->files, checkpoint->num_files, &checkpoint->four_bits, &checkpoint->num_four_bits));
  checkpoint->num_tensors = 0;
  for (int64_t f = 0; f < checkpoint->num_files; f++) {
    checkpoint->num_tensors += checkpoint->files[f].header.num_tensors;
  }
  return TRI_OK;
}

void tri_checkpoint_read_as(tri_checkpoint *checkpoint, const char *absent, const char *present) {
  snprintf(checkpoint->absent, sizeof checkpoint->absent, "%s", absent);
  snprintf(checkpoint->present, sizeof checkpoint->present, "%s", present);
}

static void warn_of_misplaced(const tri_checkpoint *checkpoint) {
  if (checkpoint->num_misplaced == 0) return;
  tri_warn("%s: not read: %s%s, which the index places in another file; transformers takes those of the last file",
           checkpoint->path, checkpoint->misplaced, checkpoint->num_misplaced > 1 ? " and others" : "");
}

/* If the model is tied and its files have the output projection alone, as safetensors' save_model may write them, lets
 * readers of the embedding get the projection. An unreadable config.json is reported later, when it is needed. */
static void link_tied(tri_checkpoint *checkpoint) {
  char head[TRI_PARAMETER_NAME_BYTES], embedding[TRI_PARAMETER_NAME_BYTES], path[TRI_PATH_BYTES];
  tri_model model;
  if (checkpoint->adapter || tri_path_join(path, checkpoint->path, TRI_FILE_CONFIG) != TRI_OK) return;
  if (!tri_path_exists(path) || tri_huggingface_load_unverified(checkpoint->path, &model) != TRI_OK) return;
  if (!tri_ties_names(&model, head, embedding)) return;
  if (!tri_checkpoint_has(checkpoint, head) || tri_checkpoint_has(checkpoint, embedding)) return;
  tri_checkpoint_read_as(checkpoint, embedding, head);
}

static tri_status open_all(tri_checkpoint *checkpoint, const tri_checkpoint_use *use, bool frame) {
  bool has_model = false, has_optimizer = false;
  if (!tri_path_is_directory(checkpoint->path)) {
    return tri_fail(TRI_BAD_FILE, "%s is not a folder; a checkpoint is one, for example RUN/checkpoints/step-00000100",
                    checkpoint->path);
  }
  TRI_TRY(load_state(checkpoint, use, frame));
  TRI_TRY(add_stem(checkpoint, "model", &has_model));
  if (!has_model) TRI_TRY(add_stem(checkpoint, TRI_PEFT_STEM, &checkpoint->adapter));
  if (!has_model && !checkpoint->adapter) {
    const char *stem = tri_peft_is_folder(checkpoint->path) ? TRI_PEFT_STEM : "model";
    char hint[TRI_FOLDER_HINT_BYTES];
    return tri_fail(TRI_BAD_FILE,
                    "%s is not a checkpoint: it has neither %s.safetensors nor %s.safetensors.index.json%s",
                    checkpoint->path, stem, stem, tri_folder_hint(checkpoint->path, TRI_CONTENT_WEIGHTS, hint));
  }
  if (checkpoint->document == NULL) {
    if (frame) warn_of_misplaced(checkpoint);
    if (frame && has_model && tri_peft_is_folder(checkpoint->path)) {
      tri_warn(
          "%s: its %s is ignored, because the folder also has a model; transformers would apply the adapter to that "
          "model",
          checkpoint->path, TRI_FILE_ADAPTER_CONFIG);
    }
    TRI_TRY(unwrap(checkpoint, frame));
    TRI_TRY(find_four_bits(checkpoint));
    link_tied(checkpoint);
  }
  if (use->average) return add_averages(checkpoint);
  return use->optimizer ? add_stem(checkpoint, "optimizer", &has_optimizer) : TRI_OK;
}

/* Opens a folder. `frame`: whether to verify sizes, headers and files without tensors, and to log warnings about the
 * folder. */
static tri_status open_folder(const char *path, const tri_checkpoint_use *use, bool frame, tri_checkpoint **out) {
  tri_checkpoint *checkpoint = NULL;
  TRI_TRY(tri_alloc("an open checkpoint", 1, sizeof *checkpoint, &checkpoint));
  int length = snprintf(checkpoint->path, sizeof checkpoint->path, "%s", path);
  checkpoint->unverified = use->unverified;
  tri_status status = TRI_OK;
  if (length < 0 || (size_t)length >= sizeof checkpoint->path) {
    status = tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  } else {
    status = open_all(checkpoint, use, frame);
  }
  if (status == TRI_OK) *out = checkpoint;
  if (status != TRI_OK) tri_checkpoint_close(checkpoint);
  return status;
}

tri_status tri_checkpoint_open(const char *path, tri_checkpoint **out) {
  return open_folder(path, &(tri_checkpoint_use){.optimizer = true}, false, out);
}

tri_status tri_checkpoint_open_verified(const char *path, const tri_checkpoint_use *use, tri_checkpoint **out) {
  return open_folder(path, use, true, out);
}

void tri_checkpoint_close(tri_checkpoint *checkpoint) {
  if (checkpoint == NULL) return;
  for (int64_t f = 0; f < checkpoint->num_files; f++) tri_safetensors_close(&checkpoint->files[f]);
  tri_free(checkpoint->files);
  tri_free(checkpoint->four_bits);
  json_decref(checkpoint->document);
  tri_free(checkpoint);
}

/* ---- lookup ------------------------------------------------------------------------------------------------------ */

const char *tri_checkpoint_path(const tri_checkpoint *checkpoint) { return checkpoint->path; }

bool tri_checkpoint_is_adapter(const tri_checkpoint *checkpoint) { return checkpoint->adapter; }

const tri_checkpoint_state *tri_checkpoint_get_state(const tri_checkpoint *checkpoint) {
  return checkpoint->document == NULL ? NULL : &checkpoint->state;
}

int64_t tri_checkpoint_num_tensors(const tri_checkpoint *checkpoint) { return checkpoint->num_tensors; }

tri_checkpoint_entry tri_checkpoint_get_entry(const tri_checkpoint *checkpoint, int64_t index) {
  const tri_safetensors_file *file = checkpoint->files;
  while (index >= file->header.num_tensors) {
    index -= file->header.num_tensors;
    file++;
  }
  tri_checkpoint_entry entry = {.tensor = &file->header.tensors[index], .file = file->input.path};
  const json_t *facts =
      json_object_get(json_object_get(checkpoint->document, "files"), strrchr(file->input.path, '/') + 1);
  const json_t *recorded = json_object_get(json_object_get(facts, "tensors"), entry.tensor->name);
  entry.has_checksum = tri_state_parse_checksum(recorded, &entry.checksum);
  return entry;
}

static const tri_safetensors_tensor *find_in_files(const tri_checkpoint *checkpoint, const char *name,
                                                   const tri_safetensors_file **file) {
  for (int64_t f = 0; f < checkpoint->num_files; f++) {
    const tri_safetensors_tensor *tensor = tri_safetensors_find(&checkpoint->files[f].header, name);
    if (tensor == NULL) continue;
    *file = &checkpoint->files[f];
    return tensor;
  }
  return NULL;
}

/* Finds a tensor of the base in a module with factors: PEFT saves "lm_head.base_layer.weight" together with the factors
 * of an output projection, and trained biases with any factors. */
static const tri_safetensors_tensor *find_base_layer(const tri_checkpoint *checkpoint, const char *peft_name,
                                                     const tri_safetensors_file **file) {
  char other[TRI_PEFT_NAME_BYTES + sizeof ".base_layer"];
  const char *end = strrchr(peft_name, '.');
  if (end == NULL || strstr(peft_name, ".lora_") != NULL) return NULL;
  snprintf(other, sizeof other, "%.*s.base_layer%s", (int)(end - peft_name), peft_name, end);
  return find_in_files(checkpoint, other, file);
}

/* Finds a tensor by its exact name or, in an adapter, by PEFT's names: an adapter's tensors have these, its optimizer
 * states do not. */
static const tri_safetensors_tensor *find_exactly(const tri_checkpoint *checkpoint, const char *name,
                                                  const tri_safetensors_file **file) {
  char other[TRI_PEFT_NAME_BYTES];
  const tri_safetensors_tensor *tensor = find_in_files(checkpoint, name, file);
  for (int i = 0; i < 2 && tensor == NULL && checkpoint->adapter; i++) {
    if (i == 0) tri_peft_name(name, other);
    if (i == 1) tri_peft_file_name(name, other);
    tensor = find_in_files(checkpoint, other, file);
    if (tensor == NULL) tensor = find_base_layer(checkpoint, other, file);
  }
  return tensor;
}

static const tri_safetensors_tensor *find_itself(const tri_checkpoint *checkpoint, const char *name,
                                                 const tri_safetensors_file **file) {
  if (checkpoint->absent[0] != '\0' && strcmp(name, checkpoint->absent) == 0) name = checkpoint->present;
  static const char *const prefixes[] = {"transformer.", "model.", "gpt_neox."};
  const tri_safetensors_tensor *tensor = find_exactly(checkpoint, name, file);
  for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0] && tensor == NULL; p++) {
    size_t length = strlen(prefixes[p]);
    if (strncmp(name, prefixes[p], length) == 0) tensor = find_exactly(checkpoint, name + length, file);
  }
  return tensor;
}

/* Finds the tensor that a name reads: instead of a weight its average, if averages are read and the weight has one. */
static const tri_safetensors_tensor *find(const tri_checkpoint *checkpoint, const char *name,
                                          const tri_safetensors_file **file) {
  char other[TRI_PEFT_NAME_BYTES + sizeof TRI_AVERAGE_SUFFIX];
  if (!checkpoint->average) return find_itself(checkpoint, name, file);
  snprintf(other, sizeof other, "%s%s", tri_peft_own_name(name), TRI_AVERAGE_SUFFIX);
  const tri_safetensors_tensor *tensor = find_in_files(checkpoint, other, file);
  return tensor != NULL ? tensor : find_itself(checkpoint, name, file);
}

int64_t tri_checkpoint_index_of(const tri_checkpoint *checkpoint, const char *name) {
  const tri_safetensors_file *file = NULL;
  const tri_safetensors_tensor *tensor = find_itself(checkpoint, name, &file);
  int64_t index = 0;
  if (tensor == NULL) return -1;
  for (const tri_safetensors_file *f = checkpoint->files; f < file; f++) index += f->header.num_tensors;
  return index + (tensor - file->header.tensors);
}

bool tri_checkpoint_has_both(const tri_checkpoint *checkpoint, const char *name, const char *other) {
  return checkpoint->absent[0] == '\0' && tri_checkpoint_has(checkpoint, name) && tri_checkpoint_has(checkpoint, other);
}

const tri_four_bits *tri_checkpoint_four_bits(const tri_checkpoint *checkpoint, const char *name) {
  const tri_safetensors_file *file = NULL;
  const tri_safetensors_tensor *tensor = find(checkpoint, name, &file);
  return tensor == NULL ? NULL : tensor->four_bits;
}

bool tri_checkpoint_has(const tri_checkpoint *checkpoint, const char *name) {
  const tri_safetensors_file *file = NULL;
  return find(checkpoint, name, &file) != NULL;
}

/* Looks up a tensor by name, and checks its shape. */
static tri_status find_with_shape(const tri_checkpoint *checkpoint, const char *name, int num_dims,
                                  const int64_t *shape, const tri_safetensors_file **file,
                                  const tri_safetensors_tensor **out) {
  const tri_safetensors_tensor *tensor = find(checkpoint, name, file);
  if (tensor == NULL) {
    return tri_fail(
        TRI_BAD_FILE, "%s has no tensor `%s`; %s", checkpoint->path, name,
        checkpoint->adapter
            ? "it is an adapter, which needs the weights of its base (`trireme export --merge` makes one model of both)"
            : "is it a checkpoint of another model?");
  }
  bool same = tensor->num_dims == num_dims;
  for (int d = 0; d < num_dims && same; d++) same = tensor->shape[d] == shape[d];
  if (!same) {
    char found[TRI_SAFETENSORS_SHAPE_BYTES], wanted[TRI_SAFETENSORS_SHAPE_BYTES];
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has shape %s, but the model's has %s", (*file)->input.path,
                    tensor->name, tri_safetensors_shape_text(tensor->num_dims, tensor->shape, found),
                    tri_safetensors_shape_text(num_dims, shape, wanted));
  }
  *out = tensor;
  return TRI_OK;
}

tri_status tri_checkpoint_check_shape(const tri_checkpoint *checkpoint, const char *name, int num_dims,
                                      const int64_t *shape) {
  const tri_safetensors_file *file = NULL;
  const tri_safetensors_tensor *tensor = NULL;
  return find_with_shape(checkpoint, name, num_dims, shape, &file, &tensor);
}

/* Compares the checksum of a tensor with the document, unless the checkpoint is unverified. */
static tri_status compare_sum(const tri_checkpoint *checkpoint, const tri_safetensors_file *file, const char *name,
                              uint64_t found) {
  const json_t *facts = NULL;
  uint64_t wanted = 0;
  if (checkpoint->document == NULL || checkpoint->unverified) return TRI_OK;
  TRI_TRY(tri_state_facts(checkpoint->path, checkpoint->document, strrchr(file->input.path, '/') + 1, &facts));
  if (!tri_state_parse_checksum(json_object_get(json_object_get(facts, "tensors"), name), &wanted)) {
    return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has no checksum in %s", file->input.path, name, TRI_FILE_STATE);
  }
  if (found == wanted) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` is damaged: its checksum is %016" PRIx64 ", not %016" PRIx64,
                  file->input.path, name, found, wanted);
}

tri_status tri_checkpoint_compare(const tri_checkpoint *checkpoint, const char *name, uint64_t sum) {
  const tri_safetensors_file *file = NULL;
  const tri_safetensors_tensor *tensor = find(checkpoint, name, &file);
  if (tensor == NULL) return TRI_OK; /* the tensor is missing, so that nothing of it was read */
  return compare_sum(checkpoint, file, tensor->name, sum);
}

tri_status tri_checkpoint_read(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                               const int64_t *shape, const tri_checkpoint_memory *memory, void *dst) {
  int64_t count = 1;
  uint64_t sum = 0;
  for (int d = 0; d < num_dims; d++) count *= shape[d];
  tri_checkpoint_slice whole = {.count = count, .data = dst, .memory = memory};
  TRI_TRY(tri_checkpoint_read_part(checkpoint, name, type, num_dims, shape, &whole, &sum));
  return tri_checkpoint_compare(checkpoint, name, sum);
}

static tri_status read_run(const tri_safetensors_file *file, const tri_safetensors_tensor *tensor, tri_dtype type,
                           const tri_checkpoint_slice *slice, const tri_slice_run *run, tri_slice_extent *window,
                           uint64_t *sum) {
  size_t element = tri_dtype_bytes(type);
  for (int64_t done = 0; done < run->count;) {
    int64_t count = run->count - done;
    void *to = NULL;
    TRI_TRY(tri_slice_write(window, slice, element, run->at + done, &count, &to));
    TRI_TRY(tri_safetensors_read_some(file, tensor, type, run->global + done, count, to, sum));
    TRI_TRY(tri_slice_written(window, slice, element, run->at + done, count));
    done += count;
  }
  return TRI_OK;
}

/* Passes the codes of a matrix in 4 bits unchanged to memory that stores codes. Fails with TRI_UNSUPPORTED for codes of
 * another kind. */
static tri_status hand_over(const tri_safetensors_tensor *tensor, const tri_checkpoint_slice *slice) {
  const size_t bytes = tri_nf4_bytes(slice->count);
  void *codes = NULL;
  TRI_TRY(tri_four_bits_check_kind(tensor->four_bits));
  TRI_TRY(tri_alloc("a matrix in 4 bits", bytes, 1, &codes));
  tri_status status = tri_four_bits_read_codes(tensor->four_bits, codes);
  if (status == TRI_OK) status = slice->memory->write_codes(slice->memory->context, codes, bytes);
  tri_free(codes);
  return status;
}

tri_status tri_checkpoint_read_part(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                    const int64_t *shape, const tri_checkpoint_slice *slice, uint64_t *sum) {
  const tri_safetensors_file *file = NULL;
  const tri_safetensors_tensor *tensor = NULL;
  if (checkpoint->document == NULL || checkpoint->unverified) sum = NULL;
  TRI_TRY(find_with_shape(checkpoint, name, num_dims, shape, &file, &tensor));
  if (tensor->four_bits != NULL && slice->memory != NULL && slice->memory->write_codes != NULL) {
    return hand_over(tensor, slice);
  }
  tri_slice_extent window = {0};
  tri_status status = TRI_OK;
  for (tri_slice_run run = {0}; tri_slice_next(slice, &run);) {
    TRI_TRY_GOTO(read_run(file, tensor, type, slice, &run, &window, sum), done);
  }
done:
  tri_slice_extent_release(&window);
  return status;
}

tri_status tri_checkpoint_read_slice(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                     const int64_t *shape, const tri_checkpoint_slice *slice) {
  return tri_checkpoint_read_part(checkpoint, name, type, num_dims, shape, slice, NULL);
}

tri_status tri_checkpoint_slice_not_finite(const tri_checkpoint_slice *slice, tri_dtype type, int64_t *out) {
  tri_slice_extent window = {0};
  tri_status status = TRI_OK;
  *out = -1;
  for (int64_t at = 0, count; at < slice->count && *out < 0; at += count) {
    const void *values = NULL;
    count = slice->count - at;
    TRI_TRY_GOTO(tri_slice_read(&window, slice, tri_dtype_bytes(type), at, &count, &values), done);
    int64_t bad = tri_first_not_finite(tri_safetensors_type_of(type), count, values);
    if (bad >= 0) *out = at + bad;
  }
done:
  tri_slice_extent_release(&window);
  return status;
}

tri_status tri_checkpoint_check_finite(const tri_checkpoint *checkpoint, const tri_parameter *parameter, tri_dtype type,
                                       const tri_checkpoint_slice *slice) {
  int64_t bad = -1;
  TRI_TRY(tri_checkpoint_slice_not_finite(slice, type, &bad));
  if (bad < 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: element %" PRId64 " of the tensor `%s` is NaN or infinite (as %s), so the model cannot be used",
                  checkpoint->path, slice->first + bad, parameter->name, tri_dtype_name(type));
}
