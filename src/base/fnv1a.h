/* FNV-1a, 64 bits (Fowler, Noll, Vo): the hash of texts whose value is written to files, which must not change. Other
 * hashes are XXH3. */
#ifndef TRI_BASE_FNV1A_H
#define TRI_BASE_FNV1A_H

#include <stddef.h>
#include <stdint.h>

#define TRI_FNV1A_BEGIN UINT64_C(14695981039346656037)

/* Returns the hash that continues `hash` with the bytes of `text`, without the zero at its end. The first `hash` is
 * TRI_FNV1A_BEGIN. */
static inline uint64_t tri_fnv1a(uint64_t hash, const char *text) {
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
  return hash;
}

/* Returns the hash that continues `hash` with numbers[count], each with its lowest byte first on every machine. */
static inline uint64_t tri_fnv1a_numbers(uint64_t hash, const int32_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((uint32_t)numbers[i] >> shift & 0xFFu)) * UINT64_C(1099511628211);
    }
  }
  return hash;
}

#endif
