/* Export of models in 4 bits, for transformers with bitsandbytes (four_bits.h): the matrices that
 * `adapter.quantise: nf4` keeps in 4 bits are written in 4 bits, with the same codes. Used by copy.c only. */
#ifndef TRI_CHECKPOINT_COPY_QUANTISED_H
#define TRI_CHECKPOINT_COPY_QUANTISED_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/merged.h"
#include "checkpoint/tensor_list.h"

/* Number of tensors of one matrix in 4 bits, and the longest name of such a tensor, in bytes. */
enum { TRI_QUANTISED_TENSORS = 6, TRI_QUANTISED_NAME_BYTES = TRI_PARAMETER_NAME_BYTES + 48 };

/* LOCAL. Checks the matrices of `list` that would be quantised. Fails with TRI_UNSUPPORTED if transformers would not
 * load one of them in 4 bits, or would load other values, and with TRI_BAD_USAGE if one is in 4 bits already. */
tri_status tri_copy_quantised_check(const tri_merged *from, const tri_tensor_list *list);

/* Describes the TRI_QUANTISED_TENSORS tensors of a matrix in 4 bits; writes their names, to which `out` points, to
 * `names`. */
void tri_copy_quantised_describe(const tri_parameter *matrix, char names[][TRI_QUANTISED_NAME_BYTES],
                                 tri_checkpoint_tensor *out);

/* LOCAL. Quantises values[count] of a matrix and saves its tensors; `type` is the type in which readers get the
 * dequantised values; `number` is the index of the matrix's first tensor in the save. */
tri_status tri_copy_quantised_save(tri_device *device, const tri_parameter *matrix, tri_dtype type, float *values,
                                   int64_t number, tri_checkpoint_saving *saving);

/* Adds `quantization_config` to the text of a config.json: frees *text, and sets it to the new text. */
tri_status tri_copy_quantised_add_config(const tri_model *model, const tri_tensor_list *list, tri_dtype type,
                                         char **text);

#endif
