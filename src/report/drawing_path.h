/* Names of a drawing and of its data, which are written as a pair: FILE.svg and FILE.json. The user names either of
 * them, or FILE. */
#ifndef TRI_REPORT_DRAWING_PATH_H
#define TRI_REPORT_DRAWING_PATH_H

#include "base/status.h"

#include <stdbool.h>

/* Returns the length of the name without ".json" or ".svg". */
int tri_drawing_stem(const char *path);

/* Returns whether the two names give the same pair of files, also if the names have different paths to the same
 * folder. */
bool tri_drawing_same(const char *a, const char *b);

/* Checks that the path is not empty (otherwise fails with TRI_BAD_USAGE) and that files can be written to its folder
 * (otherwise fails with TRI_IO_FAILED); `option` ("--timeline") begins the error message. */
tri_status tri_drawing_check(const char *option, const char *path);

/* Writes the path with another ending (".svg") to `out`, TRI_PATH_BYTES bytes. Fails with TRI_BAD_USAGE if it is too
 * long. */
tri_status tri_drawing_name(const char *option, const char *path, const char *ending, char *out);

#endif
