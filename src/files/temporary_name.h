/* Temporary names of files, which are renamed to their final name when they are complete.
 *
 * Until then `table.csv` is called `table.csv.trireme-HOST-PID-START-PLACE.tmp`. HOST and PID show users the writing
 * process. START is the start of that process, and PLACE identifies the boot and the name space of PID; from PID, START
 * and PLACE the next process that writes the same file finds out whether the writer has ended. */
#ifndef TRI_FILES_TEMPORARY_NAME_H
#define TRI_FILES_TEMPORARY_NAME_H

#include "files/file.h"

/* LOCAL. Removes temporary files of `path` whose writers, on this host, have ended, and writes the temporary name for
 * this process to `out`. A writer that cannot be looked up counts as ended 24 hours after its last write. A file
 * NAME.tmp.PID of an earlier version is removed if this host has no process PID. No other file is removed. Fails with
 * TRI_BAD_USAGE if the path is too long. */
tri_status tri_temporary_name(const char *path, char out[TRI_PATH_BYTES]);

/* LOCAL. Removes the temporary files that tri_temporary_name would remove, without returning a name. */
void tri_temporary_clear(const char *path);

#endif
