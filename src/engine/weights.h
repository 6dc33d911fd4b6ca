/* Finding a trained model and loading its weights, for commands that use one. */
#ifndef TRI_ENGINE_WEIGHTS_H
#define TRI_ENGINE_WEIGHTS_H

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "engine/executor.h"
#include "model/model.h"

/* LOCAL. Opens the weights that `given` means (tri_checkpoint_find) and reads the settings of their model. With verify
 * all that is read is compared with the checkpoint's checksums, where it has any; without, a line says that it is not.
 * Release *out with tri_checkpoint_close. */
tri_status tri_weights_open(const char *given, bool verify, tri_model *model, tri_checkpoint **out);

/* LOCAL. Reads every parameter into the values of an executor that holds the whole model. A value that is no finite
 * number is TRI_BAD_FILE with the tensor's name: all that came of it would be none either. */
tri_status tri_weights_load(const tri_checkpoint *checkpoint, const tri_parameter_table *table, tri_executor *executor);

/* LOCAL. The path of the checkpoint's tokenizer.json, or `given` if that is not NULL; "" where there is none. With
 * verify one of another checkpoint is compared with its checksum there; the checkpoint's own was as it was opened. */
tri_status tri_weights_tokenizer(const tri_checkpoint *checkpoint, const char *given, bool verify,
                                 char path[TRI_PATH_BYTES]);

#endif
