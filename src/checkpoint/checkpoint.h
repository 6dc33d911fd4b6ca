/* Checkpoints: folders that transformers loads unchanged and from which a run resumes.
 *
 *   ROOT/step-00000100/
 *     config.json             the model in Hugging Face's format
 *     model.safetensors       weights under Hugging Face's names, in their global shapes; if they are larger than
 *                             checkpoint.shard_bytes, model-0000i-of-0000N.safetensors and model.safetensors.index.json
 *     adapter_model.safetensors, adapter_config.json
 *                             in the place of model.safetensors, if an adapter is trained: PEFT's files, with its names
 *                             (peft.h)
 *     optimizer.safetensors   optimizer states of each weight, under its name and a suffix; split in the same way
 *     tokenizer.json          if the run has one
 *     state.json              progress; sizes and checksums of all of the above and of the extra files (extra_files.h)
 *     COMPLETE                written last; size and checksum of state.json
 *     PROVEN, DISPROVED       empty marks, at most one of them: the result of later steps (below)
 *     BEST                    empty mark, written with the checkpoint: no evaluation was better before
 *
 * A save writes into ROOT/.tmp-step-00000100-PID, flushes every file and the folder, and renames it, so that a folder
 * with the final name is complete however the process ends. Removal is the reverse: rename to
 * ROOT/.old-step-00000100-PID, remove COMPLETE, then the rest. Folders of dead processes are removed by the next run or
 * save. One job at a time saves into a root; its ranks write their parts at the same time (save.c). */
#ifndef TRI_CHECKPOINT_CHECKPOINT_H
#define TRI_CHECKPOINT_CHECKPOINT_H

#include "base/status.h"
#include "checkpoint/safetensors.h"
#include "device/dtype.h"
#include "files/file.h"
#include "model/parameters.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tri_group tri_group; /* comm/comm.h; functions that read on one rank do not need a group */

/* Suffixes of the names in optimizer.safetensors: Adam's moments as PyTorch calls them, and the fp32 (fp64) master copy
 * where model.safetensors is narrower. "wte.weight" has "wte.weight.exp_avg" and "wte.weight.exp_avg_sq". */
#define TRI_CHECKPOINT_MOMENT1 ".exp_avg"
#define TRI_CHECKPOINT_MOMENT2 ".exp_avg_sq"
#define TRI_CHECKPOINT_MASTER ".master"

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* One tensor, in its global shape. */
typedef struct tri_checkpoint_tensor {
  const char *name;
  tri_dtype type;
  bool bytes; /* whether the elements are bytes, whatever `type` is */
  int num_dims;
  int64_t shape[TRI_SAFETENSORS_DIMS];
  const void *data; /* the elements in host memory, dense and row-major, if this rank saves the whole tensor; NULL:
                       slices save it */
} tri_checkpoint_tensor;

/* Device memory, which the host accesses by copies only. Each function waits for its copy. */
typedef struct tri_checkpoint_memory {
  void *context;
  tri_status (*read)(void *context, void *to_host, const void *from, size_t bytes);
  tri_status (*write)(void *context, void *to, const void *from_host, size_t bytes);
  /* Receives the codes of a whole matrix that is in 4 bits in the file, laid out as in device/nf4.h, instead of its
   * values; NULL: values are written. */
  tri_status (*write_codes)(void *context, const void *from_host, size_t bytes);
} tri_checkpoint_memory;

/* A slice of a tensor on one rank: elements [first, first + count) of the rank's local part of a parameter (of the
 * whole tensor if `part` is NULL). In a save, the slices of all ranks together must have each element once. */
typedef struct tri_checkpoint_slice {
  int64_t tensor;            /* index of the tensor: weights are counted first, then the optimizer's tensors */
  const tri_parameter *part; /* parameter with the local part; NULL: the whole tensor */
  bool own_tensor; /* whether `part` is saved as a tensor of its own, not as rows of a larger one (tri_parameter.within)
                    */
  int64_t first, count;
  void *data;                          /* [count]: the elements, dense, of the tensor's type */
  const tri_checkpoint_memory *memory; /* memory of `data`; NULL: host memory */
} tri_checkpoint_slice;

