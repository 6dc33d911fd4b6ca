/* Weights in 4 bits (device/nf4.h), block by block.
 *
 * A frozen weight is dequantised before each of its GEMMs, so dequantising must be as fast as memory. A block has at
 * most 16 different values. They are multiplied and rounded once, and the block's 64 elements are looked up among them,
 * by one instruction for a whole register if the CPU has one. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include "base/dynamic_map.h"
#include "device/nf4.h"

#include <math.h>

enum {
  BLOCK = TRI_NF4_BLOCK,
  BLOCK_BYTES = TRI_NF4_BLOCK_BYTES,
  TOGETHER = 128 /* blocks that a thread processes at a time */
};

INLINE int64_t length_of(int64_t block, int64_t count) {
  return count - block * BLOCK < BLOCK ? count - block * BLOCK : BLOCK;
}

/* ---- to codes ---------------------------------------------------------------------------------------------------- */

/* Returns the largest magnitude. Magnitudes are compared by their bits, so that NaN is above infinity. */
INLINE float largest_of(tri_dtype type, const void *values, int64_t first, int64_t end) {
  vi most = {0};
  FOR_VECTORS(i, some, first, end, { most = vi_max(most, (vi)vf_get(type, values, i, some) & 0x7fffffff); });
  const int32_t bits = vi_highest(most);
  float largest;
  memcpy(&largest, &bits, sizeof largest);
  return largest;
}

INLINE void store_largest(tri_dtype type, int64_t count, const void *values, int64_t block, float *largest) {
  largest[block] = largest_of(type, values, block * BLOCK, block * BLOCK + length_of(block, count));
}

INLINE void quantise_block(tri_dtype type, int64_t count, const void *values, int64_t block, const float *middles,
                           uint8_t *codes) {
  const int64_t first = block * BLOCK, end = first + length_of(block, count);
  const float inverse = tri_nf4_inverse(largest_of(type, values, first, end));
  int32_t found[BLOCK];
  for (int i = 0; i < BLOCK; i++) found[i] = TRI_NF4_ZERO;
  FOR_VECTORS(i, some, first, end, {
    const vf x = vf_get(type, values, i, some) * inverse;
    vi code = {0};
    for (int m = 0; m < TRI_NF4_CODES - 1; m++) code -= x > middles[m];
    memcpy(found + (i - first), &code, (size_t)some * sizeof(int32_t));
  });
  for (int i = 0; i < BLOCK_BYTES; i++) codes[first / 2 + i] = (uint8_t)(found[2 * i] << 4 | found[2 * i + 1]);
}

/* Subtracts the mean of the blocks' largest magnitudes from each magnitude, and stores the mean in *offset. If the
 * mean is not finite, *offset and all magnitudes become NaN. */
static void subtract_mean(int64_t blocks, float *largest, float *offset) {
  const uint32_t none = TRI_NF4_NOT_A_NUMBER;
  const float mean = tri_nf4_mean(blocks, largest);
  const bool is_one = isfinite(mean);
  memcpy(offset, is_one ? (const void *)&mean : &none, sizeof *offset);
  for (int64_t b = 0; b < blocks; b++) {
    const float less = largest[b] - mean;
    memcpy(&largest[b], is_one ? (const void *)&less : &none, sizeof less);
  }
}

/* Quantises an array. The largest magnitudes are stored in the place of the codes, until they are encoded
 * themselves. */
static tri_status quantise_nf4(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept) {
  const tri_nf4_layout at = tri_nf4_layout_of(count);
  char *const begin = kept;
  float middles[TRI_NF4_CODES - 1];
  if (count == 0) return TRI_OK;
  for (int32_t c = 0; c < TRI_NF4_CODES - 1; c++) middles[c] = tri_nf4_middle(c);
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t b = 0; b < at.blocks; b++) BY_TYPE(store_largest, count, values, b, kept);
  subtract_mean(at.blocks, kept, (float *)(void *)(begin + at.offset));
  TRI_TRY(queue->device->kernels->quantise_blocks(queue, TRI_FP32, at.blocks, true, kept, (uint8_t *)begin + at.largest,
                                                  (float *)(void *)(begin + at.scales)));
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t b = 0; b < at.blocks; b++) BY_TYPE(quantise_block, count, values, b, middles, kept);
  return TRI_OK;
}

/* ---- from codes -------------------------------------------------------------------------------------------------- */

#if !defined(__AVX512BW__)
/* Multiplies numbers[16] by `largest` and rounds. */
INLINE void round_to_bf16(const float *numbers, float largest, uint16_t rounded[TRI_NF4_CODES]) {
  for (int c = 0; c < TRI_NF4_CODES; c += LANES)
    *(vh_memory *)(rounded + c) = vf_to_bf16_exactly(*(const vf_memory *)(numbers + c) * largest);
}
#endif

