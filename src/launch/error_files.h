/* Error files: files in a folder next to the run's output folder, which is visible on other hosts, too. Ranks that
 * cannot reach the supervisor's socket (base/parent.h) leave their error messages there. */
#ifndef TRI_LAUNCH_ERROR_FILES_H
#define TRI_LAUNCH_ERROR_FILES_H

#include "files/file.h"

#include <stdbool.h>

/* Called with the error message of a rank; `secondary`: whether the rank failed because another rank had ended. */
typedef void (*tri_error_file_handler)(void *context, bool secondary, int exit_status, const char *text);

/* LOCAL. Creates a folder with a new name in the nearest folder above `output` that exists and is writable; in $TMPDIR
 * (default: /tmp) if there is no such folder, or if `output` is NULL. Also removes this user's folders there whose
 * supervisors were killed: folders that have not been touched for a day, by the clock of the file system. `out` is ""
 * if no folder can be created; that is not a failure, since messages also go through the launcher. */
void tri_error_files_make(const char *output, char out[TRI_PATH_BYTES]);

/* LOCAL. Marks the folder as in use; the supervisor calls it much more often than once a day. */
void tri_error_files_touch(const char *folder);

/* LOCAL. Calls `take` for the messages in the folder, and removes it. */
void tri_error_files_collect(const char *folder, tri_error_file_handler take, void *context);

#endif
