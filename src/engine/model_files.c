#include "engine/model_files.h"

#include "base/memory.h"
#include "checkpoint/principal.h"
#include "comm/agreement.h"
#include "engine/block_loader.h"
#include "engine/quantised.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { PIECE_ELEMENTS = 1 << 18, PIECE_BYTES = 1 << 22, MOST_SETTINGS_BYTES = 64 << 20 };

/* Converts values from fp64 to the parameter's type, and writes them to its memory. */
static tri_status write_piece(const tri_checkpoint_memory *memory, tri_dtype type, const double *from, int64_t count,
                              float *narrow, char *to) {
  const size_t bytes = (size_t)count * tri_dtype_bytes(type);
  const void *values = narrow;
  switch (type) {
    case TRI_FP64: values = from; break;
    case TRI_FP32:
      for (int64_t i = 0; i < count; i++) narrow[i] = (float)from[i];
      break;
    case TRI_BF16:
      for (int64_t i = 0; i < count; i++) ((uint16_t *)(void *)narrow)[i] = tri_bf16_of((float)from[i]);
      break;
    case TRI_INT32: return tri_fail_internal("weights of %s", tri_dtype_name(type));
  }
  if (memory != NULL) return memory->write(memory->context, to, values, bytes);
  memcpy(to, values, bytes);
  return TRI_OK;
}

/* Loads elements [first, first + count) of a tensor on disk. */
static tri_status load_pieces(const tri_merged *weights, const tri_parameter *on_disk, const tri_low_rank *factors,
                              const tri_checkpoint_memory *memory, tri_dtype type, int64_t first, int64_t count,
                              double *wide, float *narrow, char *to, uint64_t *sum) {
  const size_t element = tri_dtype_bytes(type);
  for (int64_t done = 0; done < count; done += PIECE_ELEMENTS) {
    const int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    const tri_checkpoint_slice slice = {.first = first + done, .count = piece, .data = wide};
    TRI_TRY(tri_merged_read_part(weights, on_disk, factors, TRI_FP64, &slice, sum));
    TRI_TRY(write_piece(memory, type, wide, piece, narrow, to + (size_t)done * element));
  }
  return TRI_OK;
}

static tri_status load_runs(const tri_merged *weights, const tri_parameter *tensor, const tri_low_rank *factors,
                            const tri_checkpoint_memory *memory, tri_dtype type, double *wide, float *narrow, char *to,
                            uint64_t *sum) {
  const tri_parameter on_disk = tri_parameter_on_disk(tensor);
  const int64_t length = tri_parameter_run_length(tensor);
  const size_t element = tri_dtype_bytes(type);
  for (int64_t i = 0; i * length < tensor->count; i++) {
    TRI_TRY(load_pieces(weights, &on_disk, factors, memory, type, tri_parameter_run(tensor, i), length, wide, narrow,
                        to + (size_t)(i * length) * element, sum));
  }
  return TRI_OK;
}

static tri_status load_merged(const tri_merged *weights, const tri_parameter *tensor, const tri_low_rank *factors,
                              const tri_checkpoint_memory *memory, tri_dtype type, char *to, uint64_t *sum) {
  double *wide = NULL;
  float *narrow = NULL;
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, sizeof *wide, &wide));
  tri_status status = tri_alloc("a piece of a tensor", PIECE_ELEMENTS, sizeof *narrow, &narrow);
  if (status == TRI_OK) status = load_runs(weights, tensor, factors, memory, type, wide, narrow, to, sum);
  tri_free(narrow);
  tri_free(wide);
  return status;
}

/* A model that is being loaded, and the checksums of its tensors on disk. */
typedef struct loading {
  const tri_merged *weights;
  tri_model_files_part part;
  const tri_parameter_table *table;
  const tri_executor *executor;
  const tri_group *slices;
  uint64_t sum;   /* checksum of this rank's share of the current tensor on disk (see `counts`) */
  uint64_t *sums; /* `sum` of every tensor so far, in the order of the table [count]; unused on one rank */
  int64_t count, room;
} loading;

/* Loads tensor `number` of entry `entry`, and quantises it if it is in blocks. If the table has factors, those of an
 * adapter are parameters of their own; if not, their product is added to the base's values. */
