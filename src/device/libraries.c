#include "device/libraries.h"

#include <dnnl.h>
#include <stdio.h>

char *tri_device_onednn_version(char *buffer, size_t buffer_bytes) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(buffer, buffer_bytes, "%d.%d.%d", version->major, version->minor, version->patch);
  return buffer;
}
