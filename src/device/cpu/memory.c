#include "base/format.h"
#include "device/cpu/cpu.h"

#include <string.h>
#include <sys/mman.h>

enum { PIECE_BYTES = 1 << 21 };

/* Every page is touched here, by the threads that will use it and before the first step, so that no step pays for page
 * faults. Huge pages make the arena cost few entries of the TLB. */
tri_status tri_cpu_memory_create(tri_device *device, size_t bytes, void **out) {
  size_t mapped = bytes == 0 ? PIECE_BYTES : bytes;
  char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    char text[32];
    return tri_fail(TRI_OUT_OF_MEMORY, "the system does not give %zu bytes (%s) of memory", bytes,
                    tri_format_bytes((double)bytes, text, sizeof text));
  }
#ifdef MADV_HUGEPAGE
  madvise(memory, mapped, MADV_HUGEPAGE); /* advice: a refusal costs speed alone */
#endif
  int64_t pieces = (int64_t)((mapped + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(device->threads)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = mapped - first < PIECE_BYTES ? mapped - first : PIECE_BYTES;
    memset(memory + first, 0, size);
  }
  *out = memory;
  return TRI_OK;
}

void tri_cpu_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  (void)device;
  if (memory != NULL) munmap(memory, bytes == 0 ? PIECE_BYTES : bytes);
}

tri_status tri_cpu_copy(tri_device *device, void *to, const void *from, size_t bytes) {
  int64_t pieces = (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(device->threads) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
    memcpy((char *)to + first, (const char *)from + first, size);
  }
  return TRI_OK;
}

tri_status tri_cpu_fill_zero(tri_device *device, size_t bytes, void *out) {
  int64_t pieces = (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel for schedule(static) num_threads(device->threads) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    size_t first = (size_t)i * PIECE_BYTES;
    size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
    memset((char *)out + first, 0, size);
  }
  return TRI_OK;
}
