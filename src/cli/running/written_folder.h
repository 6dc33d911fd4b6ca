/* `--json` of commands that write a folder with a model or an adapter. */
#ifndef TRI_CLI_RUNNING_WRITTEN_FOLDER_H
#define TRI_CLI_RUNNING_WRITTEN_FOLDER_H

#include "base/status.h"

#include <stdint.h>

/* Prints a JSON document about the folder `to`: the models or the adapter `from`[count] that it was made of, its kind
 * ("model", "adapter" or "checkpoint"), the type of its weights, and the names and sizes of its files. */
tri_status tri_print_written_folder(const char *to, const char *const *from, int64_t count, const char *kind,
                                    const char *type);

#endif
