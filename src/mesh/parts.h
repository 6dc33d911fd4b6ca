/* Division of a number of things into nearly equal parts. */
#ifndef TRI_MESH_PARTS_H
#define TRI_MESH_PARTS_H

#include <stdint.h>

/* Part i of `count` things in `size` parts is [tri_part_begin(count, size, i), tri_part_begin(count, size, i + 1)).
 * Lengths differ by at most one; the first parts are the longer ones. */
static inline int64_t tri_part_begin(int64_t count, int64_t size, int64_t i) {
  int64_t share = count / size, rest = count % size;
  return i * share + (i < rest ? i : rest);
}

/* Sets *first and *length to the first thing of part i and to its number of things. */
static inline void tri_part_of(int64_t count, int64_t size, int64_t i, int64_t *first, int64_t *length) {
  *first = tri_part_begin(count, size, i);
  *length = tri_part_begin(count, size, i + 1) - *first;
}

#endif
