/* Writing one file of a checkpoint: computes a checksum of the bytes while they are written, and flushes the file
 * before it is closed. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_OUTPUT_H
#define TRI_CHECKPOINT_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_output {
  int file;         /* descriptor */
  int direct;       /* descriptor of the same file that bypasses the page cache (O_DIRECT); -1: none */
  const char *path; /* owned by the caller, valid until the file is closed */
  uint64_t bytes;   /* final size of the whole file, for the message if the disk is full */
} tri_output;

/* LOCAL. Creates a file that must not exist. `bytes`: tri_output.bytes. */
tri_status tri_output_create(const char *path, uint64_t bytes, tri_output *out);

/* LOCAL. Writes bytes at an offset in the file, and asks the system to begin sending them to the disk. *checksum is set
 * to the checksum of these bytes, unless it is NULL. */
tri_status tri_output_write(const tri_output *output, uint64_t offset, const void *data, uint64_t bytes,
                            uint64_t *checksum);

/* LOCAL. Opens a file that another rank has created. `bytes`: tri_output.bytes. */
tri_status tri_output_open(const char *path, uint64_t bytes, tri_output *out);

/* LOCAL. Writes bytes at an offset in the file, without checksum and writeback. */
tri_status tri_output_put(const tri_output *output, uint64_t offset, const void *data, uint64_t bytes);
/* LOCAL. Asks the system to begin sending these bytes of the file to the disk. */
void tri_output_start_writeback(const tri_output *output, uint64_t offset, uint64_t bytes);
/* LOCAL. tri_output_put_direct writes as tri_output_put does, but bypasses the page cache if tri_output_is_direct
 * returns true; `data`, `offset` and `bytes` must then be multiples of 4096. */
bool tri_output_is_direct(const tri_output *output);
tri_status tri_output_put_direct(tri_output *output, uint64_t offset, const void *data, uint64_t bytes);

/* LOCAL. Sets the length of a file before its bytes are written. */
tri_status tri_output_set_length(const tri_output *output, uint64_t bytes);

/* LOCAL. Flushes to the disk and closes. */
tri_status tri_output_finish(tri_output *output);
/* LOCAL. Closes the file without flushing it, after a failure. */
void tri_output_abandon(tri_output *output);

/* LOCAL. Creates, writes and flushes a whole small file, which must not exist. */
tri_status tri_output_file(const char *path, const void *data, size_t bytes);

/* LOCAL. Copies the file `from` to a new file, piece by piece, and flushes it; sets *bytes and *checksum to its size
 * and checksum. */
tri_status tri_output_copy(const char *from, const char *path, uint64_t *bytes, uint64_t *checksum);

/* LOCAL. Opens the open file a second time, bypassing the page cache, for reading or writing (mode: O_RDONLY,
 * O_WRONLY). Returns the new descriptor, which the caller closes; -1 if the file is not on a local ext4 or XFS file
 * system, or the system refuses. */
int tri_open_direct(const char *path, int file, int mode);

/* Returns the checksum of a checkpoint's data other than tensors: XXH3, 64 bits. */
uint64_t tri_checksum(const void *data, size_t bytes);

#endif
