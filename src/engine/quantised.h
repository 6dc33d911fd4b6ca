/* Quantises a base's matrix to 4 bits while it is loaded (device/nf4.h).
 *
 * Its values are read like those of any tensor, front to back, into scratch memory of the arena. After the last one has
 * been written, the device quantises them, and the next matrix may use the same memory. Reads return the dequantised
 * values. If the base is in 4 bits already (checkpoint/four_bits.h), its codes are used as they are.
 *
 * Every rank that holds a shard of a matrix reads the whole matrix, because a block may be on two shards, and blocks of
 * different shards share scales and the offset. The codes of the whole matrix are stored after its values in the
 * scratch memory, and the shard's codes are cut from them. Reads then return the elements of the shard, followed by
 * zeros. This is enough to tell whether they are finite, since after quantisation either all elements of a matrix are
 * finite or none are.
 *
 * Under ZeRO 3 a rank keeps only some bytes of the codes, which cannot be decoded by themselves. Reads then return
 * zeros, or non-finite values if the matrix is not finite. */
#ifndef TRI_ENGINE_QUANTISED_H
#define TRI_ENGINE_QUANTISED_H

#include "checkpoint/checkpoint.h"
#include "engine/executor.h"

typedef struct tri_quantised {
  /* Functions that read and write the matrix as if it were at `wide`; the context is this struct. */
  tri_checkpoint_memory memory;
  tri_queue *queue;
  tri_dtype type;  /* wide type, in which values are read */
  tri_nf4_cut cut; /* shard of this rank */
  char *wide;      /* values of the whole matrix [cut.total], in scratch memory */
  char *whole;     /* codes of the whole matrix, in scratch memory; equal to `kept` if the shard is the whole matrix */
  char *kept;      /* codes of the shard, in scratch memory if this rank keeps only some bytes of them */
  /* Range of bytes of `kept` that this rank keeps, and their offset in `array`; unused if it keeps all. */
  tri_element_range some;
  char *array; /* array for the kept bytes; NULL: this rank keeps all codes */
  /* Offset of the layout of nf4.h, set if only some bytes are kept; not finite if an element is not finite. */
  float offset;
} tri_quantised;

/* Sets up matrix number `matrix` of this rank's matrices of entry number `entry`. *out must not move while its memory
 * is in use. */
void tri_quantised_set_up(const tri_executor *executor, int64_t entry, int64_t matrix, tri_quantised *out);

#endif
