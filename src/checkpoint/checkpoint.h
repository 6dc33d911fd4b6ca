/* Checkpoints: a folder that transformers loads as it is and that a run resumes from.
 *
 *   ROOT/step-00000100/
 *     config.json             Hugging Face's own
 *     model.safetensors       weights under Hugging Face's names, in their global shapes; or, where they are more than
 *                             a file shall hold, model-0000i-of-0000N.safetensors and model.safetensors.index.json
 *     adapter_model.safetensors, adapter_config.json
 *                             in the place of model.safetensors, where factors beside a base's weights are what is
 *                             trained: PEFT's files, with its names (peft.h)
 *     optimizer.safetensors   what the optimizer keeps of each weight, under its name and a suffix; split alike
 *     tokenizer.json          where there is one
 *     state.json              progress; sizes and checksums of all of the above
 *     COMPLETE                written last; size and checksum of state.json
 *     PROVEN, DISPROVED       empty, one of them or none: what later steps say of it (below)
 *     BEST                    empty, from the beginning or not at all: no validation loss was as low before
 *
 * A save writes into ROOT/.tmp-step-00000100-PID, flushes every file and the folder, and renames it, so a folder of
 * the final name is whole however the process ends. Removal goes the other way: rename to ROOT/.old-step-00000100-PID,
 * COMPLETE first, then the rest. What a dead process left is cleared away by the next run or save. One job at a time
 * saves into a root; its ranks write at once, each what it holds (save.c). */
#ifndef TRI_CHECKPOINT_CHECKPOINT_H
#define TRI_CHECKPOINT_CHECKPOINT_H

#include "base/file.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "device/dtype.h"
#include "model/parameters.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tri_group tri_group; /* comm/comm.h: reading alone needs none */

/* Suffixes of the names in optimizer.safetensors: Adam's moments as PyTorch calls them, and the fp32 (fp64) master copy
 * where model.safetensors is narrower. "wte.weight" has "wte.weight.exp_avg" and "wte.weight.exp_avg_sq". */
#define TRI_CHECKPOINT_MOMENT1 ".exp_avg"
#define TRI_CHECKPOINT_MOMENT2 ".exp_avg_sq"
#define TRI_CHECKPOINT_MASTER ".master"
#define TRI_CHECKPOINT_AVERAGE ".average" /* of the weight over the run, in its shape */

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* One tensor, in its global shape. With `data` this rank saves all of it: host memory, dense and row-major. */
typedef struct tri_checkpoint_tensor {
  const char *name;
  tri_dtype type;
  int num_dims;
  int64_t shape[TRI_SAFETENSORS_DIMS];
  const void *data; /* or NULL */
} tri_checkpoint_tensor;

/* Memory that the host reaches by copies alone: a device's. Both functions wait for the copy. */
typedef struct tri_checkpoint_memory {
  void *context;
  tri_status (*read)(void *context, void *to_host, const void *from, size_t bytes);
  tri_status (*write)(void *context, void *to, const void *from_host, size_t bytes);
} tri_checkpoint_memory;

/* What one rank holds of a tensor: elements [first, first + count) of its local part of a parameter (of the whole
 * tensor where `part` is NULL), dense, of the tensor's type. To save, all ranks' slices must have each element once. */
typedef struct tri_checkpoint_slice {
  int64_t tensor; /* its number: weights, then the optimizer's */
  const tri_parameter *part;
  bool apart; /* the tensor is that part of one by itself (tri_parameter.within) */
  int64_t first, count;
  void *data;
  const tri_checkpoint_memory *memory; /* where data lies; NULL: in host memory */
} tri_checkpoint_slice;

/* Where a run stands. */
typedef struct tri_checkpoint_state {
  int64_t step, samples, tokens; /* finished and seen so far */
  uint64_t seed;
  const char *run_config; /* the run file as resolved, or NULL                                             */
  json_t *progress;       /* an object with whatever else the caller wants back, or NULL; never changed */
} tri_checkpoint_state;

/* What a rank's save needs beside what it saves. */
enum { TRI_CHECKPOINT_BUFFER_BYTES = (8 << 20) + 4096 };

