/* Memory that is given back all at once: what one rendering makes, or one template. */
#ifndef TRI_CHAT_ARENA_H
#define TRI_CHAT_ARENA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_chat_block tri_chat_block;

/* Starts as {.limit}, and {.most_steps} where work is bounded, too. */
typedef struct tri_chat_arena {
  tri_chat_block *blocks;
  char *at, *end;
  size_t used, limit; /* bytes */
  int64_t steps,
      most_steps; /* work since the last reset: a step for each value, and for 16 bytes of text; 0: no bound */
} tri_chat_arena;

/* Counts work of one step and of `bytes`. Beyond most_steps TRI_BAD_FILE; TRI_INTERRUPTED if the process was asked
 * to stop. Whatever loops over values or text of a template or a conversation calls this. */
tri_status tri_chat_arena_charge(tri_chat_arena *arena, size_t bytes);

/* Zeroed bytes, aligned to 16. Beyond the limit TRI_BAD_FILE, since only a template that multiplies its input gets
 * there. */
tri_status tri_chat_arena_alloc(tri_chat_arena *arena, size_t count, size_t size, void *out_pointer);

/* Forgets everything, and keeps a block for the next time. */
void tri_chat_arena_reset(tri_chat_arena *arena);
void tri_chat_arena_release(tri_chat_arena *arena);

#endif