static tri_status load_tensor(const loading *l, int64_t entry, int64_t number, uint64_t *sum) {
  const tri_parameter *parameter = &l->table->entries[entry];
  const tri_dtype type = tri_stored_type(parameter->stored, l->executor->type);
  int64_t first = 0;
  tri_low_rank factors = {.left = NULL};
  const tri_parameter tensor = tri_parameter_tensor(parameter, number, &first);
  const tri_parameter on_disk = tri_parameter_on_disk(&tensor);
  const tri_checkpoint *from = tri_merged_source(l->weights, on_disk.name);
  tri_checkpoint_slice slice = {.part = &tensor, .count = tensor.count, .memory = tri_executor_memory(l->executor)};
  tri_block_loader blocks;
  if (tri_stored_is_coded(parameter->stored) && tensor.count > 0) {
    tri_block_loader_set_up(l->executor, entry, first / tensor.count, &blocks);
    slice.data = blocks.scratch;
    slice.memory = &blocks.memory;
  } else {
    slice.data = (char *)l->executor->weights->parameters[entry].value + (size_t)first * tri_dtype_bytes(type);
  }
  if (!l->table->has_factors) TRI_TRY(tri_merged_factors(l->weights, &on_disk, &factors));
  tri_status status = TRI_OK;
  if (!tri_low_rank_is_plain(&factors)) {
    status = load_merged(l->weights, &tensor, &factors, slice.memory, type, slice.data, sum);
  } else {
    status = tri_checkpoint_read_part(from, on_disk.name, type, on_disk.num_dims, on_disk.shape, &slice, sum);
  }
  tri_low_rank_release(&factors);
  TRI_TRY(status);
  return tri_checkpoint_check_finite(from, &tensor, type, &slice);
}

/* Loads a matrix of the base, and quantises it to 4 bits. Each rank reads the whole matrix. */
static tri_status load_quantised(const loading *l, int64_t entry, int64_t number) {
  tri_quantised matrix;
  int64_t first = 0;
  const tri_parameter *parameter = &l->table->entries[entry];
  const tri_parameter tensor = tri_parameter_tensor(parameter, number, &first);
  const tri_parameter on_disk = tri_parameter_on_disk(&tensor);
  const tri_checkpoint *from = tri_merged_source(l->weights, on_disk.name);
  uint64_t sum = 0;
  if (tensor.count == 0) return TRI_OK;
  tri_quantised_set_up(l->executor, entry, first / tensor.count, &matrix);
  const tri_checkpoint_slice slice = {.count = matrix.cut.total, .data = matrix.wide, .memory = &matrix.memory};
  TRI_TRY(tri_checkpoint_read_part(from, on_disk.name, matrix.type, on_disk.num_dims, on_disk.shape, &slice, &sum));
  TRI_TRY(tri_checkpoint_check_finite(from, &tensor, matrix.type, &slice));
  return tri_merged_compare(l->weights, &on_disk, sum);
}

/* Returns whether tensor `number` of an entry is the last part of a tensor on disk. */
static bool is_last_part(const tri_parameter_table *table, int64_t entry, int64_t number) {
  const tri_parameter *parameter = &table->entries[entry];
  if (parameter->stacked.as != TRI_STACKING_NONE) return number + 1 == tri_parameter_num_tensors(parameter);
  return entry + 1 == table->num_entries || !tri_parameter_continues(&table->entries[entry + 1]);
}

/* Returns whether an entry's tensors are read. */
static bool is_read(const loading *l, const tri_parameter *entry) {
  if (entry->alias || entry->first) return false;
  switch (l->part) {
    case TRI_MODEL_FILES_WHOLE: break;
    case TRI_MODEL_FILES_BASE: return entry->frozen;
  }
  return true;
}

/* Returns whether checksums of an entry's tensors are added up over the ranks. A matrix in 4 bits is read whole by each
 * rank. */
static bool is_summed(const loading *l, const tri_parameter *entry) {
  return is_read(l, entry) && entry->stored != TRI_STORED_NF4;
}

/* Returns whether an entry is the first part of a matrix whose factors' initial values are computed by
 * load_first_factors. */
