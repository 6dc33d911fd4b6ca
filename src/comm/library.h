/* Which MPI this process runs with, which may be another than it was built with (tri_comm_library). */
#ifndef TRI_COMM_LIBRARY_H
#define TRI_COMM_LIBRARY_H

#include <stddef.h>

/* LOCAL, also before a job is joined. What the library says of itself, its first line. Writes into buffer and returns
 * it.
 */
char *tri_comm_library_loaded(char *buffer, size_t buffer_bytes);

#endif
