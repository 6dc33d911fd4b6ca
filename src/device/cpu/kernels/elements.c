/* Element by element: add, activations, dropout, rotation, conversion. All bound by memory, or by one exponential. */
#include "device/cpu/cpu.h"
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

/* Runs BODY over vectors (i, count) of [0, total), shared out over the device's threads in pieces of cache lines. */
enum { PIECE = 4096 };

#define PARALLEL_VECTORS(device, total, i, count, ...)                                                                 \
  _Pragma(                                                                                                             \
      "omp parallel for schedule(static) num_threads(device->threads) if (total > TRI_ALONE)") for (int64_t piece = 0; \
                                                                                                    piece < (total);   \
                                                                                                    piece += PIECE) {  \
    int64_t piece_end = piece + PIECE < (total) ? piece + PIECE : (total);                                             \
    FOR_VECTORS(i, count, piece, piece_end, __VA_ARGS__);                                                              \
  }

/* ---- add --------------------------------------------------------------------------------------------------------- */

INLINE void add_of(tri_dtype type, tri_device *device, int64_t total, const void *a, const void *b, void *out) {
  PARALLEL_VECTORS(device, total, i, count,
                   { vf_put(type, out, i, count, vf_get(type, a, i, count) + vf_get(type, b, i, count)); })
}

static tri_status add(tri_device *device, tri_dtype type, int64_t count, const void *a, const void *b, void *out) {
  BY_TYPE(add_of, device, count, a, b, out);
  return TRI_OK;
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

INLINE void convert_of(tri_dtype from, tri_dtype to, tri_device *device, int64_t total, const void *in, void *out) {
  PARALLEL_VECTORS(device, total, i, count, { vf_put(to, out, i, count, vf_get(from, in, i, count)); })
}

static tri_status convert(tri_device *device, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out) {
  if (from == to) return tri_cpu_copy(device, out, in, (size_t)count * tri_dtype_bytes(from));
  if (from == TRI_FP32 && to == TRI_BF16) {
    convert_of(TRI_FP32, TRI_BF16, device, count, in, out);
  } else if (from == TRI_BF16 && to == TRI_FP32) {
    convert_of(TRI_BF16, TRI_FP32, device, count, in, out);
  } else {
    return tri_fail(TRI_UNSUPPORTED, "the cpu does not convert %s to %s", tri_dtype_name(from), tri_dtype_name(to));
  }
  return TRI_OK;
}

/* ---- GELU -------------------------------------------------------------------------------------------------------- */

/* sqrt(2/pi), and 0.5 (1 + tanh u) is the sigmoid of 2u. */
#define GELU_ROOT 0.7978845608028654f
#define GELU_CUBE 0.044715f

INLINE vf gelu(tri_gelu variant, vf x) {
  if (variant == TRI_GELU_ERF) return x * vf_normal_cdf(x);
  vf u = GELU_ROOT * (x + GELU_CUBE * x * x * x);
  return x * vf_sigmoid(2.0f * u);
}

INLINE vf gelu_slope(tri_gelu variant, vf x) {
  if (variant == TRI_GELU_ERF) {
    return vf_normal_cdf(x) + x * 0.3989422804014327f * vf_exp(-0.5f * x * x);
  }
  vf u = GELU_ROOT * (x + GELU_CUBE * x * x * x);
  vf sigmoid = vf_sigmoid(2.0f * u);
  vf slope_u = GELU_ROOT * (1.0f + 3.0f * GELU_CUBE * x * x);
  return sigmoid + 2.0f * x * sigmoid * (1.0f - sigmoid) * slope_u;
}

INLINE void gelu_forward_of(tri_dtype type, tri_gelu variant, tri_device *device, int64_t total, const void *x,
                            void *y) {
  PARALLEL_VECTORS(device, total, i, count, { vf_put(type, y, i, count, gelu(variant, vf_get(type, x, i, count))); })
}

static tri_status gelu_forward(tri_device *device, tri_dtype type, tri_gelu variant, int64_t count, const void *x,
                               void *y) {
  if (variant == TRI_GELU_ERF) {
    BY_TYPE(gelu_forward_of, TRI_GELU_ERF, device, count, x, y);
  } else {
    BY_TYPE(gelu_forward_of, TRI_GELU_TANH, device, count, x, y);
  }
  return TRI_OK;
}

INLINE void gelu_backward_of(tri_dtype type, tri_gelu variant, tri_device *device, int64_t total, const void *x,
                             const void *gradient_y, void *gradient_x) {
  PARALLEL_VECTORS(device, total, i, count, {
    vf slope = gelu_slope(variant, vf_get(type, x, i, count));
    vf_put(type, gradient_x, i, count, vf_get(type, gradient_y, i, count) * slope);
  })
}

static tri_status gelu_backward(tri_device *device, tri_dtype type, tri_gelu variant, int64_t count, const void *x,
                                const void *gradient_y, void *gradient_x) {
  if (variant == TRI_GELU_ERF) {
    BY_TYPE(gelu_backward_of, TRI_GELU_ERF, device, count, x, gradient_y, gradient_x);
  } else {
    BY_TYPE(gelu_backward_of, TRI_GELU_TANH, device, count, x, gradient_y, gradient_x);
  }
  return TRI_OK;
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

INLINE void swiglu_forward_of(tri_dtype type, tri_device *device, int64_t rows, int64_t width, const void *x, void *y) {
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * width > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = r * 2 * width;
    FOR_VECTORS(c, count, 0, width, {
      vf gate = vf_get(type, x, at + c, count);
      vf up = vf_get(type, x, at + width + c, count);
      vf_put(type, y, r * width + c, count, gate * vf_sigmoid(gate) * up);
    });
  }
}

static tri_status swiglu_forward(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const void *x,
                                 void *y) {
  BY_TYPE(swiglu_forward_of, device, rows, width, x, y);
  return TRI_OK;
}

INLINE void swiglu_backward_of(tri_dtype type, tri_device *device, int64_t rows, int64_t width, const void *x,
                               const void *gradient_y, void *gradient_x) {
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * width > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = r * 2 * width;
    FOR_VECTORS(c, count, 0, width, {
      vf gate = vf_get(type, x, at + c, count);
      vf up = vf_get(type, x, at + width + c, count);
      vf dy = vf_get(type, gradient_y, r * width + c, count);
      vf sigmoid = vf_sigmoid(gate);
      vf_put(type, gradient_x, at + c, count, dy * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)));
      vf_put(type, gradient_x, at + width + c, count, dy * gate * sigmoid);
    });
  }
}

