/* Names of files that are being written and get their own name at the end, by rename.
 *
 * The file of `table.csv` is `table.csv.trireme-HOST-PID-START-PLACE.tmp` until then. HOST and PID are for people: the
 * process that writes it. START is when that process started, and PLACE identifies the boot and the name space in which
 * PID counts; by these three the next process that writes the same file finds out whether the writer has ended. */
#ifndef TRI_BASE_TEMPORARY_NAME_H
#define TRI_BASE_TEMPORARY_NAME_H

#include "base/file.h"

/* LOCAL. Removes what processes of this host that have ended left of earlier attempts to write `path`, and returns the
 * name under which this process writes it. No other file is removed. TRI_BAD_USAGE if the path is too long. */
tri_status tri_temporary_name(const char *path, char out[TRI_PATH_BYTES]);

/* LOCAL. Only removes these. */
void tri_temporary_clear(const char *path);

#endif
