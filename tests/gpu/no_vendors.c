/* For LD_PRELOAD: a machine without any library of a GPU's vendor. The requested libraries are written to the file that
 * TRI_NO_VENDORS_LOG names, one on each line, and are not found; the error message is the loader's own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const vendors[] = {"libcuda",        "libcudart",    "libnvrtc",   "libnvidia",
                                      "libcublas",      "libcudnn",     "libnccl",    "libamdhip",
                                      "libhiprtc",      "libhipblas",   "librocblas", "librccl",
                                      "libhsa-runtime", "libnvJitLink", "libMIOpen",  "libamd_comgr"};

static int is_vendors(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
  for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++)
    if (strncmp(name, vendors[i], strlen(vendors[i])) == 0) return 1;
  return 0;
}

static void log_path(const char *path) {
  const char *log = getenv("TRI_NO_VENDORS_LOG");
  FILE *file = log == NULL ? NULL : fopen(log, "a");
  if (file == NULL) return;
  fprintf(file, "%s\n", path);
  fclose(file);
}

__attribute__((visibility("default"))) void *dlopen(const char *path, int flags) {
  void *(*real)(const char *, int) = NULL;
  char nowhere[4096];
  *(void **)(void *)&real = dlsym(RTLD_NEXT, "dlopen");
  if (path == NULL || !is_vendors(path)) return real(path, flags);
  log_path(path);
  const char *slash = strrchr(path, '/');
  snprintf(nowhere, sizeof nowhere, "/proc/none/%s", slash == NULL ? path : slash + 1);
  return real(nowhere, flags);
}