static bool has_first_factors(const loading *l, const tri_parameter *entry) {
  switch (l->part) {
    case TRI_MODEL_FILES_WHOLE: break;
    case TRI_MODEL_FILES_BASE: return false;
  }
  return !entry->factor && entry->firsts[0] >= 0 && !tri_parameter_continues(entry);
}

/* Compares the checksum of a tensor with the one on disk if a single rank has read the whole model. With several ranks,
 * appends the checksum of this rank's share to l->sums, for join_sums. */
static tri_status end_tensor(loading *l, const tri_parameter *tensor) {
  if (l->slices->size == 1) return tri_merged_compare(l->weights, tensor, l->sum);
  TRI_TRY(tri_grow("checksums", sizeof *l->sums, l->count, &l->room, &l->sums));
  l->sums[l->count++] = l->sum;
  return TRI_OK;
}

/* Returns whether the checksums include this rank's elements of a parameter. If several ranks hold the whole parameter,
 * such as experts that are not split, only the first rank counts. */
static bool counts(const tri_parameter *parameter, const tri_group *slices) {
  return parameter->counted && (slices->rank == 0 || parameter->count < tri_parameter_global_count(parameter));
}

static tri_status load_entry(loading *l, int64_t entry) {
  const tri_parameter *parameter = &l->table->entries[entry];
  for (int64_t t = 0, first = 0; t < tri_parameter_num_tensors(parameter); t++) {
    const tri_parameter tensor = tri_parameter_tensor(parameter, t, &first);
    const tri_parameter on_disk = tri_parameter_on_disk(&tensor);
    uint64_t copy = 0; /* checksum of elements that another rank's checksum includes; not used */
    if (parameter->stored == TRI_STORED_NF4) {
      TRI_TRY(load_quantised(l, entry, t));
      continue;
    }
    if (!tri_parameter_continues(&tensor)) l->sum = 0;
    TRI_TRY(load_tensor(l, entry, t, counts(parameter, l->slices) ? &l->sum : &copy));
    if (is_last_part(l->table, entry, t)) TRI_TRY(end_tensor(l, &on_disk));
  }
  return TRI_OK;
}

/* Sets the initial values of the factors of a matrix of the base (PiSSA). The model subtracts their product from the
 * product of the trained factors. All parts of a matrix share the factor A. */
static tri_status load_first_factors(const loading *l, int64_t entry) {
  const tri_weights *weights = l->executor->weights;
  const tri_parameter whole = tri_parameter_on_disk(&l->table->entries[entry]);
  const tri_adapter_pair pair = tri_adapter_pair_of(l->weights->adapter, whole.name);
  tri_principal made = {0};
  tri_status status = tri_principal_create(l->weights->base, &whole, &pair, &made);
  for (int64_t i = entry; status == TRI_OK && i < l->table->num_entries; i++) {
    const tri_parameter *part = &l->table->entries[i];
    if (i > entry && !tri_parameter_continues(part)) break;
    if (i == entry) status = tri_weights_set(weights, part->firsts[0], TRI_FP32, made.a);
    if (status == TRI_OK) status = tri_weights_set(weights, part->firsts[1], TRI_FP32, made.b);
  }
  tri_principal_release(&made);
  return status;
}

static tri_status load_all(loading *l) {
  const tri_parameter_table *table = l->table;
  TRI_TRY(tri_queue_finish(l->executor->device->queue)); /* the host writes to the arrays */
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (has_first_factors(l, entry)) TRI_TRY(load_first_factors(l, i));
    if (is_read(l, entry)) TRI_TRY(load_entry(l, i));
  }
  return TRI_OK;
}

/* Adds up the ranks' sums of each tensor, and compares the total with the sum on disk. `gathered`: [slices->size,
 * l->count]. */
