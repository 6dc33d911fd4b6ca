/* For functions that read a file by its path: the input becomes a file that exists only in memory. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include "base/memory.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef tri_status fuzz_read(const char *path);

/* Calls `read` with the path of the file. If it refuses the file, there must be a message; in any case, all memory must
 * have been freed. */
static void fuzz_with_file(const uint8_t *data, size_t bytes, fuzz_read *read) {
  char path[64];
  const int file = memfd_create("fuzzed", MFD_CLOEXEC);
  if (file < 0 || write(file, data, bytes) != (ssize_t)bytes) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const size_t held = tri_memory_bytes();
  const tri_status status = read(path);
  if (status != TRI_OK && tri_status_message()[0] == '\0') abort();
  if (status == TRI_INTERNAL || tri_memory_bytes() != held) abort();
  close(file);
}

#endif
