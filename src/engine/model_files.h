/* Finds a trained model and loads its weights, for commands that use one. */
#ifndef TRI_ENGINE_MODEL_FILES_H
#define TRI_ENGINE_MODEL_FILES_H

#include "checkpoint/merged.h"
#include "comm/comm.h"
#include "engine/executor.h"
#include "files/file.h"

/* The parameters to load: all of the table, or only the frozen ones, those of an adapter's base. */
typedef enum tri_model_files_part { TRI_MODEL_FILES_WHOLE, TRI_MODEL_FILES_BASE } tri_model_files_part;

/* COLLECTIVE over `slices`, the ranks that together hold the whole model. Reads this rank's part of every parameter of
 * the table into the executor's weights. If the folder is an adapter and the table has factors, the factors are loaded
 * as they are; if the table has no factors, their products are added to the base in fp64. Fails with TRI_BAD_FILE and
 * the tensor's name if a value is not finite. Fails on all ranks if it fails on one. */
tri_status tri_model_files_load(const tri_merged *weights, tri_model_files_part part, const tri_parameter_table *table,
                                const tri_group *slices, tri_executor *executor);
/* COLLECTIVE over the group. Fails on all ranks if two ranks read different settings from their folders. Must be called
 * before the ranks divide the model. */
tri_status tri_model_files_agree_settings(const tri_group *group, const tri_merged *weights);
/* COLLECTIVE over the group, after all of its ranks have loaded a model, and before the weights are packed. Fails on
 * all ranks if two ranks read different settings from their folders, or hold the same part of a parameter with
 * different values. */
tri_status tri_model_files_agree(const tri_group *group, const tri_merged *weights, const tri_executor *executor);

/* LOCAL. Computes a hash of the settings and the values of this rank, after they are loaded and before they are
 * packed. */
tri_status tri_model_files_hash(const tri_merged *weights, const tri_executor *executor, uint64_t *out);

/* LOCAL. Sets `path` to the path of a tokenizer.json: `given` if it is not NULL, else the file of the checkpoint or of
 * an adapter's base, or "" if neither has one. With `verify`, compares a given file with its checksum, if its folder is
 * a checkpoint. A checkpoint's own file has been verified when the checkpoint was opened. */
tri_status tri_model_files_tokenizer(const tri_merged *weights, const char *given, bool verify,
                                     char path[TRI_PATH_BYTES]);

/* Returns the folder whose tokenizer.json is used if none is given. */
const char *tri_model_files_tokenizer_folder(const tri_merged *weights);

#endif
