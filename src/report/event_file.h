/* TensorBoard event files. */
#ifndef TRI_REPORT_EVENT_FILE_H
#define TRI_REPORT_EVENT_FILE_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_event_file tri_event_file;

typedef struct tri_scalar {
  const char *tag;
  double value;
} tri_scalar;

/* LOCAL. Creates a new event file in a directory. Fails with TRI_IO_FAILED if this is not possible. TensorBoard reads
 * all event files of a directory in the order of their names. The new file is the last, and revokes events of step
 * first_step and later in earlier files. Release with tri_event_file_close. */
tri_status tri_event_file_create(const char *directory, int64_t first_step, tri_event_file **out);

/* LOCAL. Writes the scalars of one step and flushes them to the system, so that a running TensorBoard shows them. Fails
 * with TRI_IO_FAILED if the file cannot be written. */
tri_status tri_event_file_scalars(tri_event_file *file, int64_t step, const tri_scalar *scalars, int count);

/* LOCAL. Closes the file and releases it, even if the status is a failure. NULL is ignored. */
tri_status tri_event_file_close(tri_event_file *file);

#endif
