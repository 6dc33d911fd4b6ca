/* The kinds of devices of this program, and the library for GEMMs on CPUs. */
#ifndef TRI_DEVICE_LIBRARIES_H
#define TRI_DEVICE_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the version of the loaded oneDNN, "2.6.3", which may differ from the one it was compiled with. Returns
 * buffer. */
char *tri_device_onednn_version(char *buffer, size_t buffer_bytes);
/* Returns the threads that the oneDNN of the build uses: "OpenMP", "oneTBB", "a thread pool" or "no threads". */
const char *tri_device_onednn_threads(void);

/* Returns the name of kind `index` of this program, from 0; NULL after the last. */
const char *tri_device_kind_name(int index);
/* Returns whether this program has the devices for tests: true in trireme-test and test programs. */
bool tri_device_has_kinds_for_tests(void);

#endif