#if defined(__AVX512BW__)
/* Dequantises a block to bf16. Sixteen bytes of codes are expanded to words of 32 bits, whose halves have the upper and
 * the lower four bits of a byte. The instruction uses the lowest five bits of each half as an index, so the register
 * has the table twice. */
INLINE void block_of_bf16(const float *numbers, float largest, const uint8_t *codes, uint16_t *out) {
  const __m256i rounded = (__m256i)vf_to_bf16_exactly(*(const vf_memory *)numbers * largest);
  const __m512i table = _mm512_broadcast_i64x4(rounded);
  for (int i = 0; i < BLOCK_BYTES; i += 16) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)(codes + i)));
    const __m512i places = _mm512_or_si512(_mm512_srli_epi32(bytes, 4), _mm512_slli_epi32(bytes, 16));
    _mm512_storeu_si512(out + (ptrdiff_t)2 * i, _mm512_permutexvar_epi16(places, table));
  }
}

/* Dequantises a block to fp32 in the same way: eight bytes of codes are expanded to words of 64 bits, and the
 * instruction uses four bits of each half. */
INLINE void block_of_fp32(const float *numbers, float largest, const uint8_t *codes, float *out) {
  const __m512 table = (__m512)(*(const vf_memory *)numbers * largest);
  for (int i = 0; i < BLOCK_BYTES; i += 8) {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i_u *)(const void *)(codes + i)));
    const __m512i places = _mm512_or_si512(_mm512_srli_epi64(bytes, 4), _mm512_slli_epi64(bytes, 32));
    _mm512_storeu_ps(out + (ptrdiff_t)2 * i, _mm512_permutexvar_ps(places, table));
  }
}
#elif defined(__AVX2__)
/* Dequantises a block to bf16 with a table of the lower bytes of the values and one of the upper bytes. Codes are
 * expanded to bytes in the order of the elements. */
INLINE void block_of_bf16(const float *numbers, float largest, const uint8_t *codes, uint16_t *out) {
  uint16_t rounded[TRI_NF4_CODES];
  round_to_bf16(numbers, largest, rounded);
  const __m128i first = _mm_loadu_si128((const __m128i_u *)(const void *)rounded);
  const __m128i second = _mm_loadu_si128((const __m128i_u *)(const void *)(rounded + 8));
  const __m128i byte = _mm_set1_epi16(0xff);
  const __m256i lower =
      _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte)));
  const __m256i upper =
      _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8)));
  for (int i = 0; i < BLOCK_BYTES; i += 16) {
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i_u *)(const void *)(codes + i)));
    const __m256i places = _mm256_and_si256(_mm256_or_si256(_mm256_srli_epi16(bytes, 4), _mm256_slli_epi16(bytes, 8)),
                                            _mm256_set1_epi8(15));
    const __m256i low = _mm256_shuffle_epi8(lower, places), high = _mm256_shuffle_epi8(upper, places);
    const __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
    __m256i_u *to = (__m256i_u *)(void *)(out + (ptrdiff_t)2 * i);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

/* Dequantises a block to fp32. Four bytes of codes are expanded to words of 64 bits with an index in each half; bit 3
 * of an index selects one of two tables. */
INLINE void block_of_fp32(const float *numbers, float largest, const uint8_t *codes, float *out) {
  const __m256 first = (__m256)(*(const vf_memory *)numbers * largest);
  const __m256 second = (__m256)(*(const vf_memory *)(numbers + LANES) * largest);
  for (int i = 0; i < BLOCK_BYTES; i += 4) {
    int32_t four;
    memcpy(&four, codes + i, sizeof four);
    const __m256i bytes = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    const __m256i places = _mm256_or_si256(_mm256_srli_epi64(bytes, 4), _mm256_slli_epi64(bytes, 32));
    const __m256 low = _mm256_permutevar8x32_ps(first, places), high = _mm256_permutevar8x32_ps(second, places);
    const __m256 which = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));
    _mm256_storeu_ps(out + (ptrdiff_t)2 * i, _mm256_blendv_ps(low, high, which));
  }
}
#else
INLINE void block_of_bf16(const float *numbers, float largest, const uint8_t *codes, uint16_t *out) {
  uint16_t rounded[TRI_NF4_CODES];
  round_to_bf16(numbers, largest, rounded);
  for (int i = 0; i < BLOCK_BYTES; i++) {
    out[2 * i] = rounded[codes[i] >> 4];
    out[2 * i + 1] = rounded[codes[i] & 15];
  }
}

INLINE void block_of_fp32(const float *numbers, float largest, const uint8_t *codes, float *out) {
  float table[TRI_NF4_CODES];
  for (int c = 0; c < TRI_NF4_CODES; c++) table[c] = numbers[c] * largest;
  for (int i = 0; i < BLOCK_BYTES; i++) {
    out[2 * i] = table[codes[i] >> 4];
    out[2 * i + 1] = table[codes[i] & 15];
  }
}
#endif

