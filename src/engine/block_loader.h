/* Quantises a matrix to blocks (device/block_weights.h) while it is loaded.
 *
 * The values are written in order, as to memory of their own, into scratch memory of the arena, a strip of whole panels
 * or of whole blocks of inputs at a time (tri_block_strip). When the strip is full, the device quantises it. */
#ifndef TRI_ENGINE_BLOCK_LOADER_H
#define TRI_ENGINE_BLOCK_LOADER_H

#include "checkpoint/checkpoint.h"
#include "engine/executor.h"

typedef struct tri_block_loader {
  /* Functions that write the matrix as if it were at `scratch`, from the first element to the last; the context is this
   * struct. Reads return zeros, and NaN for the first element that is not finite, so that the caller's check of the
   * values finds it. */
  tri_checkpoint_memory memory;
  tri_queue *queue;
  tri_dtype type; /* wide type, in which values are written */
  tri_block_matrix matrix;
  bool in_out;
  char *scratch;  /* [strip]: values of the current strip */
  char *kept;     /* the matrix's blocks */
  int64_t strip;  /* elements of a strip, but for the last */
  int64_t done;   /* elements quantised so far */
  int64_t filled; /* elements of the current strip that are written */
  int64_t bad;    /* first element that is not finite; -1: all are */
} tri_block_loader;

/* Sets up matrix number `number` of this rank's matrices of entry number `entry`, which is in blocks. *out must not
 * move while its memory is in use. */
void tri_block_loader_set_up(const tri_executor *executor, int64_t entry, int64_t number, tri_block_loader *out);

/* Checks that the parameters of a table that are in blocks can be: that the device has the kernels and the activations
 * are wide, and that no rank has a part of a block. Fails with TRI_UNSUPPORTED or TRI_BAD_USAGE. */
tri_status tri_block_loader_check(const tri_parameter_table *table, tri_dtype precision, const tri_device *device);

/* Logs the number and the parameters of the matrices that stay in bf16 because their numbers of inputs are not
 * multiples of 32; logs nothing if there are no such matrices. */
void tri_block_loader_log(const tri_parameter_table *table);

#endif
