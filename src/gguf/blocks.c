/* One function for each type and direction, for one block each. In decoding, a product of the scale, in fp16, with
 * integers of a few bits is exact in fp32, except the last one of Q6_K, so that fused multiply-adds would not change
 * the results. In Q4_0 they would change codes; the build has -ffp-contract=off. */
#include "gguf/blocks.h"

#include "base/half.h"
#include "device/block_weights.h"
#include "device/dtype.h"

#include <stddef.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF files are little-endian, and so must the machine be"
#endif

enum { SMALL = 32, HALF = SMALL / 2, SUPER = TRI_GGUF_BLOCK_ELEMENTS, K_SCALE_BYTES = 12 };

static float read_f16(const uint8_t *in) {
  uint16_t bits;
  memcpy(&bits, in, sizeof bits);
  return tri_float_of_f16(bits);
}

/* ---- plain numbers ----------------------------------------------------------------------------------------------- */

static void encode_f32(int64_t count, const float *in, uint8_t *out) { memcpy(out, in, (size_t)count * sizeof *in); }
static void decode_f32(const uint8_t *in, float *out) { memcpy(out, in, sizeof *out); }

static void encode_f16(int64_t count, const float *in, uint8_t *out) {
  for (int64_t i = 0; i < count; i++) {
    const uint16_t bits = tri_f16_of(in[i]);
    memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

static void decode_f16(const uint8_t *in, float *out) { *out = read_f16(in); }

static void encode_bf16(int64_t count, const float *in, uint8_t *out) {
  for (int64_t i = 0; i < count; i++) {
    const uint16_t bits = tri_bf16_of(in[i]);
    memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

static void decode_bf16(const uint8_t *in, float *out) {
  const uint32_t bits = (uint32_t)in[1] << 24 | (uint32_t)in[0] << 16;
  memcpy(out, &bits, sizeof *out);
}

/* ---- blocks of 32 ------------------------------------------------------------------------------------------------ */

/* Q8_0: a scale in fp16, 32 signed codes. */
static void encode_q8_0(int64_t blocks, const float *in, uint8_t *out) {
  int8_t codes[SMALL];
  for (int64_t b = 0; b < blocks; b++, in += SMALL, out += 2 + SMALL) {
    const uint16_t scale = tri_block_encode(TRI_BLOCKS_Q8_0, in, codes);
    memcpy(out, &scale, sizeof scale);
    memcpy(out + 2, codes, sizeof codes);
  }
}

static void decode_q8_0(const uint8_t *in, float *out) {
  const float scale = read_f16(in);
  for (int i = 0; i < SMALL; i++) out[i] = (float)(int8_t)in[2 + i] * scale;
}

/* Q4_0: a scale in fp16, 16 bytes of codes, whose low halves are elements 0 to 15 and high halves 16 to 31. A code of 8
 * is 0. The value of the largest magnitude has code 0, so that the scale has the other sign. */
static void encode_q4_0(int64_t blocks, const float *in, uint8_t *out) {
  int8_t codes[SMALL];
  for (int64_t b = 0; b < blocks; b++, in += SMALL, out += 2 + HALF) {
    const uint16_t scale = tri_block_encode(TRI_BLOCKS_Q4_0, in, codes);
    memcpy(out, &scale, sizeof scale);
    for (int i = 0; i < HALF; i++) out[2 + i] = (uint8_t)((codes[i] + 8) | (codes[HALF + i] + 8) << 4);
  }
}

/* Decodes codes of 5 bits to (code - zero) * scale + minimum: the low 4 bits are in the order of Q4_0, and bit i of
 * `high` is bit 4 of the code of element i. */
static void decode_codes(const uint8_t *codes, uint32_t high, float scale, int zero, float minimum, float *out) {
  for (int i = 0; i < HALF; i++) {
    const int low = (codes[i] & 15) | (int)(high >> i & 1) << 4;
    const int upper = codes[i] >> 4 | (int)(high >> (HALF + i) & 1) << 4;
    out[i] = (float)(low - zero) * scale + minimum;
    out[HALF + i] = (float)(upper - zero) * scale + minimum;
  }
}

static uint32_t high_bits(const uint8_t *in) {
  uint32_t bits;
  memcpy(&bits, in, sizeof bits);
  return bits;
}

static void decode_q4_0(const uint8_t *in, float *out) { decode_codes(in + 2, 0, read_f16(in), 8, -0.0f, out); }

/* Q4_1: scale and minimum in fp16, codes as in Q4_0. */
static void decode_q4_1(const uint8_t *in, float *out) {
  decode_codes(in + 4, 0, read_f16(in), 0, read_f16(in + 2), out);
}

/* Q5_0 and Q5_1: as Q4_0 and Q4_1, with bits 4 of all codes before the codes. */
static void decode_q5_0(const uint8_t *in, float *out) {
  decode_codes(in + 6, high_bits(in + 2), read_f16(in), 16, -0.0f, out);
}

static void decode_q5_1(const uint8_t *in, float *out) {
  decode_codes(in + 8, high_bits(in + 4), read_f16(in), 0, read_f16(in + 2), out);
}

/* ---- blocks of 256 ----------------------------------------------------------------------------------------------- */

/* Unpacks scale and minimum, 6 bits each, of part 0 to 7 of a block of Q4_K or Q5_K. Bytes 0 to 3 have the scales of
 * parts 0 to 3 and bytes 4 to 7 their minimums. Parts 4 to 7 have their low 4 bits in bytes 8 to 11, and their high 2
 * bits in those that the parts 0 to 3 leave free. */
static void unpack_scale(const uint8_t packed[K_SCALE_BYTES], int part, int *scale, int *minimum) {
  if (part < 4) {
    *scale = packed[part] & 63;
    *minimum = packed[4 + part] & 63;
  } else {
    *scale = (packed[4 + part] & 15) | packed[part - 4] >> 6 << 4;
    *minimum = packed[4 + part] >> 4 | packed[part] >> 6 << 4;
  }
}

/* Q4_K: scale and scale of minimums in fp16, packed scales, codes; 8 parts of 32 elements. Parts 2p and 2p + 1 have the
 * low and the high halves of 32 bytes. In Q5_K bit `part` of high[i] is bit 4 of the code of element i of a part;
 * `high` is NULL for Q4_K. */
static void decode_k(const uint8_t *in, const uint8_t *high, const uint8_t *codes, float *out) {
  const float scale = read_f16(in), minimum = read_f16(in + 2);
  for (int part = 0; part < 8; part++) {
    int own_scale = 0, own_minimum = 0;
    unpack_scale(in + 4, part, &own_scale, &own_minimum);
    const float factor = scale * (float)own_scale, less = minimum * (float)own_minimum;
    for (int i = 0; i < 32; i++) {
      const int fifth = high == NULL ? 0 : high[i] >> part & 1;
      const int code = (codes[part / 2 * 32 + i] >> part % 2 * 4 & 15) | fifth << 4;
      out[part * 32 + i] = factor * (float)code - less;
    }
  }
}

static void decode_q4_k(const uint8_t *in, float *out) { decode_k(in, NULL, in + 4 + K_SCALE_BYTES, out); }

static void decode_q5_k(const uint8_t *in, float *out) {
  const uint8_t *high = in + 4 + K_SCALE_BYTES;
  decode_k(in, high, high + 32, out);
}

/* Q6_K: low 4 bits of the codes, high 2 bits, 16 signed scales of 16 elements each, a scale in fp16. A code of 32 is 0.
 * In each half of 128 elements, element i of quarter q has its low bits in the low (q < 2) or high half of byte
 * 32 (q % 2) + i of 64, and its high bits in bits 2q and 2q + 1 of byte i of 32. */
static void decode_q6_k(const uint8_t *in, float *out) {
  const uint8_t *low = in, *high = in + SUPER / 2, *scales = high + SUPER / 4;
  const float scale = read_f16(scales + 16);
  for (int group = 0; group < 16; group++) {
    const int half = group / 8, quarter = group / 2 % 4, begin = group % 2 * 16;
    const uint8_t *lows = low + half * 64 + quarter % 2 * 32 + begin, *highs = high + half * 32 + begin;
    const float factor = scale * (float)(int8_t)scales[group];
    for (int i = 0; i < 16; i++) {
      const int code = (lows[i] >> quarter / 2 * 4 & 15) | (highs[i] >> 2 * quarter & 3) << 4;
      out[group * 16 + i] = factor * (float)(code - 32);
    }
  }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const tri_gguf_type types[] = {
    {TRI_GGUF_F32, "F32", 1, 4, encode_f32, decode_f32},
    {TRI_GGUF_F16, "F16", 1, 2, encode_f16, decode_f16},
    {TRI_GGUF_Q4_0, "Q4_0", SMALL, 18, encode_q4_0, decode_q4_0},
    {TRI_GGUF_Q4_1, "Q4_1", SMALL, 20, NULL, decode_q4_1},
    {TRI_GGUF_Q5_0, "Q5_0", SMALL, 22, NULL, decode_q5_0},
    {TRI_GGUF_Q5_1, "Q5_1", SMALL, 24, NULL, decode_q5_1},
    {TRI_GGUF_Q8_0, "Q8_0", SMALL, 34, encode_q8_0, decode_q8_0},
    {9, "Q8_1", SMALL, 40, NULL, NULL},
    {10, "Q2_K", SUPER, 84, NULL, NULL},
    {11, "Q3_K", SUPER, 110, NULL, NULL},
    {TRI_GGUF_Q4_K, "Q4_K", SUPER, 144, NULL, decode_q4_k},
    {TRI_GGUF_Q5_K, "Q5_K", SUPER, 176, NULL, decode_q5_k},
    {TRI_GGUF_Q6_K, "Q6_K", SUPER, 210, NULL, decode_q6_k},
    {15, "Q8_K", SUPER, 292, NULL, NULL},
    {16, "IQ2_XXS", SUPER, 66, NULL, NULL},
    {17, "IQ2_XS", SUPER, 74, NULL, NULL},
    {18, "IQ3_XXS", SUPER, 98, NULL, NULL},
    {19, "IQ1_S", SUPER, 50, NULL, NULL},
    {20, "IQ4_NL", SMALL, 18, NULL, NULL},
    {21, "IQ3_S", SUPER, 110, NULL, NULL},
    {22, "IQ2_S", SUPER, 82, NULL, NULL},
    {23, "IQ4_XS", SUPER, 136, NULL, NULL},
    {24, "I8", 1, 1, NULL, NULL},
    {25, "I16", 1, 2, NULL, NULL},
    {26, "I32", 1, 4, NULL, NULL},
    {27, "I64", 1, 8, NULL, NULL},
    {28, "F64", 1, 8, NULL, NULL},
    {29, "IQ1_M", SUPER, 56, NULL, NULL},
    {TRI_GGUF_BF16, "BF16", 1, 2, encode_bf16, decode_bf16},
    {34, "TQ1_0", SUPER, 54, NULL, NULL},
    {35, "TQ2_0", SUPER, 66, NULL, NULL},
    {39, "MXFP4", SMALL, 17, NULL, NULL},
    {40, "NVFP4", 64, 36, NULL, NULL},
    {41, "Q1_0", 128, 18, NULL, NULL},
};

enum { TYPES = sizeof types / sizeof types[0] };

const tri_gguf_type *tri_gguf_type_of(uint32_t number) {
  for (int t = 0; t < TYPES; t++) {
    if (types[t].number == number) return &types[t];
  }
  return NULL;
}

const tri_gguf_type *tri_gguf_type_named(const char *name) {
  for (int t = 0; t < TYPES; t++) {
    if (strcmp(types[t].name, name) == 0) return &types[t];
  }
  return NULL;
}

tri_status tri_gguf_encode(const tri_gguf_type *type, int64_t blocks, const float *in, void *out) {
  if (type->encode == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "tensors of the type %s cannot be written; choose F32, F16, BF16, Q8_0 or Q4_0",
                    type->name);
  }
  type->encode(blocks, in, out);
  return TRI_OK;
}

tri_status tri_gguf_decode(const tri_gguf_type *type, const char *name, int64_t blocks, const void *in, float *out) {
  if (type->decode == NULL) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: tensors of the type %s cannot be read; take a GGUF file of another type, such as Q8_0, Q6_K "
                    "or Q4_K_M, or convert this one with llama.cpp's llama-quantize",
                    name, type->name);
  }
  for (int64_t b = 0; b < blocks; b++) type->decode((const uint8_t *)in + b * type->bytes, out + b * type->elements);
  return TRI_OK;
}
