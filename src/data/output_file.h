/* Writing a large file under a temporary name: buffered appends, and messages with the number of bytes written. */
#ifndef TRI_DATA_OUTPUT_FILE_H
#define TRI_DATA_OUTPUT_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_output_file {
  char *path; /* temporary name */
  int file;
  char *buffer;
  size_t held;   /* bytes in the buffer */
  int64_t bytes; /* bytes of the file, including those in the buffer */
} tri_output_file;

/* The initial value, for which tri_output_file_destroy does nothing. */
#define TRI_OUTPUT_FILE_NONE ((tri_output_file){.file = -1})

/* Creates or empties the file whose name is PREFIX and SUFFIX joined. */
tri_status tri_output_file_create(const char *prefix, const char *suffix, tri_output_file *out);
/* Closes the file, and removes it unless it was renamed. */
void tri_output_file_destroy(tri_output_file *output);

tri_status tri_output_file_write(tri_output_file *output, const void *data, size_t bytes);
/* Reads bytes of the file back, after writing the buffer to it; the bytes must exist. */
tri_status tri_output_file_read(tri_output_file *output, int64_t offset, void *data, size_t bytes);
tri_status tri_output_file_truncate(tri_output_file *output, int64_t bytes);
/* Writes the buffer and flushes the file to the disk. */
tri_status tri_output_file_sync(tri_output_file *output);
/* Renames the file to PREFIX and SUFFIX joined, and closes it. */
tri_status tri_output_file_rename(tri_output_file *output, const char *prefix, const char *suffix);

#endif