static tri_status swiglu_backward(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const void *x,
                                  const void *gradient_y, void *gradient_x) {
  BY_TYPE(swiglu_backward_of, device, rows, width, x, gradient_y, gradient_x);
  return TRI_OK;
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Philox 4x32-10 on as many blocks at once as there are lanes: words[w][l] is word w of block first + l. The same
 * function as tri_random_block, to the bit. */
INLINE void philox(tri_random_key key, uint64_t first, uint32_t words[4][LANES]) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  for (int l = 0; l < LANES; l++) {
    uint64_t block = first + (uint64_t)l;
    c0[l] = (uint32_t)block;
    c1[l] = (uint32_t)(block >> 32);
    c2[l] = key.c2;
    c3[l] = key.c3;
  }
  uint32_t k0 = key.k0, k1 = key.k1;
  for (int round = 0; round < 10; round++) {
    for (int l = 0; l < LANES; l++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * c0[l];
      uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[l];
      c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
      c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
      c1[l] = (uint32_t)p1;
      c3[l] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(words[0], c0, sizeof c0);
  memcpy(words[1], c1, sizeof c1);
  memcpy(words[2], c2, sizeof c2);
  memcpy(words[3], c3, sizeof c3);
}

enum { GROUP = 4 * LANES }; /* elements that one call of philox serves */

/* Elements [from, to) of one group of the stream, which begins at element `group * GROUP` of it. */
INLINE void dropout_group(tri_dtype type, tri_random_key key, uint64_t group, double threshold, float scale,
                          uint64_t first_index, int64_t total, const void *x, void *y) {
  uint32_t words[4][LANES];
  float factors[GROUP];
  philox(key, group * LANES, words);
  for (int e = 0; e < GROUP; e++) factors[e] = (double)words[e % 4][e / 4] >= threshold ? scale : 0.0f;
  uint64_t begin = group * GROUP;
  int64_t from = begin < first_index ? 0 : (int64_t)(begin - first_index);
  int64_t skip = begin < first_index ? (int64_t)(first_index - begin) : 0;
  int64_t to = from + GROUP - skip < total ? from + GROUP - skip : total;
  FOR_VECTORS(i, count, from, to, {
    vf factor = vf_get(TRI_FP32, factors, i - from + skip, count);
    vf kept = vf_get(type, x, i, count) * factor;
    vf_put(type, y, i, count, (vf)((vi)kept & (factor != 0.0f))); /* 0 even where x is not finite */
  });
}

INLINE void dropout_of(tri_dtype type, tri_device *device, int64_t total, double probability, tri_random_key key,
                       uint64_t first_index, const void *x, void *y) {
  uint64_t first_group = first_index / GROUP;
  int64_t groups = total == 0 ? 0 : (int64_t)((first_index + (uint64_t)total - 1) / GROUP - first_group) + 1;
  double threshold = probability * 0x1p32;
  float scale = (float)(1.0 / (1.0 - probability));
#pragma omp parallel for schedule(static) num_threads(device->threads) if (total > TRI_ALONE)
  for (int64_t g = 0; g < groups; g++) {
    dropout_group(type, key, first_group + (uint64_t)g, threshold, scale, first_index, total, x, y);
  }
}

static tri_status dropout(tri_device *device, tri_dtype type, int64_t count, double probability, tri_random_key key,
                          uint64_t first_index, const void *x, void *y) {
  BY_TYPE(dropout_of, device, count, probability, key, first_index, x, y);
  return TRI_OK;
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

INLINE void rope_of(tri_dtype type, tri_device *device, int64_t rows, int64_t row_elements, int64_t heads,
                    int64_t head_dim, int64_t first_position, int64_t period, const float *cosine, const float *sine,
                    float sign, void *x) {
  int64_t half = head_dim / 2;
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * row_elements > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    int64_t angle = (first_position + r % period) * half;
    for (int64_t h = 0; h < heads; h++) {
      int64_t at = r * row_elements + h * head_dim;
      FOR_VECTORS(d, count, 0, half, {
        vf c = vf_get(TRI_FP32, cosine, angle + d, count);
        vf s = vf_get(TRI_FP32, sine, angle + d, count) * sign;
        vf low = vf_get(type, x, at + d, count);
        vf high = vf_get(type, x, at + half + d, count);
        vf_put(type, x, at + d, count, low * c - high * s);
        vf_put(type, x, at + half + d, count, high * c + low * s);
      });
    }
  }
}

static tri_status rope(tri_device *device, tri_dtype type, int64_t rows, int64_t row_elements, int64_t heads,
                       int64_t head_dim, int64_t first_position, int64_t period, const void *cosine, const void *sine,
                       bool inverse, void *x) {
  BY_TYPE(rope_of, device, rows, row_elements, heads, head_dim, first_position, period, cosine, sine,
          inverse ? -1.0f : 1.0f, x);
  return TRI_OK;
}

void TRI_KERNEL(table_elements)(tri_device_kernels *table) {
  table->add = add;
  table->convert = convert;
  table->gelu_forward = gelu_forward;
  table->gelu_backward = gelu_backward;
  table->swiglu_forward = swiglu_forward;
  table->swiglu_backward = swiglu_backward;
  table->dropout = dropout;
  table->rope = rope;
}
