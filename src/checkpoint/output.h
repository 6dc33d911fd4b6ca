/* One file of a checkpoint on its way to the disk: a checksum is taken as bytes go by, and it is flushed before it is
 * closed. Used by the files of this folder only. */
#ifndef TRI_CHECKPOINT_OUTPUT_H
#define TRI_CHECKPOINT_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_output {
  int file;
  int direct;       /* the same file past the page cache, or -1 */
  const char *path; /* borrowed */
  uint64_t bytes;   /* what the whole file will take, for the message when the disk is full */
} tri_output;

/* LOCAL. Creates a file that must not exist and takes space for `bytes`; a full disk is TRI_IO_FAILED here already
 * where the file system can say so. */
tri_status tri_output_create(const char *path, uint64_t bytes, tri_output *out);

/* LOCAL. Writes at a place in the file. With checksum != NULL it is set to that of these bytes. */
tri_status tri_output_write(const tri_output *output, uint64_t offset, const void *data, uint64_t bytes,
                            uint64_t *checksum);

/* LOCAL. Opens a file that another rank has created. */
tri_status tri_output_open(const char *path, uint64_t bytes, tri_output *out);

/* LOCAL. Writes at a place in the file, and no more than that. */
tri_status tri_output_put(const tri_output *output, uint64_t offset, const void *data, uint64_t bytes);
/* Asks the system to begin sending what was written so to the disk. */
void tri_output_start_writeback(const tri_output *output, uint64_t offset, uint64_t bytes);
/* LOCAL. The same past the page cache, if tri_output_is_direct; data, offset and bytes are multiples of 4096. */
bool tri_output_is_direct(const tri_output *output);
tri_status tri_output_put_direct(tri_output *output, uint64_t offset, const void *data, uint64_t bytes);

/* LOCAL. Gives a file its length before its bytes come. */
tri_status tri_output_set_length(const tri_output *output, uint64_t bytes);

/* LOCAL. Flushes to the disk and closes. */
tri_status tri_output_finish(tri_output *output);
/* Closes what is to be thrown away. */
void tri_output_abandon(tri_output *output);

/* LOCAL. A whole small file at once. */
tri_status tri_output_file(const char *path, const void *data, size_t bytes);

/* LOCAL. A copy of a file, piece by piece. */
tri_status tri_output_copy(const char *from, const char *path, uint64_t *bytes, uint64_t *checksum);

/* LOCAL. The open file a second time, past the page cache, to be read or written (mode: O_RDONLY, O_WRONLY); -1 if
 * the file system is not one of a local disk's or does not want it. */
int tri_open_direct(const char *path, int file, int mode);

/* The checksum of all of a checkpoint's parts: XXH3, 64 bits. */
uint64_t tri_checksum(const void *data, size_t bytes);

#endif
