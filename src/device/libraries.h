/* Whose matrix products the devices use. */
#ifndef TRI_DEVICE_LIBRARIES_H
#define TRI_DEVICE_LIBRARIES_H

#include <stddef.h>

/* "2.6.3": of oneDNN as loaded now, not as compiled against. Writes into buffer and returns it. */
char *tri_device_onednn_version(char *buffer, size_t buffer_bytes);

#endif
