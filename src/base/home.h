/* Replaces `~/` at the beginning of a path with the user's home. A shell does that only at the beginning of a word, so
 * neither in a file nor behind the `=` of an option. */
#ifndef TRI_BASE_HOME_H
#define TRI_BASE_HOME_H

#include "base/file.h"

/* Copies `path` with a leading `~` replaced by HOME, also behind a tokenizer's `gpt2:`. Anything else (a path without
 * `~`, the name of a preset) is copied as it is. Returns NULL, or `fault`, where it has written the reason as the rest
 * of a sentence: "`~/x` lies in the home folder, and HOME is not set; ...". `~USER` is such a failure. */
enum { TRI_HOME_FAULT_BYTES = 512 };
const char *tri_home_path(const char *path, char out[TRI_PATH_BYTES], char fault[TRI_HOME_FAULT_BYTES]);

/* Whether tri_home_path would change `path`, or fail. */
bool tri_home_begins(const char *path);

#endif
