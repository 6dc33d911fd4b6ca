/* Modules. A module has the kernels of one file, compiled for one type. It is looked up in the cache or compiled when
 * the first of its kernels is launched, and stays loaded. */
#include "device/gpu/internal.h"

#include "base/memory.h"
#include "device/gpu/image.h"

struct tri_gpu_modules {
  tri_gpu *gpu;
  pthread_mutex_t lock;
  tri_gpu_module *modules[TRI_GPU_NUM_MODULES][TRI_GPU_NUM_TYPES];
  tri_gpu_function *functions[TRI_GPU_NUM_KERNELS][TRI_GPU_NUM_TYPES];
};

static int type_index(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 0;
    case TRI_FP32: return 1;
    case TRI_BF16: return 2;
    case TRI_INT32: break;
  }
  return -1;
}

const char *tri_gpu_kernel_name(tri_gpu_kernel kernel) {
#define NAME(name, threads) #name,
  static const char *const all[] = {TRI_GPU_KERNELS(NAME)};
#undef NAME
  return all[kernel];
}

const char *tri_gpu_module_text(tri_gpu_module_name module) {
#define NAME(name) #name,
  static const char *const all[] = {TRI_GPU_MODULES(NAME)};
#undef NAME
  return all[module];
}

/* Returns the module of a kernel; kernels are numbered in the order of their modules. */
static tri_gpu_module_name module_of(tri_gpu_kernel kernel) {
#define COUNT(name) 0 TRI_GPU_KERNELS_##name(TRI_GPU_ONE_),
  static const int counts[] = {TRI_GPU_MODULES(COUNT)};
#undef COUNT
  int module = 0, behind = counts[0];
  while (kernel >= behind) behind += counts[++module];
  return module;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_modules_create(tri_gpu *gpu, tri_gpu_modules **out) {
  tri_gpu_modules *all = NULL;
  TRI_TRY(tri_alloc("modules of kernels", 1, sizeof *all, &all));
  all->gpu = gpu;
  pthread_mutex_init(&all->lock, NULL);
  *out = all;
  return TRI_OK;
}

void tri_gpu_modules_destroy(tri_gpu_modules *all) {
  if (all == NULL) return;
  for (int m = 0; m < TRI_GPU_NUM_MODULES; m++) {
    for (int t = 0; t < TRI_GPU_NUM_TYPES; t++) {
      if (all->modules[m][t] != NULL) all->gpu->runtime->module_unload(all->modules[m][t]);
    }
  }
  pthread_mutex_destroy(&all->lock);
  tri_free(all);
}

static tri_status find(tri_gpu_modules *all, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_function **out) {
  const tri_gpu_module_name name = module_of(kernel);
  const int t = type_index(type);
  if (t < 0) return tri_fail_internal("kernel `%s` is not for %s", tri_gpu_kernel_name(kernel), tri_dtype_name(type));
  if (all->functions[kernel][t] == NULL) {
    if (all->modules[name][t] == NULL) {
      TRI_TRY(tri_gpu_image_load(all->gpu, tri_gpu_module_text(name), type, &all->modules[name][t]));
    }
    TRI_TRY(all->gpu->runtime->module_function(all->modules[name][t], tri_gpu_kernel_name(kernel),
                                               &all->functions[kernel][t]));
  }
  *out = all->functions[kernel][t];
  return TRI_OK;
}

tri_status tri_gpu_function_of(tri_gpu_modules *all, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_function **out) {
  pthread_mutex_lock(&all->lock);
  tri_status status = find(all, kernel, type, out);
  pthread_mutex_unlock(&all->lock);
  return status;
}
