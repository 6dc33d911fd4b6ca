/* Counted heap memory. Everything that grows with the model, the batch or a file goes through here or through an
 * arena, so that a run can report its bytes. Small fixed objects (a parsed option, a file name) may be
 * allocated here as well. */
#ifndef TRI_BASE_MEMORY_H
#define TRI_BASE_MEMORY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Allocates count * size bytes, zeroed, aligned to 64 bytes; fails with TRI_OUT_OF_MEMORY on overflow and exhaustion;
 * `what` names the use in the message. *out is set only on success; release it with tri_free. A count of 0 gives a
 * valid pointer. */
tri_status tri_alloc(const char *what, size_t count, size_t size, void *out_pointer);

/* Changes the size of memory of tri_alloc, by a copy to new memory; bytes beyond the old size are zeroed. The pointer
 * may be NULL, and is unchanged on failure. */
tri_status tri_realloc(const char *what, size_t count, size_t size, void *pointer_to_pointer);

/* Makes room for one more element in an array of `count` elements of `size` bytes, whose memory has room for *room
 * elements. If count has reached *room, *room at least doubles. *room is 0 for an array that is NULL. The pointer and
 * *room are unchanged on failure. */
tri_status tri_grow(const char *what, size_t size, int64_t count, int64_t *room, void *pointer_to_pointer);

/* Makes room for `count` elements: if *room is smaller, it becomes twice count or more. */
tri_status tri_reserve(const char *what, size_t size, size_t count, size_t *room, void *pointer_to_pointer);

/* Releases memory of tri_alloc or tri_realloc; NULL is ignored. */
void tri_free(void *pointer);

/* Copies a string; release with tri_free. */
tri_status tri_strdup(const char *text, char **out);

/* Return the bytes that tri_alloc and tri_realloc have allocated and that are not released yet; and the maximum of this
 * number since the program started. */
size_t tri_memory_bytes(void);
size_t tri_memory_peak_bytes(void);

#endif
