/* How a number of things is shared out. */
#ifndef TRI_MESH_PARTS_H
#define TRI_MESH_PARTS_H

#include <stdint.h>

/* Part i of `count` things over `size` parts: [tri_part_begin(count, size, i), tri_part_begin(count, size, i + 1)).
 * Parts differ by at most one; the first are the larger. */
static inline int64_t tri_part_begin(int64_t count, int64_t size, int64_t i) {
  int64_t share = count / size, rest = count % size;
  return i * share + (i < rest ? i : rest);
}

/* The same as a first thing and a number of them. */
static inline void tri_part_of(int64_t count, int64_t size, int64_t i, int64_t *first, int64_t *length) {
  *first = tri_part_begin(count, size, i);
  *length = tri_part_begin(count, size, i + 1) - *first;
}

#endif
