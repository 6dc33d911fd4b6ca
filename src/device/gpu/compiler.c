#include "device/gpu/compiler.h"

const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture) {
  static const tri_gpu_compiler *const all[] = {&tri_gpu_nvrtc, &tri_gpu_hiprtc};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i]->takes(architecture)) return all[i];
  }
  return NULL;
}
