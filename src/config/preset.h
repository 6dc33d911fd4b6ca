/* Presets: configuration files that come with the program and are referred to by name (configs/models/gpt2-124m.yaml is
 * `gpt2-124m` in the folder "models"), and chat templates (configs/templates/chatml.jinja is `chatml`).
 *
 * The places are, in this order: $TRIREME_CONFIGS; share/trireme/configs next to the folder of the program and of the
 * library, or next to the folder above it, which also finds an installation that was moved; ../configs and
 * ../../configs relative to the program (a build folder inside the source); and the folder that was set at build time.
 * The first place that has the file is used, so that a site can override presets with its own. */
#ifndef TRI_CONFIG_PRESET_H
#define TRI_CONFIG_PRESET_H

#include "files/file.h"

#include <stdbool.h>
#include <stddef.h>

/* Finds the file of a preset. If no preset has exactly this name, looks for the name in lower case and without an
 * ending .yaml or .yml. Returns false if no preset has that name either. */
bool tri_preset_find(const char *folder, const char *name, char path[TRI_PATH_BYTES]);

/* Lists the names of all presets of a folder, sorted, each once. Returns their number, at most TRI_PRESET_MOST. */
enum { TRI_PRESET_MOST = 128, TRI_PRESET_NAME_BYTES = 64 };
size_t tri_preset_list(const char *folder, char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES]);

/* Returns whether the text is a path and not the name of a preset of the folder: it has a slash, or ends in .yaml or
 * .yml, unless only a preset has that name (tri_preset_find) and no file. */
bool tri_preset_is_path(const char *folder, const char *text);

/* Makes suggestions for an unknown name. Sets `all` to the names of all presets of the folder ("gpt2-124m, gpt2-1.5b,
 * ..."; "" if there are no presets), and `nearest` to the name that was probably meant; to "" if no name is near. */
enum { TRI_PRESET_ALL_BYTES = 1000 };
void tri_preset_suggest(const char *folder, const char *name, char all[TRI_PRESET_ALL_BYTES],
                        char nearest[TRI_PRESET_NAME_BYTES]);

#endif
