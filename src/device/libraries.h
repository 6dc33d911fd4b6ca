/* Which devices there are, and whose matrix products they use. */
#ifndef TRI_DEVICE_LIBRARIES_H
#define TRI_DEVICE_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* "2.6.3": of oneDNN as loaded now, not as compiled against. Writes into buffer and returns it. */
char *tri_device_onednn_version(char *buffer, size_t buffer_bytes);
/* How that one makes threads: "OpenMP", "oneTBB", "no threads". */
const char *tri_device_onednn_threads(void);

/* The kinds of devices that are in this program, by their names, from 0; NULL behind the last. */
const char *tri_device_kind_name(int index);
/* Whether devices for tests are among them: this is trireme-test, or a test program. */
bool tri_device_has_kinds_for_tests(void);

#endif
