/* Memory that only kernels can access.
 *
 * The device returns addresses in pages that never allow access. The memory itself is mapped at other addresses, which
 * only the code that runs kernels and copies knows. (Making the pages accessible while a kernel runs would make them
 * accessible to all threads.) Both mappings have the same size and are between guard pages. The bytes of an allocation,
 * rounded up to 64, end at the upper guard, so a kernel that runs over its memory crashes too. */
#include "device/guarded/internal.h"

#include "base/format.h"
#include "base/memory.h"

#include <string.h>
#include <sys/mman.h>

enum {
  GUARD_BYTES = 1 << 16,   /* at least a page of any system */
  MOST_RELEASED = 1 << 10, /* maximum number of released blocks that stay reserved */
  POISON_BYTES = 8
};

static size_t mapped_bytes(size_t bytes) { return (bytes + 3 * (size_t)GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES; }

static size_t lead_bytes(size_t bytes) { return mapped_bytes(bytes) - GUARD_BYTES - (bytes + 63) / 64 * 64; }

/* ---- poison ------------------------------------------------------------------------------------------------------ */

/* 0x7ff4 repeated: a signalling NaN in fp64, a NaN in fp32 and bf16, 2146729972 in int32. */
static const unsigned char poison[POISON_BYTES] = {0xf4, 0x7f, 0xf4, 0x7f, 0xf4, 0x7f, 0xf4, 0x7f};

void tri_guarded_poison(void *memory, size_t bytes) {
  char *to = memory;
  size_t at = 0;
  for (; at + POISON_BYTES <= bytes; at += POISON_BYTES) memcpy(to + at, poison, POISON_BYTES);
  memcpy(to + at, poison, bytes - at);
}

bool tri_guarded_is_poison(const void *memory, size_t bytes) {
  const char *from = memory;
  size_t at = 0;
  for (; at + POISON_BYTES <= bytes; at += POISON_BYTES) {
    if (memcmp(from + at, poison, POISON_BYTES) != 0) return false;
  }
  return memcmp(from + at, poison, bytes - at) == 0;
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* Reserves addresses for `bytes` bytes and guards, with memory in all but the guards if `open`. Returns the address of
 * the first byte; NULL if the system has no room. */
static char *map(size_t bytes, bool open) {
  size_t mapped = bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 : mapped_bytes(bytes); /* more than any system provides */
  char *mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return NULL;
  if (open && mprotect(mapping + GUARD_BYTES, mapped - 2 * (size_t)GUARD_BYTES, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapped);
    return NULL;
  }
  return mapping + lead_bytes(bytes);
}

/* Reserves addresses for callers, in a range where no two adjacent small 32-bit numbers form such an address: its
 * upper half is fixed, and its lower half is between 1 and 3 GiB. Otherwise code that searches a kernel's arguments
 * for addresses (the emulated GPU) would sometimes mistake two numbers, or padding between two arguments, for one.
 * If the system has no room there, any address is used. Returns the address of the first byte; NULL if the system
 * refuses. */
static char *map_given(tri_guarded_state *state, size_t bytes) {
  enum { ATTEMPTS = 64 };
  const uintptr_t base = (uintptr_t)0x6b80 << 32, window = (uintptr_t)1 << 32, low = (uintptr_t)1 << 30;
  const size_t mapped = bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 : mapped_bytes(bytes);
  if (state->next_given == 0) state->next_given = base + low;
  for (int i = 0; i < ATTEMPTS && mapped <= 2 * low; i++) {
    uintptr_t at = state->next_given, within = at % window;
    if (within + mapped > 3 * low) at += window - within + low;
    char *mapping =
        mmap((void *)at, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapping == (char *)at) {
      state->next_given = at + mapped;
      return mapping + lead_bytes(bytes);
    }
    if (mapping != MAP_FAILED) munmap(mapping, mapped);
    /* Another device most likely uses this range, so the next one is tried. */
    state->next_given = at - at % window + window + low;
  }
  return map(bytes, false);
}

static void unmap(char *memory, size_t bytes) {
  if (memory != NULL) munmap(memory - lead_bytes(bytes), mapped_bytes(bytes));
}

/* Returns the memory to the system, and keeps the addresses reserved. */
static void close_mapping(char *memory, size_t bytes) {
  (void)mmap(memory - lead_bytes(bytes), mapped_bytes(bytes), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static tri_status not_given(size_t bytes) {
  char text[32];
  return tri_fail(TRI_OUT_OF_MEMORY, "the system does not give %zu bytes (%s) of memory", bytes,
                  tri_format_bytes((double)bytes, text, sizeof text));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void free_block(tri_guarded_block *block) {
  if (block->given != block->open) unmap(block->given, block->bytes);
  unmap(block->open, block->bytes);
  tri_free(block);
}

static tri_status create_block(tri_guarded_state *state, size_t bytes, bool host, tri_guarded_block **out) {
  tri_guarded_block *block = NULL;
  TRI_TRY(tri_alloc("a block of memory", 1, sizeof *block, &block));
  block->bytes = bytes;
  block->host = host;
  block->open = map(bytes, true);
  tri_guarded_lock(state);
  block->given = host ? block->open : map_given(state, bytes);
  if (block->open == NULL || block->given == NULL) {
    tri_guarded_unlock(state);
    free_block(block);
    return not_given(bytes);
  }
  block->number = ++state->num_blocks;
  atomic_store(&block->next, atomic_load(&state->blocks));
  atomic_store(&state->blocks, block);
  tri_guarded_unlock(state);
  *out = block;
  return TRI_OK;
}

/* Frees the addresses of released blocks, except the last MOST_RELEASED that were released. */
static void forget_the_oldest(tri_guarded_state *state) {
  tri_guarded_block *_Atomic *link = &state->blocks;
  for (tri_guarded_block *block; (block = atomic_load(link)) != NULL;) {
    if (atomic_load(&block->released) && block->release + MOST_RELEASED <= state->num_releases) {
      atomic_store(link, atomic_load(&block->next));
      free_block(block);
    } else {
      link = &block->next;
    }
  }
}

void tri_guarded_memory_release(tri_guarded_state *state, const void *memory) {
  tri_guarded_lock(state);
  for (tri_guarded_block *block = atomic_load(&state->blocks); block != NULL; block = atomic_load(&block->next)) {
    if (block->given != memory || atomic_load(&block->released)) continue;
    block->release = ++state->num_releases;
    atomic_store(&block->released, true);
    close_mapping(block->open, block->bytes);
    break;
  }
  forget_the_oldest(state);
  tri_guarded_unlock(state);
}

void tri_guarded_release_all(tri_guarded_state *state) {
  tri_guarded_block *next = NULL;
  for (tri_guarded_block *block = atomic_load(&state->blocks); block != NULL; block = next) {
    next = atomic_load(&block->next);
    free_block(block);
  }
  atomic_store(&state->blocks, NULL);
}

size_t tri_guarded_memory_held(tri_guarded_state *state) {
  size_t held = 0;
  tri_guarded_lock(state);
  for (const tri_guarded_block *block = atomic_load(&state->blocks); block != NULL; block = atomic_load(&block->next)) {
    if (!block->host && !atomic_load(&block->released)) held += block->bytes;
  }
  tri_guarded_unlock(state);
  return held;
}

tri_status tri_guarded_memory_create(tri_guarded_state *state, size_t bytes, void **out) {
  tri_guarded_block *block = NULL;
  char number[32];
  tri_guarded_lock(state);
  uint64_t count = ++state->memories;
  tri_guarded_unlock(state);
  if (count == state->options.fail_memory) {
    return tri_fail(TRI_OUT_OF_MEMORY, "the device fails its %s allocation as requested (fail_memory), of %zu bytes",
                    tri_guarded_ordinal(count, number), bytes);
  }
  TRI_TRY(create_block(state, bytes, false, &block));
  memset(block->open, 0, bytes);
  *out = block->given;
  return TRI_OK;
}

tri_status tri_guarded_host_create(tri_guarded_state *state, size_t bytes, void **out) {
  tri_guarded_block *block = NULL;
  TRI_TRY(create_block(state, bytes, true, &block));
  tri_guarded_poison(block->open, bytes);
  *out = block->given;
  return TRI_OK;
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

/* Returns the block whose `given` mapping, including its guards, contains an address; NULL if there is no such
 * block. */
static const tri_guarded_block *find(const tri_guarded_state *state, const void *memory) {
  uintptr_t at = (uintptr_t)memory;
  for (const tri_guarded_block *block = atomic_load(&state->blocks); block != NULL; block = atomic_load(&block->next)) {
    uintptr_t begin = (uintptr_t)block->given - lead_bytes(block->bytes);
    if (at >= begin && at - begin < mapped_bytes(block->bytes)) return block;
  }
  return NULL;
}

static tri_status check_inside(const tri_guarded_block *block, const char *what, const void *memory, size_t bytes) {
  const char *kind = block->host ? "host memory" : "device memory";
  if (atomic_load(&block->released)) {
    return tri_fail_internal("%s is %s that was released before it ran (allocation %lld, of %zu bytes)", what, kind,
                             (long long)block->number, block->bytes);
  }
  ptrdiff_t offset = (const char *)memory - block->given;
  if (offset >= 0 && (size_t)offset <= block->bytes && bytes <= block->bytes - (size_t)offset) return TRI_OK;
  return tri_fail_internal("%s, %zu bytes at offset %lld of %s, is not inside allocation %lld, of %zu bytes", what,
                           bytes, (long long)offset, kind, (long long)block->number, block->bytes);
}

tri_status tri_guarded_open(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes,
                            void **out) {
  const tri_guarded_block *block = find(state, memory);
  if (block == NULL || block->host) {
    return tri_fail_internal("%s, %p, is not this device's memory: a mistake of this program's", what, memory);
  }
  TRI_TRY(check_inside(block, what, memory, bytes));
  *out = block->open + ((const char *)memory - block->given);
  return TRI_OK;
}

tri_status tri_guarded_open_if_own(const tri_guarded_state *state, const char *what, const void *memory, void **out) {
  const tri_guarded_block *block = find(state, memory);
  if (block != NULL && !block->host) return tri_guarded_open(state, what, memory, 1, out);
  *out = (void *)(uintptr_t)memory;
  return TRI_OK;
}

tri_status tri_guarded_check_host(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes) {
  const tri_guarded_block *block = find(state, memory);
  if (block == NULL) return TRI_OK;
  if (block->host) return check_inside(block, what, memory, bytes);
  return tri_fail_internal("%s, %p, is device memory where host memory was said: a mistake of this program's", what,
                           memory);
}
