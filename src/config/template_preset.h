/* Chat templates that come with the program: configs/templates/NAME.jinja is `NAME` (config/preset.h). A file begins
 * with a comment of two lines: the models that have the template, and `markers: ` with the strings that must be single
 * tokens, separated by spaces. The second line is missing if there are no such strings. */
#ifndef TRI_CONFIG_TEMPLATE_PRESET_H
#define TRI_CONFIG_TEMPLATE_PRESET_H

#include "base/status.h"
#include "files/file.h"

#include <stdbool.h>
#include <stdio.h>

/* Finds the file of --chat-template. `given` is the name of a preset unless it has a slash or ends in .jinja; otherwise
 * it is a path. Sets *is_preset. Fails with TRI_BAD_FILE if `given` is neither a preset nor a file. */
tri_status tri_template_preset_find(const char *given, char path[TRI_PATH_BYTES], bool *is_preset);

/* Copies the markers of a template's source, separated by spaces; "" if there are none. */
enum { TRI_MARKERS_BYTES = 256 };
void tri_template_markers(const char *source, size_t bytes, char out[TRI_MARKERS_BYTES]);

/* Prints the names of the presets, each with its models, on a line each. */
tri_status tri_template_presets_print(FILE *to);

#endif
