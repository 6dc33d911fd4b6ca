/* `~/` at the head of a path is the user's home, which a shell puts there only where a word begins: not in a file, nor
 * behind the `=` of an option. */
#ifndef TRI_BASE_HOME_H
#define TRI_BASE_HOME_H

#include "base/file.h"

/* `path` with HOME in the place of a leading `~`, also behind a tokenizer's `gpt2:`. A path without one is copied as it
 * is; so is what else a path's place may hold, a preset's name. Returns NULL, or why not, as the rest of a sentence:
 * "`~/x` lies in the home folder, and HOME is not set; ...". Names of other users are not looked up. */
enum { TRI_HOME_FAULT_BYTES = 512 };
const char *tri_home_path(const char *path, char out[TRI_PATH_BYTES], char fault[TRI_HOME_FAULT_BYTES]);

/* Whether there is anything for tri_home_path to do. */
bool tri_home_begins(const char *path);

#endif
