/* The MPI library that this process has loaded. It may differ from the one of the build (tri_comm_library). */
#ifndef TRI_COMM_LIBRARY_H
#define TRI_COMM_LIBRARY_H

#include <stddef.h>

/* LOCAL, also before a job is joined. Writes the first line of the library's version text to buffer, "" if MPI does not
 * report it, and returns buffer. */
char *tri_comm_library_loaded(char *buffer, size_t buffer_bytes);

#endif