/* Progress of a run. */
typedef struct tri_checkpoint_state {
  int64_t step, samples, tokens; /* numbers of finished steps, and of the samples and tokens seen in them */
  uint64_t seed;
  const char *run_config; /* text of the resolved run file; NULL: no run file */
  json_t *progress;       /* JSON object with other values of the caller, which is not changed; NULL: no other values */
} tri_checkpoint_state;

/* Size of tri_checkpoint_request.buffers, in bytes. */
enum { TRI_CHECKPOINT_BUFFER_BYTES = (8 << 20) + 4096 };

typedef struct tri_checkpoint_request {
  const tri_group *group; /* the ranks that save together; NULL: only this one */
  const char *root;
  const char *folder; /* path of the new folder, which must not exist; root, step and keep are then ignored; NULL: a
                         folder below root */
  bool plain;         /* whether to save a Hugging Face folder, without state.json and COMPLETE */
  tri_checkpoint_state state;
  const tri_checkpoint_tensor *weights, *optimizer;
  int64_t num_weights, num_optimizer; /* num_optimizer 0: no optimizer.safetensors */
  const tri_checkpoint_slice *slices; /* [num_slices]: this rank's slices of the tensors without data */
  int64_t num_slices;
  int64_t shard_bytes;        /* largest size of a file with several tensors, in bytes; 0: no limit */
  const char *model_config;   /* the text of config.json; NULL: no such file */
  const char *stem;           /* beginning of the names of the weights' files; NULL: "model" */
  const char *adapter_config; /* text of adapter_config.json: weights get PEFT's names in files; NULL: not an adapter */
  const char *tokenizer;      /* path of a tokenizer.json to copy; NULL: none */
  const char *extra_files;    /* folder whose extra files (extra_files.h) are copied; NULL: none */
  const struct tri_extra_texts *extra_texts; /* texts of files that `extra_files` does not have; NULL: none */
  void *buffers; /* scratch of TRI_CHECKPOINT_BUFFER_BYTES bytes; NULL: the save allocates it */
  int64_t keep;  /* number of newest checkpoints that are kept, this one included; 0: all */
  bool best;     /* whether to mark this checkpoint as the best so far: it is kept until a better one is saved */
} tri_checkpoint_request;

/* COLLECTIVE over the group. Saves, then removes the checkpoints that are older than the newest `keep`
 * (tri_folder_keep). Tensors are copied from the caller's memory to the files through the buffers; all ranks write at
 * the same time. If one rank fails, all fail: nothing of the checkpoint remains, and older ones are not changed. `path`
 * (may be NULL) is set to the folder on the first rank, to
 * "" on others. A checkpoint of the same step is replaced. If old ones cannot be removed, that is a warning, not a
 * failure. Fails with TRI_DIVERGED if an element is NaN or infinite. The request must be equal on all ranks except for
 * the slices and the data of tensors; state, texts and copied files are only read on the first rank. */
tri_status tri_checkpoint_save(const tri_checkpoint_request *request, char path[TRI_PATH_BYTES]);

/* The following functions do the work of tri_checkpoint_save step by step, for a save in the background. The caller
 * calls tri_checkpoint_save_begin; tri_checkpoint_save_write, in any thread; tri_checkpoint_save_join when all ranks
 * have written (`written`: the status of this rank's write); tri_checkpoint_save_publish, in any thread, which does
 * nothing except on the first rank; and in any case, even after a failure, tri_checkpoint_save_end, which removes the
 * files unless `good` (all steps succeeded). The data of the request must exist until then. */
typedef struct tri_checkpoint_saving tri_checkpoint_saving;
tri_status tri_checkpoint_save_begin(const tri_checkpoint_request *request,
                                     tri_checkpoint_saving **out); /* COLLECTIVE */
/* LOCAL, before publish. Returns the temporary folder, which `saving` owns. After begin it has every file without
 * tensors, and the headers of the others, but not yet state.json. */
const char *tri_checkpoint_save_folder(const tri_checkpoint_saving *saving);
tri_status tri_checkpoint_save_write(tri_checkpoint_saving *saving); /* LOCAL */
/* LOCAL, between begin and write: saves a slice that is not in the request. Fails with TRI_DIVERGED if an element is
 * NaN or infinite. */
