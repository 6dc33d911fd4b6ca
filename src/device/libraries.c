#include "device/libraries.h"

#include <dnnl.h>
#include <stdio.h>

char *tri_device_onednn_version(char *buffer, size_t buffer_bytes) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(buffer, buffer_bytes, "%d.%d.%d", version->major, version->minor, version->patch);
  return buffer;
}

const char *tri_device_onednn_threads(void) {
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
  return "OpenMP";
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB
  return "oneTBB";
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_THREADPOOL
  return "a thread pool";
#else
  return "no threads";
#endif
}