typedef struct tri_checkpoint_request {
  const tri_group *group; /* the ranks that save together, or NULL: this one alone */
  const char *root;
  const char *folder; /* not NULL: this very folder, which must not exist; root, step and keep mean nothing then */
  bool plain;         /* a Hugging Face folder: without state.json and COMPLETE */
  tri_checkpoint_state state;
  const tri_checkpoint_tensor *weights, *optimizer;
  int64_t num_weights, num_optimizer; /* without optimizer tensors there is no such file                          */
  const tri_checkpoint_slice *slices; /* of this rank, beyond the tensors that come with data                     */
  int64_t num_slices;
  int64_t shard_bytes;        /* the most that a file of tensors holds, if not one tensor; 0: no limit    */
  const char *model_config;   /* the text of config.json; NULL: there is none                             */
  const char *stem;           /* of the weights' files; NULL: "model"                                     */
  const char *adapter_config; /* the text of adapter_config.json, or NULL; with it weights have PEFT's names in files */
  const char *tokenizer;      /* path of a tokenizer.json to copy, or NULL                                */
  const char *extra_files;    /* folder whose companions (extra_files.h) are copied too, or NULL */
  const struct tri_extra_texts *extra_texts; /* those that it has not; or NULL */
  void *buffers; /* TRI_CHECKPOINT_BUFFER_BYTES that the save may use, or NULL: it allocates them */
  int64_t keep;  /* newest checkpoints kept, this one included; 0 keeps all                  */
  bool best;     /* marked as the best so far: it stays until a better one is there          */
} tri_checkpoint_request;

/* COLLECTIVE over the group. Saves, then removes what `keep` leaves over. Tensors go from the caller's memory to their
 * places in the files through the buffers; ranks write side by side. When it fails on any rank it fails on all,
 * nothing of it stays and the older checkpoints are as they were. `path` (may be NULL) gets the folder, on the first
 * rank. A checkpoint of the same step is replaced. Trouble with removing old ones is a warning, not a failure. The
 * request need be equal on all ranks but for its slices; state, config and tokenizer are the first rank's. */
tri_status tri_checkpoint_save(const tri_checkpoint_request *request, char path[TRI_PATH_BYTES]);

/* The same step by step, for a save in the background: begin; write, by any thread; when all ranks have written, join;
 * publish, by any thread, which does something on the first rank only. Then `end`, in any case, with whether all went
 * well: what is not good goes. What the request points to must stay until then. */
typedef struct tri_checkpoint_saving tri_checkpoint_saving;
tri_status tri_checkpoint_save_begin(const tri_checkpoint_request *request,
                                     tri_checkpoint_saving **out);   /* COLLECTIVE */
tri_status tri_checkpoint_save_write(tri_checkpoint_saving *saving); /* LOCAL */
/* LOCAL, between begin and write: saves a slice that the request has not. */
tri_status tri_checkpoint_save_slice(tri_checkpoint_saving *saving, const tri_checkpoint_slice *slice);
tri_status tri_checkpoint_save_join(tri_checkpoint_saving *saving, tri_status written); /* COLLECTIVE */
tri_status tri_checkpoint_save_publish(tri_checkpoint_saving *saving);                  /* LOCAL */
void tri_checkpoint_save_end(tri_checkpoint_saving *saving, bool good);                 /* LOCAL */

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE over the group (NULL: this rank alone). The newest checkpoint below root that is complete and verified
 * (every size, every checksum; the ranks share the reading); a line is logged for each newer one that was passed over,
 * with the reason. path is "" if there is none at all; if there are some but none is good, that is TRI_BAD_FILE, since
 * only the user should decide to start over. All ranks get the same. */
tri_status tri_checkpoint_newest(const tri_group *group, const char *root, char path[TRI_PATH_BYTES]);

/* COLLECTIVE over the group. The same, where the caller says whether a candidate will do: `take` is COLLECTIVE, and
 * sets *damaged where its failure is the checkpoint's fault, so that an older one is to be tried. */
typedef tri_status (*tri_checkpoint_try)(void *context, const char *path, bool *damaged);
tri_status tri_checkpoint_newest_that(const tri_group *group, const char *root, tri_checkpoint_try take, void *context,
                                      char path[TRI_PATH_BYTES]);

