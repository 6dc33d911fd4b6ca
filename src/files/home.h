/* Replaces `~/` at the beginning of a path by the user's home. A shell does that only at the beginning of a word, so
 * not in a file and not after the `=` of an option. */
#ifndef TRI_FILES_HOME_H
#define TRI_FILES_HOME_H

#include "files/file.h"

/* Copies `path` with the `~` of a leading `~/` replaced by HOME, also after a tokenizer's `gpt2:`. Anything else (a
 * path without `~`, the name of a preset) is copied unchanged. Returns NULL on success; after a failure returns `fault`
 * with the reason: "`~/x` is in the home folder, but HOME is not set; ...". `~USER/` is such a failure. */
enum { TRI_HOME_FAULT_BYTES = 512 };
const char *tri_home_path(const char *path, char out[TRI_PATH_BYTES], char fault[TRI_HOME_FAULT_BYTES]);

/* Returns whether `path` begins with `~/` or `~USER/`: tri_home_path would change it, or fail. */
bool tri_home_begins(const char *path);

#endif
