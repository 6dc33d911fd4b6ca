/* Reading parts of a checkpoint's files. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_INPUT_H
#define TRI_CHECKPOINT_INPUT_H

#include "base/status.h"
#include "files/file.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_input {
  int file;   /* descriptor; -1: closed */
  int direct; /* descriptor of the same file that bypasses the page cache (O_DIRECT); -1: none */
  char path[TRI_PATH_BYTES];
} tri_input;

/* LOCAL. Opens a file; fails with TRI_BAD_FILE if it is missing. */
tri_status tri_input_open(const char *path, tri_input *out);
void tri_input_close(tri_input *input);

/* LOCAL. Reads exactly [offset, offset + bytes) or fails with TRI_BAD_FILE; large ranges with all threads. */
tri_status tri_input_read(const tri_input *input, uint64_t offset, uint64_t bytes, void *out);

/* LOCAL. Computes the checksum (tri_checksum) of bytes [offset, offset + bytes), read through a small buffer. */
tri_status tri_input_checksum(const tri_input *input, uint64_t offset, uint64_t bytes, uint64_t *out);

#endif
