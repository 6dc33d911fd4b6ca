/* Prints the versions of the libraries that a build with MPI and kernels uses. */
#include "cli/version.h"
#include "comm/comm.h"
#include "comm/library.h"
#include "device/libraries.h"
#include "files/file.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Prints the path of the library that provides a BLAS function, which LAPACK calls. If several libraries are installed,
 * the system chooses one of them when a program starts. */
static void print_file_of(const char *function, const char *name, FILE *to) {
  Dl_info facts;
  void *address = dlsym(RTLD_DEFAULT, function);
  char *path = NULL;
  if (address != NULL && dladdr(address, &facts) != 0) path = realpath(facts.dli_fname, NULL);
  fprintf(to, "%-10s %s\n", name, path == NULL ? "unknown" : path);
  free(path);
}

void tri_version_print_libraries(FILE *to) {
  char text[TRI_PATH_BYTES];
  const char *kind;
  fprintf(to, "MPI        %s; built with %s\n", tri_comm_library_loaded(text, sizeof text), tri_comm_library());
  fprintf(to, "oneDNN     %s, threads by %s\n", tri_device_onednn_version(text, sizeof text),
          tri_device_onednn_threads());
  print_file_of("dgemm_", "BLAS", to);
  print_file_of("dpotrf_", "LAPACK", to);
  fprintf(to, "devices   ");
  for (int i = 0; (kind = tri_device_kind_name(i)) != NULL; i++) fprintf(to, " %s", kind);
  fprintf(to, "\n");
}
