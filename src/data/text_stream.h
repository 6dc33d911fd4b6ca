/* Reads the bytes of an input file, and decompresses them if its name ends in .zst. */
#ifndef TRI_DATA_TEXT_STREAM_H
#define TRI_DATA_TEXT_STREAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_text_stream tri_text_stream;

/* Opens a file. Fails with TRI_BAD_FILE if it is missing, unreadable, a directory or a device, or has an unsupported
 * compression. A byte order mark at the beginning will be skipped. Release with tri_text_stream_close. */
tri_status tri_text_stream_open(const char *path, tri_text_stream **out);
void tri_text_stream_close(tri_text_stream *stream);

/* Fills the buffer; *got is less than `bytes` only at the end. Fails with TRI_BAD_FILE if the file cannot be read, or
 * if its compressed data are damaged or truncated. */
tri_status tri_text_stream_read(tri_text_stream *stream, char *buffer, size_t bytes, size_t *got);

/* Returns the bytes read so far from the file, before decompression. */
int64_t tri_text_stream_position(const tri_text_stream *stream);

/* Checks that tri_text_stream_open will succeed, by opening and closing the file. A pipe is not opened, because it
 * would lose its content. Sets *out_bytes to the file's length; 0 if it is not a plain file. */
tri_status tri_text_stream_check(const char *path, int64_t *out_bytes);

#endif