tri_status tri_checkpoint_save_slice(tri_checkpoint_saving *saving, const tri_checkpoint_slice *slice);
tri_status tri_checkpoint_save_join(tri_checkpoint_saving *saving, tri_status written); /* COLLECTIVE */
tri_status tri_checkpoint_save_publish(tri_checkpoint_saving *saving);                  /* LOCAL */
void tri_checkpoint_save_end(tri_checkpoint_saving *saving, bool good);                 /* LOCAL */

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* COLLECTIVE over the group (NULL: only this rank). Finds the newest checkpoint below root that is complete and
 * verified (every size and checksum; each rank reads a share). A checkpoint that is marked as disproved is not good.
 * Logs a line with the reason for each newer checkpoint that is not good. Sets path to "" if there is no checkpoint.
 * Fails with TRI_BAD_FILE if there are checkpoints but none is good, since only the user should decide to start over.
 * All ranks get the same result. */
tri_status tri_checkpoint_newest(const tri_group *group, const char *root, char path[TRI_PATH_BYTES]);

/* COLLECTIVE over the group, which must not be NULL. As tri_checkpoint_newest, but finds the newest checkpoint for
 * which `take`, which is COLLECTIVE, succeeds, instead of verifying it. If `take` fails and sets *damaged, the
 * checkpoint is at fault and the next older one is tried; other failures are returned. */
typedef tri_status (*tri_checkpoint_try)(void *context, const char *path, bool *damaged);
tri_status tri_checkpoint_newest_that(const tri_group *group, const char *root, tri_checkpoint_try take, void *context,
                                      char path[TRI_PATH_BYTES]);

/* LOCAL, only for the one writer below root. Removes the folders of all unfinished saves and removals, except an old
 * folder that is the only copy of its step, and repairs ROOT/best. It does not test whether their processes still run,
 * because a process number may have been reused, or belong to another host. */
tri_status tri_checkpoint_clear(const char *root);

/* ---- proven and disproved checkpoints ---------------------------------------------------------------------------- */

/* Weights can be finite and ruined: a huge learning rate does that in one step. So a checkpoint counts as proven once a
 * step that was computed from it, or an evaluation of it, was finite; removal of old checkpoints keeps the newest
 * proven one. A checkpoint from which every step was bad is disproved: searches for the newest checkpoint ignore it. */

/* LOCAL. tri_checkpoint_prove marks the checkpoint of that step below root as proven, and then removes the checkpoints
 * that are older than the newest `keep` (tri_folder_keep); tri_checkpoint_disprove marks it as disproved. */
tri_status tri_checkpoint_prove(const char *root, int64_t step, int64_t keep);
tri_status tri_checkpoint_disprove(const char *root, int64_t step);

/* LOCAL, only for the one writer below root. Makes ROOT/best a link to the newest checkpoint that was marked as the
 * best when it was saved, which is the best of all; removes the link if no checkpoint is marked. A file of that name
 * that is not a link is left alone. If the link cannot be changed, that is a warning, not a failure. Saves and removals
 * call this function. */
tri_status tri_checkpoint_link_best(const char *root);

/* LOCAL. Returns whether there is a complete checkpoint of that step below root. */
bool tri_checkpoint_is_there(const char *root, int64_t step);

/* LOCAL. Finds the newest complete checkpoint below root that is marked as proven; its files are not verified. Sets
 * path to "" if there is none. */
tri_status tri_checkpoint_newest_proven(const char *root, char path[TRI_PATH_BYTES]);

/* LOCAL. Lists all complete checkpoints below root that are not disproved, in the order of their steps. Release *out
 * with tri_free. */
typedef struct tri_checkpoint_found {
  int64_t step;
  char path[TRI_PATH_BYTES];
} tri_checkpoint_found;
tri_status tri_checkpoint_list(const char *root, tri_checkpoint_found **out, int64_t *count);

/* LOCAL. Returns the highest step in the names of checkpoints below root that are not disproved, whether they are
 * complete and good or not; -1 if there are none, or if root cannot be read. */
int64_t tri_checkpoint_highest_step(const char *root);

