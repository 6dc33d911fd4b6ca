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

/* LOCAL. Creates a new event file in a directory. TensorBoard reads all event files of a directory in the order of
 * their names; this one comes last, and revokes the events of first_step and later in earlier ones. Release with
 * tri_event_file_close. */
tri_status tri_event_file_create(const char *directory, int64_t first_step, tri_event_file **out);

/* LOCAL. Writes the scalars of one step and flushes them to the system, so that a running TensorBoard shows them. */
tri_status tri_event_file_scalars(tri_event_file *file, int64_t step, const tri_scalar *scalars, int count);

/* LOCAL. NULL is ignored; the file is released whatever the status. */
tri_status tri_event_file_close(tri_event_file *file);

#endif
