/* Checkpoints and Hugging Face folders: their tensors read, and folders of tensors written. */
#ifndef TRIREME_CHECKPOINT_H
#define TRIREME_CHECKPOINT_H

#include "trireme/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct trireme_checkpoint trireme_checkpoint;

/* `path` is a checkpoint, a run's output, whose newest good checkpoint it is, or a Hugging Face folder. Headers and
 * small files are compared with the checkpoint's checksums here, and tensors when they are read. */
TRIREME_API trireme_status trireme_checkpoint_open(const char *path, trireme_checkpoint **out);
TRIREME_API void trireme_checkpoint_close(trireme_checkpoint *checkpoint);

/* The folder that was opened, and the steps that it was trained for; -1: it does not say. */
TRIREME_API const char *trireme_checkpoint_path(const trireme_checkpoint *checkpoint);
TRIREME_API int64_t trireme_checkpoint_step(const trireme_checkpoint *checkpoint);

TRIREME_API int64_t trireme_checkpoint_num_tensors(const trireme_checkpoint *checkpoint);
/* Of tensor `index`, from 0: its name, its type as safetensors writes it ("F32"), how many dimensions it has and their
 * lengths. NULL and -1: no such tensor. */
TRIREME_API const char *trireme_checkpoint_name(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API const char *trireme_checkpoint_type(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API int trireme_checkpoint_num_dims(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API int64_t trireme_checkpoint_length(const trireme_checkpoint *checkpoint, int64_t index, int dimension);
/* The number of the tensor of a name, or -1. */
TRIREME_API int64_t trireme_checkpoint_find(const trireme_checkpoint *checkpoint, const char *name);

/* All elements, row by row, as TRIREME_FP32 or TRIREME_FP64, or as the file has them. `bytes` is the room at `to`;
 * another number than the tensor takes is TRIREME_BAD_USAGE. */
TRIREME_API trireme_status trireme_checkpoint_read(const trireme_checkpoint *checkpoint, int64_t index,
                                                   trireme_type type, void *to, size_t bytes);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A new Hugging Face folder: model.safetensors and config.json. */
typedef struct trireme_checkpoint_writer trireme_checkpoint_writer;

/* `folder` must not exist; nothing is written before the commit. `config` is the text of config.json. */
TRIREME_API trireme_status trireme_checkpoint_writer_create(const char *folder, const char *config,
                                                            trireme_checkpoint_writer **out);
TRIREME_API void trireme_checkpoint_writer_destroy(trireme_checkpoint_writer *writer);

/* The data, row by row, are not copied: they must stay until the commit. */
TRIREME_API trireme_status trireme_checkpoint_writer_add(trireme_checkpoint_writer *writer, const char *name,
                                                         trireme_type type, int num_dims, const int64_t *lengths,
                                                         const void *data);

/* Writes the folder under another name, flushes it to the disk and gives it its name: it is there whole or not at all.
 */
TRIREME_API trireme_status trireme_checkpoint_writer_commit(trireme_checkpoint_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
