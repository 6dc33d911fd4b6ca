/* Matrices in 4 bits in a Hugging Face folder, as bitsandbytes and transformers write them.
 *
 * `NAME.weight` has the codes, two in a byte, the first in the upper half: U8 [bytes, 1]. Beside it lie
 *
 *   NAME.weight.absmax            the largest magnitude of each block: F32, or with double quantisation U8 codes
 *   NAME.weight.quant_map         the 16 numbers that codes stand for, F32
 *   NAME.weight.nested_absmax     with double quantisation: a scale for each 256 blocks, F32
 *   NAME.weight.nested_quant_map  and the 256 numbers that the codes of `absmax` stand for, F32
 *   NAME.weight.quant_state.bitsandbytes__nf4 (or __fp4)
 *                                 a JSON text as U8: shape and type of the matrix, sizes of blocks, the offset
 *
 * To all who read a folder such a matrix is one tensor, of the shape and type that the JSON text says, whose values are
 * what the codes stand for; the tensors beside it are not seen. What trains on a base in 4 bits takes the codes as they
 * are (tri_checkpoint_memory.take_codes), if they are of the kind that device/nf4.h has. The numbers of bitsandbytes'
 * nested_quant_map differ from machine to machine in the last bit; one that is ours but for rounding is taken for
 * ours. */
#ifndef TRI_CHECKPOINT_FOUR_BITS_H
#define TRI_CHECKPOINT_FOUR_BITS_H

#include "base/json_reader.h"
#include "checkpoint/safetensors.h"

#include <stdbool.h>

#define TRI_FOUR_BITS_ABSMAX ".absmax"
#define TRI_FOUR_BITS_MAP ".quant_map"
#define TRI_FOUR_BITS_NESTED_ABSMAX ".nested_absmax"
#define TRI_FOUR_BITS_NESTED_MAP ".nested_quant_map"
#define TRI_FOUR_BITS_STATE ".quant_state.bitsandbytes__"

typedef struct tri_four_bits tri_four_bits;

/* LOCAL. Makes one tensor of each matrix in 4 bits that the files have, in any of them. TRI_BAD_FILE if parts of one
 * are missing or contradict each other, TRI_UNSUPPORTED if they are of a kind that is not read. *out: what the tensors
 * then point to, [*count]; release with tri_free when the files are closed. */
tri_status tri_four_bits_find(tri_safetensors_file *files, int64_t num_files, tri_four_bits **out, int64_t *count);

/* LOCAL. Elements [first, first + count) of what the codes stand for, as `type`: fp32, bf16 or fp64. */
tri_status tri_four_bits_read(const tri_four_bits *matrix, tri_dtype type, int64_t first, int64_t count, void *out);

/* "nf4" or "fp4". */
const char *tri_four_bits_kind(const tri_four_bits *matrix);

/* Checks that the codes are of the kind that `adapter.quantise: nf4` makes: NF4 in blocks of 64 with double
 * quantisation. TRI_UNSUPPORTED says what they are instead. */
tri_status tri_four_bits_check_kind(const tri_four_bits *matrix);
/* LOCAL. All parts of such a matrix, laid out as in device/nf4.h (tri_nf4_layout_of). */
tri_status tri_four_bits_read_codes(const tri_four_bits *matrix, void *out);

/* Refuses a config.json whose `quantization_config` is not of weights in 4 bits of bitsandbytes: GPTQ's, AWQ's, those
 * in 8 bits. */
tri_status tri_four_bits_check_config(const tri_json_reader *from);

#endif
