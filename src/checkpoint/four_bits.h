/* Matrices in 4 bits in a Hugging Face folder, as bitsandbytes and transformers write them.
 *
 * `NAME.weight` has the codes, two in a byte, the first in the upper half: U8 [bytes, 1]. Its other tensors are
 *
 *   NAME.weight.absmax            the largest magnitude of each block: F32, or with double quantisation U8 codes
 *   NAME.weight.quant_map         the 16 values of the codes, F32
 *   NAME.weight.nested_absmax     with double quantisation: a scale for each 256 blocks, F32
 *   NAME.weight.nested_quant_map  with double quantisation: the 256 values of the codes of `absmax`, F32
 *   NAME.weight.quant_state.bitsandbytes__nf4 (or __fp4)
 *                                 a JSON text as U8: shape and type of the matrix, sizes of blocks, the offset
 *
 * Readers of a folder see such a matrix as one tensor with the shape and type of the JSON text, whose values are the
 * dequantised codes; its other tensors are hidden. A run on a base in 4 bits reads the codes themselves
 * (tri_checkpoint_memory.write_codes), if they are of the kind of device/nf4.h. The values of bitsandbytes'
 * nested_quant_map differ from machine to machine in the last bit; a map that equals ours up to rounding is read as
 * ours. */
#ifndef TRI_CHECKPOINT_FOUR_BITS_H
#define TRI_CHECKPOINT_FOUR_BITS_H

#include "checkpoint/safetensors.h"
#include "files/json_reader.h"

#include <stdbool.h>

#define TRI_FOUR_BITS_ABSMAX ".absmax"
#define TRI_FOUR_BITS_MAP ".quant_map"
#define TRI_FOUR_BITS_NESTED_ABSMAX ".nested_absmax"
#define TRI_FOUR_BITS_NESTED_MAP ".nested_quant_map"
#define TRI_FOUR_BITS_STATE ".quant_state.bitsandbytes__"

typedef struct tri_four_bits tri_four_bits;

/* LOCAL. Combines the tensors of each matrix in 4 bits, in any of the files, into one tensor. Fails with TRI_BAD_FILE
 * if parts are missing or contradict each other, with TRI_UNSUPPORTED if the kind is neither nf4 nor fp4. The tensors
 * then point into (*out)[*count]; release it with tri_free after closing the files. */
tri_status tri_four_bits_find(tri_safetensors_file *files, int64_t num_files, tri_four_bits **out, int64_t *count);

/* LOCAL. Reads the dequantised elements [first, first + count) as `type`: fp32, bf16 or fp64. */
tri_status tri_four_bits_read(const tri_four_bits *matrix, tri_dtype type, int64_t first, int64_t count, void *out);

/* Returns "nf4" or "fp4". */
const char *tri_four_bits_kind(const tri_four_bits *matrix);

/* Checks that the codes are of the kind that `adapter.quantise: nf4` makes: NF4 in blocks of 64 with double
 * quantisation. Fails with TRI_UNSUPPORTED; the message has their kind. */
tri_status tri_four_bits_check_kind(const tri_four_bits *matrix);
/* LOCAL. Reads all parts of a matrix that tri_four_bits_check_kind accepts into `out`, laid out as in device/nf4.h
 * (tri_nf4_layout_of). */
tri_status tri_four_bits_read_codes(const tri_four_bits *matrix, void *out);

/* Fails with TRI_UNSUPPORTED for a config.json whose `quantization_config` is not bitsandbytes' in 4 bits: GPTQ, AWQ,
 * weights in 8 bits. */
tri_status tri_four_bits_check_config(const tri_json_reader *from);

#endif
