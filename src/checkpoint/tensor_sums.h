/* Checksums of the tensors of a folder that records none, such as a plain Hugging Face folder. */
#ifndef TRI_CHECKPOINT_TENSOR_SUMS_H
#define TRI_CHECKPOINT_TENSOR_SUMS_H

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"

/* COLLECTIVE over the group. Sets sums[tri_checkpoint_num_tensors] to the checksums of all tensors. Each rank reads
 * some of the tensors. */
tri_status tri_tensor_sums(const tri_group *group, const tri_checkpoint *checkpoint, uint64_t *sums);

/* LOCAL. Returns a hash of the names, sizes and times of change of the checkpoint's files with tensors; if the hash is
 * as before, the files need not be read again. */
uint64_t tri_tensor_files_hash(const tri_checkpoint *checkpoint);

#endif
