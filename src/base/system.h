/* Facts about the machine that the program runs on. */
#ifndef TRI_BASE_SYSTEM_H
#define TRI_BASE_SYSTEM_H

#include "base/status.h"

#include <stddef.h>

/* Bytes that this process could still allocate: the least of what the system says is available, what its control group
 * has left and its own limit (ulimit -v). 0 if the system does not say. */
size_t tri_system_memory_available(void);
/* The same for all processes of this machine or control group together: without the process's own limit. */
size_t tri_system_memory_of_node(void);

/* The most bytes of memory that this process has held at once (resident), or 0. */
size_t tri_system_peak_resident_bytes(void);

/* A name that nothing else has: 32 hexadecimal digits of the system's randomness, and a NUL. */
enum { TRI_UNIQUE_BYTES = 33 };
tri_status tri_system_unique(char out[TRI_UNIQUE_BYTES]);

#endif