/* COLLECTIVE over the group (NULL: this rank alone). Reads everything and compares sizes and checksums. Fails with
 * TRI_BAD_FILE, with the name of a file or tensor that differs, or if there is no state.json (a plain Hugging Face
 * folder). */
tri_status tri_checkpoint_verify(const tri_group *group, const char *path);

/* LOCAL. As tri_checkpoint_verify, by one process. */
tri_status tri_checkpoint_verify_alone(const char *path);

/* COLLECTIVE over the group. As tri_checkpoint_verify, without reading the tensors: compares all sizes, all headers and
 * every file without tensors. */
tri_status tri_checkpoint_verify_frame(const tri_group *group, const char *path);

/* The parts of a checkpoint that a command needs. {0}: the weights, verified. */
typedef struct tri_checkpoint_use {
  bool settings_only; /* whether only config.json is needed: no tensor is read */
  bool optimizer;     /* whether the optimizer's files are needed as well; if not, they may be damaged or missing */
  bool average;    /* whether each weight that has an average over the run is replaced by it; the checkpoint must have
                      averages */
  bool unverified; /* whether checksums are not compared, which is logged: for reading a damaged checkpoint */
} tri_checkpoint_use;

/* LOCAL. Compares the tokenizer.json at `path` with its checksum, if its folder is a checkpoint; fails with
 * TRI_BAD_FILE if they differ. Does nothing for a file of another name. */
tri_status tri_checkpoint_verify_file(const char *path);

/* LOCAL. Finds the folder that `given`, a path or a name on the hub (files/hub.h), means: the folder itself if it is a
 * checkpoint or has a config.json or adapter_config.json, without reading it further; for a run's output or a folder of
 * checkpoints, the newest checkpoint that is good for `use`. Fails with TRI_BAD_FILE if `given` is none of these. */
tri_status tri_checkpoint_find(const char *given, const tri_checkpoint_use *use, char path[TRI_PATH_BYTES]);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tri_checkpoint tri_checkpoint;

/* LOCAL. Opens a checkpoint or a Hugging Face folder: model.safetensors, or the shards that
 * model.safetensors.index.json names, or if these are missing adapter_model.safetensors; and optimizer.safetensors, or
 * the shards of its index. Checks every header, and that COMPLETE and state.json, if the folder has them, match and
 * list every file. Checksums are compared for state.json and the indexes only (see tri_checkpoint_verify). A folder
 * that has only one of COMPLETE and state.json is a damaged checkpoint, not a Hugging Face folder. Fails with
 * TRI_BAD_FILE if a file is missing or damaged, and with TRI_UNSUPPORTED for another version of the format. Release
 * with tri_checkpoint_close. */
tri_status tri_checkpoint_open(const char *path, tri_checkpoint **out);

/* LOCAL. As tri_checkpoint_open, for one process that reads alone: opens the optimizer's files only if `use` needs
 * them, and, unless use->unverified, compares sizes, headers and every file without tensors with their checksums;
 * tri_checkpoint_read compares the tensors. */
tri_status tri_checkpoint_open_verified(const char *path, const tri_checkpoint_use *use, tri_checkpoint **out);
void tri_checkpoint_close(tri_checkpoint *checkpoint);

const char *tri_checkpoint_path(const tri_checkpoint *checkpoint);
/* Returns whether the checkpoint has the weights of an adapter. */
bool tri_checkpoint_is_adapter(const tri_checkpoint *checkpoint);
/* Returns the state, which the checkpoint owns; NULL for a plain Hugging Face folder. */
const tri_checkpoint_state *tri_checkpoint_get_state(const tri_checkpoint *checkpoint);

/* Returns the number of tensors. They are numbered file after file, within a file in the order of their bytes. */
int64_t tri_checkpoint_num_tensors(const tri_checkpoint *checkpoint);
typedef struct tri_checkpoint_entry {
  const tri_safetensors_tensor *tensor;
  const char *file;  /* path of the tensor's file */
  bool has_checksum; /* whether state.json has the tensor's checksum: false in a plain Hugging Face folder */
  uint64_t checksum;
} tri_checkpoint_entry;
tri_checkpoint_entry tri_checkpoint_get_entry(const tri_checkpoint *checkpoint, int64_t index);

/* Returns the number of the tensor that this name reads (of the weight, if averages are read); -1 if there is no such
 * tensor. */