INLINE void block_of(tri_dtype type, const float *numbers, float largest, const uint8_t *codes, void *out) {
  switch (type) {
    case TRI_BF16: block_of_bf16(numbers, largest, codes, out); break;
    case TRI_FP32: block_of_fp32(numbers, largest, codes, out); break;
    case TRI_FP64:
    case TRI_INT32: break; /* tri_device_supports excludes these types */
  }
}

typedef struct nf4_range {
  const tri_nf4_cut *cut;
  const uint8_t *codes, *largest_codes;
  const float *scales;
  char *values;
  int64_t first, end; /* range of the cut's elements */
  float offset, numbers[TRI_NF4_CODES], map[TRI_DYNAMIC_CODES];
} nf4_range;

/* Returns the largest magnitude of a block. The product and the sum are each rounded, because this file is compiled
 * without contraction (cmake/cpu_kernels.cmake). */
INLINE float largest_at(const nf4_range *s, int64_t block, int64_t whole) {
  return s->map[s->largest_codes[block]] * s->scales[whole / TRI_NF4_GROUP] + s->offset;
}

/* Dequantises the part of a kept block that is in the cut and requested. */
INLINE void dequantise_block(tri_dtype type, const nf4_range *s, int64_t block) {
  const tri_nf4_span span = tri_nf4_span_of(*s->cut, block);
  const int64_t first = span.local > s->first ? span.local : s->first;
  const int64_t end = span.local + span.count < s->end ? span.local + span.count : s->end;
  const size_t bytes = tri_dtype_bytes(type);
  const uint8_t *codes = s->codes + block * BLOCK_BYTES;
  char all[BLOCK * sizeof(float)];
  if (end <= first) return;
  char *out = s->values + (size_t)(first - s->first) * bytes;
  const bool whole = end - first == BLOCK;
  block_of(type, s->numbers, largest_at(s, block, span.whole), codes, whole ? out : all);
  if (!whole) memcpy(out, all + (size_t)(span.from + first - span.local) * bytes, (size_t)(end - first) * bytes);
}

/* Returns the index, among the kept blocks, of the block with element i of a cut. */
static int64_t block_at(const tri_nf4_cut *cut, int64_t i) {
  const int64_t row = i / cut->width, begin = tri_nf4_row_begin(*cut, row);
  return row * cut->row_blocks + (begin + i % cut->width) / BLOCK - begin / BLOCK;
}

static tri_status dequantise_nf4(tri_queue *queue, tri_dtype type, const tri_nf4_cut *cut, int64_t first, int64_t count,
                                 const void *kept, void *values) {
  const tri_nf4_layout at = tri_nf4_layout_of_cut(cut);
  const uint8_t *begin = kept;
  nf4_range s = {.cut = cut,
                 .codes = begin,
                 .largest_codes = begin + at.largest,
                 .scales = (const float *)(const void *)(begin + at.scales),
                 .values = values,
                 .first = first,
                 .end = first + count};
  if (count == 0) return TRI_OK;
  memcpy(&s.offset, begin + at.offset, sizeof s.offset);
  for (int32_t c = 0; c < TRI_NF4_CODES; c++) s.numbers[c] = tri_nf4_number(c);
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES; c++) s.map[c] = tri_dynamic_number(true, c);
  const int64_t first_block = block_at(cut, first), last_block = block_at(cut, first + count - 1);
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t b = first_block; b <= last_block; b++) BY_TYPE(dequantise_block, &s, b);
  return TRI_OK;
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

static tri_status cut_nf4(tri_queue *queue, const tri_nf4_cut *cut, const void *whole, void *kept) {
  const tri_nf4_layout from = tri_nf4_layout_of(cut->total), to = tri_nf4_layout_of_cut(cut);
  const uint8_t *in = whole;
  uint8_t *out = kept;
  if (cut->total == 0) return TRI_OK;
#pragma omp parallel for schedule(static, TOGETHER) num_threads(THREADS) if (cut->total > TRI_ALONE)
  for (int64_t b = 0; b < to.blocks; b++) {
    const int64_t block = tri_nf4_span_of(*cut, b).whole;
    memcpy(out + b * BLOCK_BYTES, in + block * BLOCK_BYTES, BLOCK_BYTES);
    out[to.largest + (size_t)b] = in[from.largest + (size_t)block];
  }
  memcpy(out + to.scales, in + from.scales, from.bytes - from.scales);
  return TRI_OK;
}

void TRI_KERNEL(table_nf4)(tri_device_kernels *table) {
  table->quantise_nf4 = quantise_nf4;
  table->cut_nf4 = cut_nf4;
  table->dequantise_nf4 = dequantise_nf4;
}
