/* Flash attention (Dao 2023) with tiles in shared memory and matrix fragments. It is exact, and stores no more scores
 * than those of a tile. The backward has no atomics: one kernel computes the gradient of q, for a tile of queries per
 * block, and another those of k and v, for a tile of keys per block; both recompute the scores. So the order of every
 * sum depends only on the call and its list of slices.
 *
 * Rows that are not aligned to 16 bytes are copied element by element; head sizes that are not multiples of a tile are
 * padded with zeros in shared memory. */
#include "device/gpu/kernels/attention.h"

#include "device/gpu/kernels/attention_backward.h"
#include "device/gpu/kernels/attention_forward.h"

enum { NARROW = ATTENTION_NARROW / (int)sizeof(element), WIDE = ATTENTION_WIDE / (int)sizeof(element) };

typedef struct asked {
  sixteen_bytes at[1];
} asked;

KERNEL(attention_forward_narrow) {
  SHARED_ASKED(asked, memory);
  forward_block(&a, (element *)(void *)memory, NARROW);
}

KERNEL(attention_forward_wide) {
  SHARED_ASKED(asked, memory);
  forward_block(&a, (element *)(void *)memory, WIDE);
}

KERNEL(attention_queries_narrow) {
  SHARED_ASKED(asked, memory);
  backward_block(&a, (element *)(void *)memory, 0, NARROW);
}

KERNEL(attention_queries_wide) {
  SHARED_ASKED(asked, memory);
  backward_block(&a, (element *)(void *)memory, 0, WIDE);
}

KERNEL(attention_keys_narrow) {
  SHARED_ASKED(asked, memory);
  backward_block(&a, (element *)(void *)memory, 1, NARROW);
}

KERNEL(attention_keys_wide) {
  SHARED_ASKED(asked, memory);
  backward_block(&a, (element *)(void *)memory, 1, WIDE);
}

KERNEL(attention_row_sums) { row_sums(&a); }