/* LOCAL, only for the one writer below root. Removes what saves and removals that did not come to their end have left
 * there, of whatever process: one that is gone cannot be told by its number from another's, or from one of another
 * host.
 */
tri_status tri_checkpoint_clear(const char *root);

/* ---- what later steps say of it
 * --------------------------------------------------------------------------------------
 *
 * Weights can be finite and ruined: a huge learning rate does that in one step. So a checkpoint counts as proven once a
 * step that was computed from it, or an evaluation of it, was finite; removal of old checkpoints keeps the newest
 * proven one. One from which every step was bad is disproved: it is passed over where the newest is looked for. */

/* LOCAL. Says so of the checkpoint of that step below root; then removes what `keep` leaves over. */
tri_status tri_checkpoint_prove(const char *root, int64_t step, int64_t keep);
tri_status tri_checkpoint_disprove(const char *root, int64_t step);

/* LOCAL, only for the one writer below root. ROOT/best leads to the newest checkpoint that was marked as the best when
 * it was saved, which is the best of all; if there is none, there is no link. Saves and removals see to it. */
tri_status tri_checkpoint_link_best(const char *root);

/* LOCAL. Whether there is a complete checkpoint of that step below root. */
bool tri_checkpoint_is_there(const char *root, int64_t step);

/* LOCAL. The newest complete checkpoint below root that is proven, by its marks alone; path is "" if there is none. */
tri_status tri_checkpoint_newest_proven(const char *root, char path[TRI_PATH_BYTES]);

/* LOCAL. All complete checkpoints below root that are not disproved, by rising steps. Release *out with tri_free. */
typedef struct tri_checkpoint_found {
  int64_t step;
  char path[TRI_PATH_BYTES];
} tri_checkpoint_found;
tri_status tri_checkpoint_list(const char *root, tri_checkpoint_found **out, int64_t *count);

/* LOCAL. The highest step that a checkpoint below root claims by its name, whatever it is worth unless it is disproved;
 * -1 if there is none. */
int64_t tri_checkpoint_highest_step(const char *root);

/* COLLECTIVE over the group (NULL: this rank alone). Reads everything and compares sizes and checksums; TRI_BAD_FILE
 * names a file or tensor that differs. A folder without state.json (a plain Hugging Face one) is TRI_BAD_FILE. */
tri_status tri_checkpoint_verify(const tri_group *group, const char *path);

/* LOCAL. The same by one process. */
tri_status tri_checkpoint_verify_alone(const char *path);

/* COLLECTIVE over the group. The same without reading the tensors: all sizes, all headers, every other file. */
tri_status tri_checkpoint_verify_frame(const tri_group *group, const char *path);

/* What a command wants of a checkpoint. {0} is the weights, verified. */
typedef struct tri_checkpoint_use {
  bool settings_only; /* config.json: no tensor is read                                                            */
  bool optimizer;     /* the optimizer's files too; else they may be damaged or missing                            */
  bool average; /* reading by a weight's name gives its average over the run, of those that have one; such are asked for
                 */
  bool unverified; /* nothing is compared with checksums, which a line says: for what can be saved of a damaged one */
} tri_checkpoint_use;

/* LOCAL. For a tokenizer.json that somebody names by its path: if its folder is a checkpoint, it is compared with its
 * checksum there. */
tri_status tri_checkpoint_verify_file(const char *path);

/* LOCAL. The folder that `given` means: itself if it is a checkpoint or holds a config.json, else the newest good
 * checkpoint of the run's output, or of the folder of checkpoints, that it is. Good is what `use` wants of it. */
tri_status tri_checkpoint_find(const char *given, const tri_checkpoint_use *use, char path[TRI_PATH_BYTES]);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tri_checkpoint tri_checkpoint;

