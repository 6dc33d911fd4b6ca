/* Replaces `~/` at the begin of a path by the user's home. A shell only does that at the begin of a word, so neither in
 * a file nor after the `=` of an option. */
#ifndef TRI_FILES_HOME_H
#define TRI_FILES_HOME_H

#include "files/file.h"

/* Copies `path` with a leading `~` replaced by HOME, also after a tokenizer's `gpt2:`. Anything else (a path without
 * `~`, the name of a preset) is copied unchanged. Returns NULL, or after a failure `fault` with the reason as the rest
 * of a sentence: "... in the home folder, and HOME is not set; ...". `~USER` fails in this way. */
enum { TRI_HOME_FAULT_BYTES = 512 };
const char *tri_home_path(const char *path, char out[TRI_PATH_BYTES], char fault[TRI_HOME_FAULT_BYTES]);

/* Returns whether tri_home_path would change `path`, or fail. */
bool tri_home_begins(const char *path);

#endif
