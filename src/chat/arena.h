/* An arena: memory that is freed all at once, for the values of one rendering or of one template. */
#ifndef TRI_CHAT_ARENA_H
#define TRI_CHAT_ARENA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_chat_block tri_chat_block;

/* Starts as {.limit}, and {.most_steps} if work is bounded as well. */
typedef struct tri_chat_arena {
  tri_chat_block *blocks;
  char *at, *end;
  size_t used, limit;        /* bytes */
  int64_t steps, most_steps; /* steps: work since the last reset, one step per value and per 16 bytes; most_steps:
                                maximum, 0: no maximum */
} tri_chat_arena;

/* Adds the work of one step and of `bytes` bytes. Fails with TRI_BAD_FILE beyond most_steps, and with TRI_INTERRUPTED
 * after a stop request. All loops of a rendering over values and text call this function, so that a rendering ends in
 * bounded time. */
tri_status tri_chat_arena_charge(tri_chat_arena *arena, size_t bytes);

/* Allocates zeroed bytes, aligned to 16. Fails with TRI_BAD_FILE beyond the limit, which only a template that
 * multiplies its input reaches. */
tri_status tri_chat_arena_alloc(tri_chat_arena *arena, size_t count, size_t size, void *out_pointer);

/* Frees everything except one block of usual size, for reuse, and resets `used` and `steps` to 0. */
void tri_chat_arena_reset(tri_chat_arena *arena);
void tri_chat_arena_release(tri_chat_arena *arena);

#endif
