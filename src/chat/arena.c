#include "chat/arena.h"

#include "base/memory.h"
#include "base/stop.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGN = 16 };

struct tri_chat_block {
  tri_chat_block *next;
  size_t bytes; /* bytes after the header */
};
enum { HEADER_BYTES = (sizeof(tri_chat_block) + ALIGN - 1) / ALIGN * ALIGN };

static tri_status add_block(tri_chat_arena *arena, size_t bytes) {
  tri_chat_block *block = NULL;
  size_t room = bytes < BLOCK_BYTES - HEADER_BYTES ? BLOCK_BYTES - HEADER_BYTES : bytes;
  TRI_TRY(tri_realloc("a chat template's values", HEADER_BYTES + room, 1, &block));
  *block = (tri_chat_block){.next = arena->blocks, .bytes = room};
  arena->blocks = block;
  arena->at = (char *)block + HEADER_BYTES;
  arena->end = arena->at + room;
  return TRI_OK;
}

tri_status tri_chat_arena_alloc(tri_chat_arena *arena, size_t count, size_t size, void *out_pointer) {
  if (size != 0 && count > (arena->limit - arena->used) / size) {
    return tri_fail(TRI_BAD_FILE, "the chat template makes more than %zu MiB of values; it repeats its input too often",
                    arena->limit >> 20);
  }
  size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
  if (bytes > (size_t)(arena->end - arena->at)) TRI_TRY(add_block(arena, bytes));
  void *memory = arena->at;
  arena->at += bytes;
  arena->used += bytes < arena->limit - arena->used ? bytes : arena->limit - arena->used;
  if (bytes > 0) memset(memory, 0, bytes);
  *(void **)out_pointer = memory;
  return TRI_OK;
}

enum { LOOK_EVERY = 1 << 14 }; /* steps between two tests for a stop request */

tri_status tri_chat_arena_charge(tri_chat_arena *arena, size_t bytes) {
  const int64_t before = arena->steps;
  arena->steps += 1 + (int64_t)(bytes / 16);
  if (arena->most_steps > 0 && arena->steps > arena->most_steps) {
    return tri_fail(TRI_BAD_FILE,
                    "the chat template takes more than %lld steps; it loops over far more than its messages",
                    (long long)arena->most_steps);
  }
  if (before / LOOK_EVERY != arena->steps / LOOK_EVERY && tri_stop_asked()) {
    return tri_fail(TRI_INTERRUPTED, "interrupted in a chat template");
  }
  return TRI_OK;
}

static void free_blocks(tri_chat_block *block) {
  while (block != NULL) {
    tri_chat_block *next = block->next;
    tri_free(block);
    block = next;
  }
}

void tri_chat_arena_reset(tri_chat_arena *arena) {
  arena->used = 0;
  arena->steps = 0;
  if (arena->blocks == NULL) return;
  if (arena->blocks->bytes > 64 * BLOCK_BYTES) { /* an unusually large block is not kept */
    tri_chat_arena_release(arena);
    return;
  }
  free_blocks(arena->blocks->next);
  arena->blocks->next = NULL;
  arena->at = (char *)arena->blocks + HEADER_BYTES;
  arena->end = arena->at + arena->blocks->bytes;
}

void tri_chat_arena_release(tri_chat_arena *arena) {
  free_blocks(arena->blocks);
  arena->blocks = NULL;
  arena->at = arena->end = NULL;
  arena->used = 0;
}
