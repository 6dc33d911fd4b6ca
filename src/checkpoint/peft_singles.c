#include "checkpoint/peft_singles.h"

#include "base/memory.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_experts.h"

#include <stdio.h>
#include <string.h>

#define GATE_UP_PATTERN ".*\\.gate_up_proj"

bool tri_peft_has_singles(const tri_checkpoint *from, bool *gate_up) {
  bool found = false;
  *gate_up = false;
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(from); i++) {
    const char *name = tri_checkpoint_get_entry(from, i).tensor->name;
    if (!tri_peft_is_of_single_expert(name)) continue;
    found = true;
    *gate_up = *gate_up || strstr(name, ".gate_proj.") != NULL || strstr(name, ".w1.") != NULL;
  }
  return found;
}

static tri_adapter_pattern *add_pattern(tri_adapter_patterns *patterns) {
  if (patterns->count == TRI_ADAPTER_PATTERNS) return NULL;
  tri_adapter_pattern *entry = &patterns->entries[patterns->count++];
  snprintf(entry->pattern, sizeof entry->pattern, "%s", GATE_UP_PATTERN);
  return entry;
}

tri_status tri_peft_convert_singles(const char *folder, tri_adapter *adapter) {
  tri_adapter_pattern *rank = add_pattern(&adapter->rank_pattern), *alpha = add_pattern(&adapter->alpha_pattern);
  if (rank == NULL || alpha == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s has %d patterns, which leaves no room for that of its experts", folder,
                    TRI_ADAPTER_PATTERNS);
  }
  rank->rank = 2 * adapter->rank;
  alpha->alpha = 2 * adapter->alpha;
  return TRI_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The factors in the folder that make up one factor of the run. */
typedef struct wanted {
  int64_t layer, member, first, kinds; /* layer, and index of the expert; the matrices are [first, first + kinds) of
                                          gate, up, down */
  int which;                           /* 0: the factors A; 1: the factors B */
} wanted;

static wanted wanted_of(const tri_parameter *part) {
  const tri_stacked *stacked = &part->stacked;
  const bool down = strstr(part->name, ".down_proj.") != NULL;
  wanted w = {.layer = part->layer, .member = stacked->number / stacked->kinds, .first = down ? 2 : 0, .kinds = 1};
  switch (stacked->as) {
    case TRI_STACKING_NONE: break;
    case TRI_STACKING_ROWS: w.kinds = down ? 1 : 2; break;
    case TRI_STACKING_COLUMNS:
      w.which = 1;
      w.first += stacked->number % stacked->kinds;
      break;
  }
  return w;
}

/* Finds the name of a factor in the folder, with the module names of Mixtral or of the other families; returns false if
 * the folder does not have it. */
static bool find_name(const tri_checkpoint *from, const wanted *w, int64_t kind, char out[TRI_PEFT_NAME_BYTES]) {
  static const char *const places[] = {"mlp", "block_sparse_moe"};
  static const char *const words[][3] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
  for (int i = 0; i < 2; i++) {
    snprintf(out, TRI_PEFT_NAME_BYTES, "model.layers.%ld.%s.experts.%ld.%s.lora_%c.weight", (long)w->layer, places[i],
             (long)w->member, words[i][kind], "AB"[w->which]);
    if (tri_checkpoint_index_of(from, out) >= 0) return true;
  }
  return false;
}

/* Makes the run's whole matrix, [rows, columns]: the factors that are read, and zeros elsewhere. */
static tri_status make_matrix(const tri_checkpoint *from, const tri_parameter *part, const wanted *w, double *matrix) {
  const int64_t rows = part->shape[0], columns = part->shape[1];
  const int64_t parts = w->first < 2 ? 2 : 1, rank = (w->which == 0 ? rows : columns) / parts;
  const int64_t shape[2] = {w->which == 0 ? rank : rows, w->which == 0 ? columns : rank};
  double *values = NULL;
  TRI_TRY(tri_alloc("a factor", (size_t)(shape[0] * shape[1]), sizeof *values, &values));
  tri_status status = TRI_OK;
  for (int64_t k = 0; k < w->kinds && status == TRI_OK; k++) {
    char name[TRI_PEFT_NAME_BYTES];
    const int64_t kind = w->first + k, offset = parts == 1 ? 0 : kind * rank;
    (void)find_name(from, w, kind, name);
    status = tri_checkpoint_read(from, name, TRI_FP64, 2, shape, NULL, values);
    for (int64_t i = 0; i < shape[0] && status == TRI_OK; i++) {
      double *to = w->which == 0 ? matrix + (offset + i) * columns : matrix + i * columns + offset;
      memcpy(to, values + i * shape[1], (size_t)shape[1] * sizeof *values);
    }
  }
  tri_free(values);
  return status;
}

/* Writes the slice's elements of the matrix to the slice's memory as `type`. */
static tri_status write_slice(tri_dtype type, const tri_checkpoint_slice *slice, const double *matrix) {
  const size_t bytes = (size_t)slice->count * tri_dtype_bytes(type);
  tri_parameter alone = *slice->part;
  void *host = NULL;
  alone.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  const int64_t length = tri_parameter_run_length(&alone);
  TRI_TRY(tri_alloc("a factor", bytes, 1, &host));
  for (int64_t i = 0; i < slice->count; i++) {
    const int64_t at = slice->first + i;
    tri_wide_set(type, host, i, matrix[tri_parameter_run(&alone, at / length) + at % length]);
  }
  tri_status status = TRI_OK;
  if (slice->memory == NULL) memcpy(slice->data, host, bytes);
  if (slice->memory != NULL) status = slice->memory->write(slice->memory->context, slice->data, host, bytes);
  tri_free(host);
  return status;
}

tri_status tri_peft_read_single(const tri_checkpoint *from, tri_dtype type, const tri_checkpoint_slice *slice,
                                bool *done) {
  char name[TRI_PEFT_NAME_BYTES];
  double *matrix = NULL;
  *done = false;
  if (slice->part == NULL || slice->part->stacked.members == 0 || !slice->part->factor || slice->own_tensor)
    return TRI_OK;
  const wanted w = wanted_of(slice->part);
  if (!find_name(from, &w, w.first, name)) return TRI_OK;
  const size_t count = (size_t)(slice->part->shape[0] * slice->part->shape[1]);
  TRI_TRY(tri_alloc("a factor", count, sizeof *matrix, &matrix));
  tri_status status = make_matrix(from, slice->part, &w, matrix);
  if (status == TRI_OK) status = write_slice(type, slice, matrix);
  tri_free(matrix);
  *done = true;
  return status;
}
