/* Finding a trained model and loading its weights, for commands that use one. */
#ifndef TRI_TRAIN_WEIGHTS_H
#define TRI_TRAIN_WEIGHTS_H

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "train/executor.h"

/* The folder that `given` means: itself if it holds a config.json, else the newest good checkpoint of the run or of the
 * checkpoints' folder that it is. */
tri_status tri_weights_find(const char *given, char path[TRI_PATH_BYTES]);

/* Reads every parameter into the values of an executor that holds the whole model. */
tri_status tri_weights_load(const tri_checkpoint *checkpoint, const tri_parameter_table *table, tri_executor *executor);

/* FOLDER/tokenizer.json, or `given` if that is not NULL. */
tri_status tri_weights_tokenizer(const char *folder, const char *given, char path[TRI_PATH_BYTES]);

#endif
