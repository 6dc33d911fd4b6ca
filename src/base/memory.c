#include "base/memory.h"

#include "base/format.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Each block is preceded by a header of one cache line with its size. The counters are statistics of the
 * process, like those of malloc itself, and the only mutable state of this file. */
enum { HEADER_BYTES = 64 };

static atomic_size_t held_bytes;
static atomic_size_t peak_bytes;

static void count_up(size_t bytes) {
  size_t now = atomic_fetch_add(&held_bytes, bytes) + bytes;
  size_t peak = atomic_load(&peak_bytes);
  while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now)) {
  }
}

static tri_status out_of_memory(const char *what, size_t count, size_t size) {
  char amount[32];
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: %s needs %zu x %zu bytes (%s) more than there is", what, count,
                  size, tri_format_bytes((double)count * (double)size, amount, sizeof amount));
}

/* Allocates count x size bytes, and sets those from `kept` on to zero. */
static tri_status allocate(const char *what, size_t count, size_t size, size_t kept, void *out_pointer) {
  size_t bytes = 0;
  size_t total = 0;
  if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, (size_t)2 * HEADER_BYTES, &total)) {
    return out_of_memory(what, count, size);
  }
  total = total / HEADER_BYTES * HEADER_BYTES;
  char *block = aligned_alloc(HEADER_BYTES, total);
  if (block == NULL) return out_of_memory(what, count, size);
  if (kept < total - HEADER_BYTES) memset(block + HEADER_BYTES + kept, 0, total - HEADER_BYTES - kept);
  memcpy(block, &bytes, sizeof bytes);
  count_up(bytes);
  void *pointer = block + HEADER_BYTES;
  memcpy(out_pointer, &pointer, sizeof pointer);
  return TRI_OK;
}

tri_status tri_alloc(const char *what, size_t count, size_t size, void *out_pointer) {
  return allocate(what, count, size, 0, out_pointer);
}

tri_status tri_realloc(const char *what, size_t count, size_t size, void *pointer_to_pointer) {
  char *old = NULL;
  char *grown = NULL;
  size_t kept = 0;
  memcpy(&old, pointer_to_pointer, sizeof old);
  if (old != NULL) memcpy(&kept, old - HEADER_BYTES, sizeof kept);
  TRI_TRY(allocate(what, count, size, kept, &grown));
  if (old != NULL) {
    const size_t bytes = count * size;
    memcpy(grown, old, kept < bytes ? kept : bytes);
    tri_free(old);
  }
  memcpy(pointer_to_pointer, &grown, sizeof grown);
  return TRI_OK;
}

tri_status tri_grow(const char *what, size_t size, int64_t count, int64_t *room, void *pointer_to_pointer) {
  enum { FIRST = 16 };
  if (count < *room) return TRI_OK;
  const int64_t wanted = count < FIRST / 2 ? FIRST : 2 * count;
  TRI_TRY(tri_realloc(what, (size_t)wanted, size, pointer_to_pointer));
  *room = wanted;
  return TRI_OK;
}

tri_status tri_reserve(const char *what, size_t size, size_t count, size_t *room, void *pointer_to_pointer) {
  enum { FIRST = 64 };
  if (count <= *room) return TRI_OK;
  const size_t wanted = 2 * count + FIRST;
  TRI_TRY(tri_realloc(what, wanted, size, pointer_to_pointer));
  *room = wanted;
  return TRI_OK;
}

void tri_free(void *pointer) {
  if (pointer == NULL) return;
  char *block = (char *)pointer - HEADER_BYTES;
  size_t bytes = 0;
  memcpy(&bytes, block, sizeof bytes);
  atomic_fetch_sub(&held_bytes, bytes);
  free(block);
}

tri_status tri_strdup(const char *text, char **out) {
  size_t length = strlen(text) + 1;
  char *copy = NULL;
  TRI_TRY(tri_alloc("a string", length, 1, &copy));
  memcpy(copy, text, length);
  *out = copy;
  return TRI_OK;
}

size_t tri_memory_bytes(void) { return atomic_load(&held_bytes); }

size_t tri_memory_peak_bytes(void) { return atomic_load(&peak_bytes); }