static tri_status compare_sums(const loading *l, const uint64_t *gathered) {
  int64_t summed = 0, first = 0;
  for (int64_t i = 0; i < l->table->num_entries; i++) {
    const tri_parameter *entry = &l->table->entries[i];
    for (int64_t t = 0; is_summed(l, entry) && t < tri_parameter_num_tensors(entry); t++) {
      const tri_parameter tensor = tri_parameter_tensor(entry, t, &first), on_disk = tri_parameter_on_disk(&tensor);
      uint64_t sum = 0;
      if (!is_last_part(l->table, i, t)) continue;
      for (int r = 0; r < l->slices->size; r++) sum += gathered[r * l->count + summed];
      TRI_TRY(tri_merged_compare(l->weights, &on_disk, sum));
      summed++;
    }
  }
  return TRI_OK;
}

static tri_status join_sums(const loading *l) {
  const size_t bytes = (size_t)l->count * sizeof *l->sums;
  uint64_t *gathered = NULL;
  TRI_TRY(tri_alloc("checksums", (size_t)l->slices->size, bytes, &gathered));
  tri_status status = tri_gather_bytes(l->slices, bytes, l->sums, gathered);
  if (status == TRI_OK) status = compare_sums(l, gathered);
  tri_free(gathered);
  return status;
}

tri_status tri_model_files_load(const tri_merged *weights, tri_model_files_part part, const tri_parameter_table *table,
                                const tri_group *slices, tri_executor *executor) {
  loading l = {.weights = weights, .part = part, .table = table, .executor = executor, .slices = slices};
  tri_block_loader_log(table);
  tri_status status = tri_common_status(slices, load_all(&l));
  if (status == TRI_OK && slices->size > 1) status = join_sums(&l);
  tri_free(l.sums);
  tri_weights_changed(executor->weights);
  return status;
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* Adds the contents of a file of a model's or an adapter's folder to *hash, if the folder has this file. */
static tri_status add_file(const tri_checkpoint *from, const char *name, uint64_t *hash) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  if (from == NULL) return TRI_OK;
  if (snprintf(path, sizeof path, "%s/%s", tri_checkpoint_path(from), name) >= (int)sizeof path) return TRI_OK;
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read(path, MOST_SETTINGS_BYTES, &text, &bytes));
  *hash = XXH3_64bits_withSeed(text, bytes, *hash);
  tri_free(text);
  return TRI_OK;
}

/* Adds the files that identify the model to *hash. */
static tri_status add_settings(const tri_merged *weights, uint64_t *hash) {
  /* Only checkpoints have this file; it depends on the checksums of all their files. */
  TRI_TRY(add_file(weights->named, "COMPLETE", hash));
  TRI_TRY(add_file(weights->named, "config.json", hash));
  TRI_TRY(add_file(weights->named, "adapter_config.json", hash));
  return add_file(weights->base, "config.json", hash);
}

/* Returns the bytes that the values of a parameter have on this rank. */
static size_t stored_bytes(const tri_parameter *parameter, tri_dtype type) {
  if (tri_stored_is_coded(parameter->stored))
    return (size_t)(tri_parameter_num_matrices(parameter) * tri_parameter_matrix_bytes(parameter));
  return (size_t)parameter->count * tri_dtype_bytes(tri_stored_type(parameter->stored, type));
}

/* Adds this rank's values of a parameter to *hash. `piece`: scratch memory [PIECE_BYTES]. */
static tri_status add_values(const tri_executor *executor, int64_t entry, void *piece, uint64_t *hash) {
  const tri_parameter *parameter = &executor->weights->table->entries[entry];
  const tri_checkpoint_memory *memory = tri_executor_memory(executor);
  const size_t bytes = stored_bytes(parameter, executor->type);
  const char *values = executor->weights->parameters[entry].value;
  for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
    const size_t some = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    if (memory != NULL) TRI_TRY(memory->read(memory->context, piece, values + at, some));
    *hash = XXH3_64bits_withSeed(memory != NULL ? piece : values + at, some, *hash);
  }
  return TRI_OK;
}

/* The hashes of the model of a rank. `whole`: hash of the settings files, and of the parameters that the rank holds as
 * a whole. `parts`: hash of the rank's parts of the other parameters. */
typedef struct model_hashes {
  uint64_t whole, parts;
  /* 1 + first_unit of the first split parameter, equal on ranks that hold the same parts; 0: no parameter is split. */
  int64_t place;
} model_hashes;

