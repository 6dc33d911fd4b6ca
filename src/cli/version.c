#include "cli/version.h"

#include "cli/build.h"

void tri_version_print(FILE *to) {
  fprintf(to, "trireme %s\n", TRIREME_VERSION);
  fprintf(to, "commit     %s\n", tri_build_commit());
  fprintf(to, "built      %s by %s\n", tri_build_date(), tri_build_compiler());
  tri_version_print_libraries(to);
}
