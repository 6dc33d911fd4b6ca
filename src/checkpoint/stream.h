/* Writing to files at the disk's speed: the caller fills one buffer while a thread writes the other. Used by the files
 * of this folder only. */
#ifndef TRI_CHECKPOINT_STREAM_H
#define TRI_CHECKPOINT_STREAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_stream tri_stream;

/* LOCAL. Creates a stream and its thread. `buffers` has TRI_CHECKPOINT_BUFFER_BYTES (checkpoint.h) and must outlive the
 * stream; NULL: the stream allocates them. Release with tri_stream_destroy, which closes an open file without flushing
 * it. */
tri_status tri_stream_create(void *buffers, tri_stream **out);
void tri_stream_destroy(tri_stream *stream);

/* LOCAL. Opens an existing file for the following calls; `bytes` is its final size. No file may be open. */
tri_status tri_stream_open(tri_stream *stream, const char *path, uint64_t bytes);

/* LOCAL. Copies bytes that belong at an offset in the open file; bytes of contiguous calls are written together. A
 * failed write may be reported by a later call, at the latest by tri_stream_close. */
tri_status tri_stream_put(tri_stream *stream, uint64_t offset, const void *data, uint64_t bytes);

/* LOCAL. Writes the remaining bytes, flushes the file to the disk and closes it. */
tri_status tri_stream_close(tri_stream *stream);

#endif
