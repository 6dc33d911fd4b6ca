/* Which MPI this process runs with. It may differ from the one that it was built with (tri_comm_library). */
#ifndef TRI_COMM_LIBRARY_H
#define TRI_COMM_LIBRARY_H

#include <stddef.h>

/* LOCAL, also before a job is joined. The first line of the library's version text. Writes it to buffer, and returns
 * that. */
char *tri_comm_library_loaded(char *buffer, size_t buffer_bytes);

#endif
