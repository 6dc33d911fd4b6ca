/* A matrix of a base on its way into 4 bits (device/nf4.h).
 *
 * Its values are read as any tensor's are, front to back, into scratch memory of the arena; when the last of them is
 * there, the device makes codes of them, and the next matrix may lie in the same place. Readers get the values that the
 * codes stand for. Of a base that is in 4 bits already (checkpoint/four_bits.h) the codes are taken as they are.
 *
 * Every rank that holds a part of a matrix reads the whole, since blocks, and what blocks share, go on through it;
 * codes of the whole are made behind the values, and those of the part are taken from them. Readers then get the
 * elements of the part, and zeros behind them: enough to tell whether they are finite, as all of a matrix are or none.
 *
 * Under ZeRO 3 a rank keeps some bytes of the codes alone, which cannot be read by themselves: readers get zeros, or
 * what is not finite where the matrix is not. */
#ifndef TRI_ENGINE_QUANTISED_H
#define TRI_ENGINE_QUANTISED_H

#include "checkpoint/checkpoint.h"
#include "engine/executor.h"

typedef struct tri_quantised {
  tri_checkpoint_memory memory; /* of `wide` */
  tri_queue *queue;
  tri_dtype type; /* the wide one */
  tri_nf4_cut cut;
  char *wide;
  char *whole;            /* codes of the whole, in scratch memory; `kept` if the part is the whole */
  char *kept;             /* codes of the part; in scratch memory if some bytes of them alone are kept */
  tri_element_range some; /* those bytes of `kept`, and where they go; none: `kept` is where codes stay */
  char *array;
  float offset; /* of the codes: not finite if an element is not */
} tri_quantised;

/* Matrix number `matrix` of those that this rank has of entry number `entry`. Stays where it is while its memory is
 * used. */
void tri_quantised_set_up(const tri_executor *executor, int64_t entry, int64_t matrix, tri_quantised *out);

#endif
