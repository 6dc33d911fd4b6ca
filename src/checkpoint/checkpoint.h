/* Checkpoints: a folder that transformers loads as it is and that a run resumes from.
 *
 *   ROOT/step-00000100/
 *     config.json             Hugging Face's own
 *     model.safetensors       weights under Hugging Face's names, in their global shapes
 *     optimizer.safetensors   what the optimizer keeps of each weight, under the weight's name and a suffix
 *     tokenizer.json          where there is one
 *     state.json              progress; sizes and checksums of all of the above
 *     COMPLETE                written last; size and checksum of state.json
 *
 * A save writes into ROOT/.tmp-step-00000100-PID, flushes every file and the folder, and renames it, so a folder of
 * the final name is whole however the process ends. Removal goes the other way: rename to ROOT/.old-step-00000100-PID,
 * COMPLETE first, then the rest. What a dead process left is cleared away by the next save. One process at a time
 * saves into a root. */
#ifndef TRI_CHECKPOINT_CHECKPOINT_H
#define TRI_CHECKPOINT_CHECKPOINT_H

#include "base/file.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "device/dtype.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Suffixes of the names in optimizer.safetensors: Adam's moments as PyTorch calls them, and the fp32 (fp64) master copy
 * where model.safetensors is narrower. "wte.weight" has "wte.weight.exp_avg" and "wte.weight.exp_avg_sq". */
#define TRI_CHECKPOINT_MOMENT1 ".exp_avg"
#define TRI_CHECKPOINT_MOMENT2 ".exp_avg_sq"
#define TRI_CHECKPOINT_MASTER ".master"

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* One tensor in host memory, dense and row-major. */
typedef struct tri_checkpoint_tensor {
  const char *name;
  tri_dtype type;
  int num_dims;
  int64_t shape[TRI_SAFETENSORS_DIMS];
  const void *data;
} tri_checkpoint_tensor;

/* Where a run stands. */
typedef struct tri_checkpoint_state {
  int64_t step, samples, tokens; /* finished and seen so far */
  uint64_t seed;
  const char *run_config; /* the run file as resolved, or NULL                                             */
  json_t *progress;       /* an object with whatever else the caller wants back, or NULL; never changed */
} tri_checkpoint_state;

typedef struct tri_checkpoint_request {
  const char *root;
  tri_checkpoint_state state;
  const tri_checkpoint_tensor *weights, *optimizer;
  int64_t num_weights, num_optimizer; /* without optimizer tensors there is no such file                          */
  const char *model_config;           /* the text of config.json                                                  */
  const char *tokenizer;              /* path of a tokenizer.json to copy, or NULL                                */
  int64_t keep;                       /* newest checkpoints kept, this one included; 0 keeps all                  */
} tri_checkpoint_request;

/* LOCAL. Saves, then removes what `keep` leaves over. Tensors go from the caller's memory to the files with no copy
 * between. When it fails, nothing of it stays and the older checkpoints are as they were. `path` (may be NULL) gets the
 * folder. A checkpoint of the same step is replaced. Trouble with removing old ones is a warning, not a failure. */
tri_status tri_checkpoint_save(const tri_checkpoint_request *request, char path[TRI_PATH_BYTES]);

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* LOCAL. The newest checkpoint below root that is complete and verified (every size, every checksum); a line is logged
 * for each newer one that was passed over, with the reason. path is "" if there is none at all; if there are some but
 * none is good, that is TRI_BAD_FILE, since to begin anew then should be somebody's decision. */
tri_status tri_checkpoint_newest(const char *root, char path[TRI_PATH_BYTES]);

/* LOCAL. Reads everything and compares sizes and checksums; TRI_BAD_FILE names the first file or tensor that differs.
 * A folder without state.json (a plain Hugging Face one) is TRI_BAD_FILE. */
tri_status tri_checkpoint_verify(const char *path);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tri_checkpoint tri_checkpoint;

/* LOCAL. Opens a checkpoint, or a Hugging Face folder: model.safetensors, or the shards that
 * model.safetensors.index.json names (and the same of `optimizer`). Checks that COMPLETE and state.json, where there is
 * one, belong together, and every header; it does not read the tensors (tri_checkpoint_verify does). Release with
 * tri_checkpoint_close. */
tri_status tri_checkpoint_open(const char *path, tri_checkpoint **out);
void tri_checkpoint_close(tri_checkpoint *checkpoint);

const char *tri_checkpoint_path(const tri_checkpoint *checkpoint);
/* NULL for a plain Hugging Face folder. Owned by the checkpoint. */
const tri_checkpoint_state *tri_checkpoint_get_state(const tri_checkpoint *checkpoint);

/* All tensors: file after file, within a file in the order of their bytes. */
int64_t tri_checkpoint_num_tensors(const tri_checkpoint *checkpoint);
typedef struct tri_checkpoint_entry {
  const tri_safetensors_tensor *tensor;
  const char *file;  /* path */
  bool has_checksum; /* false in a plain Hugging Face folder */
  uint64_t checksum;
} tri_checkpoint_entry;
tri_checkpoint_entry tri_checkpoint_get_entry(const tri_checkpoint *checkpoint, int64_t index);

/* Whether there is such a tensor. */
bool tri_checkpoint_has(const tri_checkpoint *checkpoint, const char *name);

/* LOCAL. Reads a whole tensor into dst as `type` (see tri_safetensors_read for the conversions). A missing one or
 * another shape is TRI_BAD_FILE. A name that begins with the base model's prefix ("transformer.", "model.") is found
 * without it too, as in files that transformers saved from a base model. */
tri_status tri_checkpoint_read(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                               const int64_t *shape, void *dst);

#endif
