/* Presets: configuration files that come with the program and are called by name (configs/models/gpt2-124m.yaml is
 * `gpt2-124m` in the folder "models").
 *
 * They are looked for in $TRIREME_CONFIGS, in ../configs and ../../configs as seen from the program's own file (a
 * build folder inside the source), in the source folder it was built from, and in ../share/trireme/configs (an
 * installation). The first that has the file wins, so that a site can put presets of its own in front. */
#ifndef TRI_BASE_PRESET_H
#define TRI_BASE_PRESET_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>

/* Finds the file of a preset; false if there is none of that name. */
bool tri_preset_find(const char *folder, const char *name, char path[TRI_PATH_BYTES]);

/* The names of all presets of a folder, sorted, each once. Returns their number, at most TRI_PRESET_MOST. */
enum { TRI_PRESET_MOST = 128, TRI_PRESET_NAME_BYTES = 64 };
size_t tri_preset_list(const char *folder, char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES]);

#endif
