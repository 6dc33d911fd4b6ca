/* A system's file of any content: refused with words, or read. */
#include "fuzz_file.h"
#include "plan/system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static tri_status read_system(const char *path) {
  static tri_system system;
  return tri_system_load(path, &system);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_with_file(data, bytes, read_system);
  return 0;
}
