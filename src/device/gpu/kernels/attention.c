/* Flash attention (Dao 2023): out = softmax(q k^T scale) v, and its gradients, with tiles in shared memory and matrix
 * fragments. It is exact, and never stores all scores: those of a tile are in registers, and the backward recomputes
 * them from log_sum_exp.
 *
 * A block has a tile of ATTENTION_OWN rows of one side (queries, or keys with values) and visits the rows of the other
 * side that the list of slices pairs with them (attention_walk.h):
 *
 *   kernel                own rows          visits     computes           grid (x, y, z)
 *   attention_forward_*   queries           keys       out, log_sum_exp   tiles of queries, heads, 1
 *   attention_queries_*   queries           keys       gradient of q      tiles of queries, heads, parts
 *   attention_keys_*      keys and values   queries    gradients of k, v  tiles of keys, key/value heads, parts
 *   attention_row_sums    -                 -          D                  any number of blocks
 *
 * `narrow` and `wide` differ in the bytes of a row of a tile. A head that is longer than the row of a wide tile is
 * processed in *chunks* of that length; the columns of out or of a gradient in one chunk are a *part*.
 *
 * Invariants: the backward has no atomics, because each element of a gradient belongs to one block. So the order of
 * every sum depends only on the call and its list of slices. Rows that are not aligned to 16 bytes are copied element
 * by element; heads that do not fill a row of a tile are padded with zeros in shared memory. */
#include "device/gpu/kernels/attention.h"

#include "device/gpu/kernels/attention_backward.h"
#include "device/gpu/kernels/attention_forward.h"

/* Elements of a row of a tile. */
enum { NARROW = ATTENTION_NARROW / (int)sizeof(element), WIDE = ATTENTION_WIDE / (int)sizeof(element) };

/* The dynamic shared memory of a block (attention.h). */
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