int64_t tri_checkpoint_index_of(const tri_checkpoint *checkpoint, const char *name);

/* Returns whether this name reads a tensor. */
bool tri_checkpoint_has(const tri_checkpoint *checkpoint, const char *name);

/* LOCAL. Fails with TRI_BAD_FILE, with both shapes, if the tensor is missing or has another shape; does not read it. */
tri_status tri_checkpoint_check_shape(const tri_checkpoint *checkpoint, const char *name, int num_dims,
                                      const int64_t *shape);
/* Returns whether both names of a tied pair read tensors, and these are different tensors. */
bool tri_checkpoint_has_both(const tri_checkpoint *checkpoint, const char *name, const char *other);

/* Returns the matrix in 4 bits (four_bits.h) that this name reads; NULL if there is no such tensor, or it is not in 4
 * bits. */
const struct tri_four_bits *tri_checkpoint_four_bits(const tri_checkpoint *checkpoint, const char *name);

/* Makes later reads of `absent` read `present`, for a tied pair with one tensor in the file. One pair at most. */
void tri_checkpoint_read_as(tri_checkpoint *checkpoint, const char *absent, const char *present);

/* LOCAL. Reads a whole tensor as `type` (see tri_safetensors_read for the conversions) into dst, which is in `memory`
 * (NULL: host memory). Fails with TRI_BAD_FILE if the tensor is missing, or has another shape or a wrong checksum. A
 * name with the base model's prefix ("transformer.", "model.", "gpt_neox.") also finds the tensor without the prefix,
 * as in files that transformers saved from a base model; in an adapter every name also finds the tensor with PEFT's
 * prefix. */
tri_status tri_checkpoint_read(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                               const int64_t *shape, const tri_checkpoint_memory *memory, void *dst);

/* LOCAL. Sets *out to the index in slice->data of the first element that is NaN or infinite; -1 if all are finite.
 * `type` is the type of the data: fp32, fp64 or bf16. */
tri_status tri_checkpoint_slice_not_finite(const tri_checkpoint_slice *slice, tri_dtype type, int64_t *out);

/* LOCAL. As tri_checkpoint_read, but reads only the elements of a slice, into slice->data, and does not compare the
 * checksum. slice->tensor is ignored. */
tri_status tri_checkpoint_read_slice(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                     const int64_t *shape, const tri_checkpoint_slice *slice);

/* LOCAL. As tri_checkpoint_read_slice, and adds the slice's part of the tensor's checksum (element_sum.h) to *sum, if
 * checksums are compared. When all elements of the tensor have been read once, tri_checkpoint_compare checks the sum,
 * and fails with TRI_BAD_FILE if it is wrong. */
tri_status tri_checkpoint_read_part(const tri_checkpoint *checkpoint, const char *name, tri_dtype type, int num_dims,
                                    const int64_t *shape, const tri_checkpoint_slice *slice, uint64_t *sum);
tri_status tri_checkpoint_compare(const tri_checkpoint *checkpoint, const char *name, uint64_t sum);

/* LOCAL. Checks a slice of a parameter that has been read as `type` (fp32, fp64 or bf16): fails with TRI_BAD_FILE, with
 * the tensor's name and the index of the element, if an element is NaN or infinite. */
tri_status tri_checkpoint_check_finite(const tri_checkpoint *checkpoint, const tri_parameter *parameter, tri_dtype type,
                                       const tri_checkpoint_slice *slice);

/* COLLECTIVE over the group. Compares tensors in memory with the checkpoint's checksums: after
 * tri_checkpoint_verify_frame and reading, this completes tri_checkpoint_verify without reading the tensors a second
 * time. The slices of all ranks must have each element once, as for a save (tri_checkpoint_request), in the types of
 * the file. Fails with TRI_BAD_FILE, with the name of a tensor that differs. */
tri_status tri_checkpoint_verify_slices(const tri_group *group, const tri_checkpoint *checkpoint,
                                        const tri_checkpoint_tensor *weights, int64_t num_weights,
                                        const tri_checkpoint_tensor *optimizer, int64_t num_optimizer,
                                        const tri_checkpoint_slice *slices, int64_t num_slices);

#endif
