/* The types of tensors in GGUF files, and conversions of their blocks from and to fp32.
 *
 * A *block* is the unit that is quantised as a whole: a fixed number of consecutive elements of a row, with their
 * scales, in a fixed number of bytes. Types of plain numbers have blocks of one element. Results of encoding and
 * decoding have the bits of ggml's reference functions (quantize_row_*_ref, dequantize_row_*). */
#ifndef TRI_GGUF_BLOCKS_H
#define TRI_GGUF_BLOCKS_H

#include "base/status.h"

#include <stdint.h>

/* Numbers of types in files. The table in blocks.c has all types. */
enum {
  TRI_GGUF_F32 = 0,
  TRI_GGUF_F16 = 1,
  TRI_GGUF_Q4_0 = 2,
  TRI_GGUF_Q4_1 = 3,
  TRI_GGUF_Q5_0 = 6,
  TRI_GGUF_Q5_1 = 7,
  TRI_GGUF_Q8_0 = 8,
  TRI_GGUF_Q4_K = 12,
  TRI_GGUF_Q5_K = 13,
  TRI_GGUF_Q6_K = 14,
  TRI_GGUF_BF16 = 30,
};

enum { TRI_GGUF_BLOCK_ELEMENTS = 256, TRI_GGUF_BLOCK_BYTES = 512 }; /* no type has larger blocks */

typedef void tri_gguf_encode_blocks(int64_t blocks, const float *in, uint8_t *out);
typedef void tri_gguf_decode_block(const uint8_t *in, float *out);

typedef struct tri_gguf_type {
  uint32_t number;
  const char *name;               /* ggml's name: "Q4_K" */
  int64_t elements, bytes;        /* size of a block */
  tri_gguf_encode_blocks *encode; /* NULL: tri_gguf_encode does not write this type */
  tri_gguf_decode_block *decode;  /* NULL: tri_gguf_decode does not read this type */
} tri_gguf_type;

/* Return a type by its number in files, or by ggml's name; NULL if it is unknown. */
const tri_gguf_type *tri_gguf_type_of(uint32_t number);
const tri_gguf_type *tri_gguf_type_named(const char *name);

/* Converts `blocks` blocks from fp32: in[blocks * type->elements], out[blocks * type->bytes]. The values must be
 * finite; others give unspecified blocks. Fails with TRI_UNSUPPORTED if the type cannot be written. */
tri_status tri_gguf_encode(const tri_gguf_type *type, int64_t blocks, const float *in, void *out);

/* Converts `blocks` blocks to fp32: in[blocks * type->bytes], out[blocks * type->elements]. Fails with TRI_UNSUPPORTED
 * if the type cannot be read; `name`, that of the file, is for the message. */
tri_status tri_gguf_decode(const tri_gguf_type *type, const char *name, int64_t blocks, const void *in, float *out);

#endif