static tri_status hash_model(const tri_merged *weights, const tri_executor *executor, void *piece, model_hashes *out) {
  const tri_parameter_table *table = executor->weights->table;
  TRI_TRY(add_settings(weights, &out->whole));
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *parameter = &table->entries[i];
    const bool whole = parameter->count == tri_parameter_global_count(parameter);
    if (parameter->alias) continue;
    if (!whole && out->place == 0) out->place = 1 + parameter->first_unit;
    TRI_TRY(add_values(executor, i, piece, whole ? &out->whole : &out->parts));
  }
  return TRI_OK;
}

/* Returns the lowest rank whose model differs from that of a lower rank; -1 if all are equal. */
static int differing(const model_hashes *all, int ranks) {
  for (int r = 1; r < ranks; r++) {
    for (int before = 0; before < r; before++) {
      if (all[r].whole != all[before].whole) return r;
      if (all[r].place == all[before].place && all[r].parts != all[before].parts) return r;
    }
  }
  return -1;
}

/* COLLECTIVE. Fails on all ranks if `status` is an error on one, or if the hashes differ. */
static tri_status compare_hashes(const tri_group *group, const tri_merged *weights, tri_status status,
                                 const model_hashes *own) {
  model_hashes *all = NULL;
  const tri_status allocated = tri_alloc("models of the ranks", (size_t)group->size, sizeof *all, &all);
  status = tri_common_status(group, status == TRI_OK ? allocated : status);
  if (status == TRI_OK) status = tri_gather_bytes(group, sizeof *own, own, all);
  const int differs = status == TRI_OK ? differing(all, group->size) : -1;
  tri_free(all);
  TRI_TRY(status);
  if (differs < 0) return TRI_OK;
  if (group->rank > 0) return tri_fail(TRI_BAD_CONFIG, "%s", ""); /* the first rank prints the message */
  return tri_fail(
      TRI_BAD_CONFIG,
      "rank %d has another model than rank 0 under the name %s; all ranks of a job need the same one; check "
      "that all nodes see the same folder under that name",
      differs, tri_checkpoint_path(weights->named));
}

tri_status tri_model_files_agree_settings(const tri_group *group, const tri_merged *weights) {
  model_hashes own = {0};
  if (group->size == 1) return TRI_OK;
  const tri_status status = add_settings(weights, &own.whole);
  return compare_hashes(group, weights, status, &own);
}

static tri_status hash_rank(const tri_merged *weights, const tri_executor *executor, model_hashes *out) {
  void *piece = NULL;
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_BYTES, 1, &piece));
  const tri_status status = hash_model(weights, executor, piece, out);
  tri_free(piece);
  return status;
}

tri_status tri_model_files_agree(const tri_group *group, const tri_merged *weights, const tri_executor *executor) {
  model_hashes own = {0};
  if (group->size == 1) return TRI_OK;
  const tri_status status = hash_rank(weights, executor, &own);
  return compare_hashes(group, weights, status, &own);
}

tri_status tri_model_files_hash(const tri_merged *weights, const tri_executor *executor, uint64_t *out) {
  model_hashes own = {0};
  TRI_TRY(hash_rank(weights, executor, &own));
  *out = own.whole ^ own.parts;
  return TRI_OK;
}

/* Returns the adapter's own folder if it has a tokenizer, else the folder of its base. */
const char *tri_model_files_tokenizer_folder(const tri_merged *weights) {
  char path[TRI_PATH_BYTES];
  bool found = false;
  const char *folder = tri_checkpoint_path(weights->named);
  if (weights->base == NULL || tri_tokenizer_of_folder(folder, path, &found) != TRI_OK) return folder;
  return found ? folder : tri_checkpoint_path(weights->base);
}

tri_status tri_model_files_tokenizer(const tri_merged *weights, const char *given, bool verify,
                                     char path[TRI_PATH_BYTES]) {
  if (given != NULL) {
    TRI_TRY(tri_tokenizer_path(given, path));
    return verify ? tri_checkpoint_verify_file(path) : TRI_OK;
  }
  bool found = false;
  TRI_TRY(tri_tokenizer_of_folder(tri_model_files_tokenizer_folder(weights), path, &found));
  if (!found) path[0] = '\0';
  return TRI_OK;
}
