/* For readers that want a path: the input as a file that is in memory alone. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include "base/memory.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef tri_status fuzz_read(const char *path);

/* What is refused is so with words, and nothing of it stays. */
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
