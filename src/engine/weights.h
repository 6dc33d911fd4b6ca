/* Finding a trained model and loading its weights, for commands that use one. */
#ifndef TRI_ENGINE_WEIGHTS_H
#define TRI_ENGINE_WEIGHTS_H

#include "base/file.h"
#include "checkpoint/merged.h"
#include "engine/executor.h"

/* LOCAL. Reads every parameter into the values of an executor that holds the whole model; of an adapter's base with the
 * factors' products added, which is done in fp64. A value that is not a finite number is TRI_BAD_FILE with the tensor's
 * name: all that came of it would be none either. */
tri_status tri_weights_load(const tri_merged *weights, const tri_parameter_table *table, tri_executor *executor);

/* LOCAL. The path of the tokenizer.json of the checkpoint, or of an adapter's base, or `given` if that is not NULL; "":
 * no such file. With verify one of another checkpoint is compared with its checksum there; the checkpoint's own
 * was as it was opened. */
tri_status tri_weights_tokenizer(const tri_merged *weights, const char *given, bool verify, char path[TRI_PATH_BYTES]);

/* The folder whose tokenizer.json that is where none is given. */
const char *tri_weights_tokenizer_folder(const tri_merged *weights);

#endif
