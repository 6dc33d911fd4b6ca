/* Chat templates that come with the program: configs/templates/NAME.jinja is `NAME` (config/preset.h). A file begins
 * with a comment of two lines: the models that have the template, and `markers: ` with the strings that must be single
 * tokens, separated by spaces. The second line is missing if there are no such strings. */
#ifndef TRI_CONFIG_TEMPLATE_PRESET_H
#define TRI_CONFIG_TEMPLATE_PRESET_H

#include "base/status.h"
#include "files/file.h"

#include <stdbool.h>
#include <stdio.h>

/* Finds the file of --chat-template. `given` is a path if it has a slash or ends in .jinja; otherwise it is the name of
 * a preset, or else of a file. Sets *is_preset. Fails with TRI_BAD_FILE if `given` is a name of neither, and with
 * TRI_BAD_USAGE if it is too long. Does not check that a path with a slash or with .jinja exists. */
tri_status tri_template_preset_find(const char *given, char path[TRI_PATH_BYTES], bool *is_preset);

/* Sets `out` to the markers of the template source[bytes], separated by spaces; to "" if it has none. */
enum { TRI_MARKERS_BYTES = 256 };
void tri_template_markers(const char *source, size_t bytes, char out[TRI_MARKERS_BYTES]);

/* Prints the names of the presets, each with its models, on a line each. */
tri_status tri_template_presets_print(FILE *to);

#endif
