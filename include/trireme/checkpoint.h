/* Checkpoints and Hugging Face folders: reads their tensors, and writes folders of tensors. */
#ifndef TRIREME_CHECKPOINT_H
#define TRIREME_CHECKPOINT_H

#include "trireme/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct trireme_checkpoint trireme_checkpoint;

/* Opens a checkpoint. `path` is a checkpoint, a run's output (its newest good checkpoint is opened) or a Hugging Face
 * folder. The checksums of headers and small files are verified here, those of tensors when they are read. */
TRIREME_API trireme_status trireme_checkpoint_open(const char *path, trireme_checkpoint **out);
TRIREME_API void trireme_checkpoint_close(trireme_checkpoint *checkpoint);

/* Return the folder that was opened, and the number of steps that it was trained for; -1: not recorded. */
TRIREME_API const char *trireme_checkpoint_path(const trireme_checkpoint *checkpoint);
TRIREME_API int64_t trireme_checkpoint_step(const trireme_checkpoint *checkpoint);

TRIREME_API int64_t trireme_checkpoint_num_tensors(const trireme_checkpoint *checkpoint);
/* Return facts about tensor `index`, from 0: its name, its type as safetensors writes it ("F32"), the number of its
 * dimensions and their lengths. NULL or -1: no such tensor. */
TRIREME_API const char *trireme_checkpoint_name(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API const char *trireme_checkpoint_type(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API int trireme_checkpoint_num_dims(const trireme_checkpoint *checkpoint, int64_t index);
TRIREME_API int64_t trireme_checkpoint_length(const trireme_checkpoint *checkpoint, int64_t index, int dimension);
/* Returns the index of the tensor with a name; -1: none. */
TRIREME_API int64_t trireme_checkpoint_find(const trireme_checkpoint *checkpoint, const char *name);

/* Reads all elements, row by row, as TRIREME_FP32 or TRIREME_FP64, or in the type of the file. `bytes` is the size of
 * the buffer `to`; TRIREME_BAD_USAGE if it differs from the size of the tensor. */
TRIREME_API trireme_status trireme_checkpoint_read(const trireme_checkpoint *checkpoint, int64_t index,
                                                   trireme_type type, void *to, size_t bytes);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writer of a new Hugging Face folder: model.safetensors and config.json. */
typedef struct trireme_checkpoint_writer trireme_checkpoint_writer;

/* Creates a writer. `folder` must not exist; nothing is written before the commit. `config`: text of config.json. */
TRIREME_API trireme_status trireme_checkpoint_writer_create(const char *folder, const char *config,
                                                            trireme_checkpoint_writer **out);
TRIREME_API void trireme_checkpoint_writer_destroy(trireme_checkpoint_writer *writer);

/* Adds a tensor. Its data, row by row, are not copied and must stay valid until the commit. */
TRIREME_API trireme_status trireme_checkpoint_writer_add(trireme_checkpoint_writer *writer, const char *name,
                                                         trireme_type type, int num_dims, const int64_t *lengths,
                                                         const void *data);

/* Writes the folder under another name, flushes it to the disk and renames it, so that it never exists incomplete. */
TRIREME_API trireme_status trireme_checkpoint_writer_commit(trireme_checkpoint_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
