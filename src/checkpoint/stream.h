/* Bytes on their way into files at the disk's speed: the caller fills one buffer while a thread writes the other. Used
 * by the files of this folder only. */
#ifndef TRI_CHECKPOINT_STREAM_H
#define TRI_CHECKPOINT_STREAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_stream tri_stream;

/* LOCAL. `buffers` has room for TRI_CHECKPOINT_BUFFER_BYTES (checkpoint.h) and outlives the stream; NULL allocates.
 * Release with tri_stream_destroy, which closes what is open without flushing it. */
tri_status tri_stream_create(void *buffers, tri_stream **out);
void tri_stream_destroy(tri_stream *stream);

/* LOCAL. The next bytes go into this existing file, which is to have `bytes` in the end. No file may be open. */
tri_status tri_stream_open(tri_stream *stream, const char *path, uint64_t bytes);

/* LOCAL. Bytes for a place in the open file; those that follow on each other are written together. A failure of the
 * disk may be told by a later call: tri_stream_close tells of all. */
tri_status tri_stream_put(tri_stream *stream, uint64_t offset, const void *data, uint64_t bytes);

/* LOCAL. Writes what is left, flushes the file to the disk and closes it. */
tri_status tri_stream_close(tri_stream *stream);

#endif
