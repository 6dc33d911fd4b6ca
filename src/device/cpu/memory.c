/* Host memory of the CPU device: zeroed pages with guard pages around each block, huge pages if the system has them,
 * and copies. */
#include "base/format.h"
#include "device/cpu/cpu.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECE_BYTES = 1 << 21 };

/* A block of `bytes` occupies whole pages, and a guard page without access on either side: a kernel that runs over an
 * end of its memory crashes there instead of corrupting other memory. */
enum { PAGE_BYTES = 1 << 16 }; /* at least the system's page size */

static size_t mapped_bytes(size_t bytes) { return (bytes + 3 * (size_t)PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

/* Returns the offset of the block in its mapping. The block ends where the upper guard page begins, up to alignment. */
static size_t lead_bytes(size_t bytes) { return mapped_bytes(bytes) - PAGE_BYTES - (bytes + 63) / 64 * 64; }

static tri_status not_given(size_t bytes) {
  char text[32];
  return tri_fail(TRI_OUT_OF_MEMORY, "the system does not give %zu bytes (%s) of memory", bytes,
                  tri_format_bytes((double)bytes, text, sizeof text));
}

/* Allocates a block. Every page is touched here, by the threads that will use it and before the first step, so that no
 * step pays for page faults. Huge pages reduce the number of TLB entries. */
tri_status tri_cpu_memory_create(tri_device *device, size_t bytes, void **out) {
  size_t mapped = bytes > SIZE_MAX / 2 ? SIZE_MAX / 2 : mapped_bytes(bytes); /* more than any system provides */
  size_t inside_bytes = mapped - 2 * (size_t)PAGE_BYTES;
  char *mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return not_given(bytes);
  char *inside = mapping + PAGE_BYTES;
  if (mprotect(inside, inside_bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapped);
    return not_given(bytes);
  }
#ifdef MADV_HUGEPAGE
  madvise(inside, inside_bytes, MADV_HUGEPAGE); /* this is only advice: if the system refuses, only speed is lost */
#endif
  int64_t pieces = (int64_t)((inside_bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(device->description.threads)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = inside_bytes - first < PIECE_BYTES ? inside_bytes - first : PIECE_BYTES;
    memset(inside + first, 0, size);
  }
  *out = mapping + lead_bytes(bytes);
  return TRI_OK;
}

void tri_cpu_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  (void)device;
  if (memory != NULL) munmap((char *)memory - lead_bytes(bytes), mapped_bytes(bytes));
}

static void copy_row(tri_queue *queue, char *to, const char *from, size_t bytes) {
  int64_t pieces = (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(queue->device->description.threads) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
    memcpy(to + first, from + first, size);
  }
}

tri_status tri_cpu_copy(tri_queue *queue, const tri_copy *copy) {
  for (size_t r = 0; r < copy->rows; r++) {
    copy_row(queue, (char *)copy->to + r * copy->to_stride, (const char *)copy->from + r * copy->from_stride,
             copy->row_bytes);
  }
  return TRI_OK;
}

tri_status tri_cpu_fill_zero(tri_queue *queue, size_t bytes, void *out) {
  int64_t pieces = (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(queue->device->description.threads) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
    memset((char *)out + first, 0, size);
  }
  return TRI_OK;
}
