/* Where ranks that cannot reach their parent's socket (base/parent.h) leave their error messages: a folder beside the
 * output, since that is where other hosts look too. */
#ifndef TRI_LAUNCH_ERROR_FILES_H
#define TRI_LAUNCH_ERROR_FILES_H

#include "base/file.h"

#include <stdbool.h>

/* What a rank left: its error message, or ("echo") that of a rank that ended because another did. */
typedef void (*tri_error_file_handler)(void *context, bool echo, int exit_status, const char *text);

/* LOCAL. Makes a folder of a new name, in the nearest one to the output that there is and that lets us, or in
 * $TMPDIR (/tmp); and removes those of this user there whose parents were killed: they have not touched them for a day,
 * by the clock of the file system. NULL: no output. "" if none can be made; that is not a failure, since words go
 * through the launcher, too. */
void tri_error_files_make(const char *output, char out[TRI_PATH_BYTES]);

/* LOCAL. Its parent is alive: now and then, much more often than once a day. */
void tri_error_files_touch(const char *folder);

/* LOCAL. Takes what ranks have left, and removes the folder. */
void tri_error_files_collect(const char *folder, tri_error_file_handler take, void *context);

#endif