/* LOCAL. Opens a checkpoint, or a Hugging Face folder: model.safetensors, or the shards that
 * model.safetensors.index.json names (and the same of `optimizer`), or where these are missing
 * adapter_model.safetensors in its place. Checks that COMPLETE and state.json, where there is one, belong together and
 * list every file, and every header; it compares no checksum of other files (tri_checkpoint_verify and its kin do). A
 * folder that has one of COMPLETE and state.json alone is not a Hugging Face folder but a damaged checkpoint. Release
 * with tri_checkpoint_close. */
tri_status tri_checkpoint_open(const char *path, tri_checkpoint **out);

/* LOCAL. The same for one process that reads alone: sizes, headers and every file that holds no tensors are compared
 * with their checksums, and tri_checkpoint_read does that to the tensors. */
tri_status tri_checkpoint_open_verified(const char *path, const tri_checkpoint_use *use, tri_checkpoint **out);
void tri_checkpoint_close(tri_checkpoint *checkpoint);

const char *tri_checkpoint_path(const tri_checkpoint *checkpoint);
/* Whether its weights are those of an adapter. */
bool tri_checkpoint_is_adapter(const tri_checkpoint *checkpoint);
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

/* The number of the tensor that reading by a name finds, or -1. */
int64_t tri_checkpoint_index_of(const tri_checkpoint *checkpoint, const char *name);

/* Whether there is such a tensor. */
bool tri_checkpoint_has(const tri_checkpoint *checkpoint, const char *name);
/* Whether there are two, each by itself. */
bool tri_checkpoint_has_both(const tri_checkpoint *checkpoint, const char *name, const char *other);

/* From here on the one of two tied tensors that is not there is read as the other; of one pair. */
void tri_checkpoint_read_as(tri_checkpoint *checkpoint, const char *absent, const char *present);

/* LOCAL. Reads a whole tensor into dst, which lies in `memory` (NULL: the host's), as `type` (see tri_safetensors_read
 * for the conversions). A missing one, another shape or, where there are checksums, another one is TRI_BAD_FILE. A name
 * that begins with the base model's prefix
 * ("transformer.", "model.") is found without it too, as in files that transformers saved from a base model, and each
 * with PEFT's prefix. */
tri_status tri_checkpoint_read(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                               const int64_t *shape, const tri_checkpoint_memory *memory, void *dst);

/* LOCAL. The element of the slice's data, of type fp32, fp64 or bf16, that is the first to be NaN or infinite; -1 if
 * all are finite. */
tri_status tri_checkpoint_slice_not_finite(const tri_checkpoint_slice *slice, tri_dtype type, int64_t *out);

/* LOCAL. The same of a part: only its bytes are read, into slice->data. slice->tensor means nothing here. */
tri_status tri_checkpoint_read_slice(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                     const int64_t *shape, const tri_checkpoint_slice *slice);

/* LOCAL. The same for a tensor that is read part after part: adds to *sum what the part has of the checksum. When all
 * elements were read once, tri_checkpoint_compare says whether it is the tensor's. */
tri_status tri_checkpoint_read_part(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                    const int64_t *shape, const tri_checkpoint_slice *slice, uint64_t *sum);
tri_status tri_checkpoint_compare(const tri_checkpoint *checkpoint, const char *name, uint64_t sum);

/* LOCAL. A slice of a parameter as it was read, of type fp32, fp64 or bf16: an element that is NaN or infinite is
 * TRI_BAD_FILE with the tensor's name and its place, for nothing can be computed with it. */
tri_status tri_checkpoint_check_finite(const tri_checkpoint *checkpoint, const tri_parameter *parameter, tri_dtype type,
                                       const tri_checkpoint_slice *slice);

/* COLLECTIVE over the group. Compares what was read with the checkpoint's checksums, and so does the rest of
 * tri_checkpoint_verify without reading anything a second time: the slices of all ranks are each tensor's elements
 * once, as a save of them would have it (tri_checkpoint_request), in the types of the file. TRI_BAD_FILE names a tensor
 * that differs. */
tri_status tri_checkpoint_verify_slices(const tri_group *group, const tri_checkpoint *checkpoint,
                                        const tri_checkpoint_tensor *weights, int64_t num_weights,
                                        const tri_checkpoint_tensor *optimizer, int64_t num_optimizer,
                                        const tri_checkpoint_slice *slices, int64_t num_slices);

#endif
