/* Facts about the machine that the program runs on. */
#ifndef TRI_BASE_SYSTEM_H
#define TRI_BASE_SYSTEM_H

#include "base/status.h"

#include <stddef.h>

/* Returns the bytes that this process could still allocate: the smallest of the system's available memory, the rest of
 * its control group's limit, and its own limit (ulimit -v). 0 if unknown. */
size_t tri_system_memory_available(void);
/* Returns the bytes that all processes of this machine or control group together could still allocate: as
 * tri_system_memory_available, without the process's own limit. */
size_t tri_system_memory_of_node(void);

/* Returns the peak resident memory of this process, in bytes; 0 if unknown. */
size_t tri_system_peak_resident_bytes(void);

/* Writes the path of this program's file, cut to out_bytes - 1 bytes. Fails with TRI_IO_FAILED if the path is
 * unknown. */
tri_status tri_system_own_path(char *out, size_t out_bytes);

/* Writes a unique name: 32 random hexadecimal digits and a NUL. Fails with TRI_IO_FAILED if the system has no random
 * bytes. */
enum { TRI_UNIQUE_BYTES = 33 };
tri_status tri_system_unique(char out[TRI_UNIQUE_BYTES]);

#endif
