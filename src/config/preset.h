/* Presets: configuration files that come with the program and are called by name (configs/models/gpt2-124m.yaml is
 * `gpt2-124m` in the folder "models").
 *
 * They are looked for in $TRIREME_CONFIGS; in share/trireme/configs beside the folder, or beside the one above it, of
 * the program's own file and of the library's, which is where an installation has them wherever it is moved to; in
 * ../configs and ../../configs as seen from the program (a build folder inside the source); and in the folder that the
 * build was given. The first that has the file wins, so that a site can put presets of its own in front. */
#ifndef TRI_CONFIG_PRESET_H
#define TRI_CONFIG_PRESET_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>

/* Finds the file of a preset; false if there is none of that name. */
bool tri_preset_find(const char *folder, const char *name, char path[TRI_PATH_BYTES]);

/* The names of all presets of a folder, sorted, each once. Returns their number, at most TRI_PRESET_MOST. */
enum { TRI_PRESET_MOST = 128, TRI_PRESET_NAME_BYTES = 64 };
size_t tri_preset_list(const char *folder, char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES]);

/* Whether what stands for a preset is a file's path instead: it has a slash, or ends in .yaml or .yml. */
bool tri_preset_is_path(const char *text);

/* For a message about an unknown name: "gpt2-124m, gpt2-1.5b, ..." in `all` ("" if there are none at all), and in
 * `nearest` the one that was probably meant, or "". */
enum { TRI_PRESET_ALL_BYTES = 1000 };
void tri_preset_suggest(const char *folder, const char *name, char all[TRI_PRESET_ALL_BYTES],
                        char nearest[TRI_PRESET_NAME_BYTES]);

#endif
