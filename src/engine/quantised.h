/* Quantises a base's matrix to 4 bits while it is loaded (device/nf4.h).
 *
 * Its values are read like those of any tensor, front to back, into scratch memory of the arena. When the last one is
 * there, the device quantises them, and the next matrix may use the same memory. Reads return the dequantised values.
 * If the base is in 4 bits already (checkpoint/four_bits.h), its codes are used as they are.
 *
 * Every rank that holds a shard of a matrix reads the whole, since blocks, and what blocks share, cross the shards.
 * Codes of the whole are made after the values, and the shard's codes are cut from them. Reads then return the elements
 * of the shard, followed by zeros: enough to tell whether they are finite, since all of a matrix are finite or none.
 *
 * Under ZeRO 3 a rank keeps only some bytes of the codes, which cannot be decoded by themselves. Reads then return
 * zeros, or non-finite values if the matrix is not finite. */
#ifndef TRI_ENGINE_QUANTISED_H
#define TRI_ENGINE_QUANTISED_H

#include "checkpoint/checkpoint.h"
#include "engine/executor.h"

typedef struct tri_quantised {
  tri_checkpoint_memory memory; /* access to the memory at `wide` */
  tri_queue *queue;
  tri_dtype type; /* the wide type */
  tri_nf4_cut cut;
  char *wide;
  char *whole;            /* codes of the whole matrix, in scratch memory; `kept` if the shard is the whole */
  char *kept;             /* codes of the shard; in scratch memory if only some bytes of them are kept */
  tri_element_range some; /* bytes of `kept` that are kept, and their offset in `array`; unused if all codes are kept */
  char *array;
  float offset; /* offset of the codes; not finite if an element is not */
} tri_quantised;

/* Sets up matrix number `matrix` of this rank's matrices of entry number `entry`. *out must not move while its memory
 * is in use. */
void tri_quantised_set_up(const tri_executor *executor, int64_t entry, int64_t matrix, tri_quantised *out);

#endif
