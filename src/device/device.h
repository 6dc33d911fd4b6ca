/* A device: memory and kernels behind one table of functions.
 *
 * Nothing above this floor knows which device it runs on. Pointers given to kernels are device memory that came from
 * memory_create; on `reference` and `cpu` that is host memory. Conventions that hold for every kernel:
 *
 *  - Matrices are row-major and dense unless a leading dimension (`ld...`, in elements) is given.
 *  - `type` is the type of activations and of their gradients (fp32, bf16 or fp64). "wide" is tri_dtype_wide(type):
 *    parameters, gradients of parameters, row statistics and losses have that type. Arithmetic is done in the wide
 *    type or better; a bf16 result is rounded to nearest even once, when it is stored.
 *  - `accumulate` adds to the output instead of writing it.
 *  - The result does not depend on the number of threads, and two calls on equal inputs give equal bits.
 *  - An output may be the same buffer as an input only where a comment says "in place".
 *  - A kernel writes its output and nothing else; it reads nothing beyond its inputs.
 *  - Row counts of zero are legal and do nothing.
 *
 * An empty slot in the table means "not supported" and the callers say so by the kernel's name.
 *
 * Letters: R rows (tokens), C width, V vocabulary, B batch, T positions, H heads, G key/value heads, D head size. */
#ifndef TRI_DEVICE_DEVICE_H
#define TRI_DEVICE_DEVICE_H

#include "base/random.h"
#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_device tri_device;

/* c[m,n] (+)= a[m,k] * b[k,n] (+ bias[n]), accumulated in fp32 or better.
 * a is stored [m,k] with leading dimension lda, or, if a_transposed, [k,m]; b is stored [k,n], or, if b_transposed,
 * [n,k]. `bias` is wide. With b_packed, b is a buffer that matmul_pack filled and ldb is ignored. */
typedef struct tri_matmul {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  tri_dtype a_type, b_type, c_type;
  bool a_transposed, b_transposed;
  bool b_packed;
  bool b_passing;  /* b is there only now and then, so nobody packs it ahead; means nothing to matmul */
  bool accumulate; /* never together with bias */
  bool bias;
} tri_matmul;

/* Exact causal self-attention. Query i of `queries` sees keys 0 .. keys - queries + i: in training queries == keys, in
 * generation the keys of earlier positions come from a cache. Head h uses key/value head h / (heads / kv_heads).
 * The element of query head h, position t, batch b, component d is q[b * q_batch + t * q_position + h * head_dim + d];
 * likewise k and v with their strides and kv head. `out` and its gradient are dense [B, queries, H, D]. */
typedef struct tri_attention {
  tri_dtype type;
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t q_batch, q_position, k_batch, k_position, v_batch, v_position; /* strides in elements */
  double scale;                                                          /* 1 / sqrt(head_dim)  */
} tri_attention;

typedef enum tri_gelu { TRI_GELU_TANH, TRI_GELU_ERF } tri_gelu;

typedef struct tri_adamw {
  double lr, beta1, beta2, eps, weight_decay;
  double gradient_scale; /* multiplies the gradient first: clipping                       */
  int64_t step;          /* 1 for the first update; bias corrections are 1 - beta^step     */
} tri_adamw;

typedef struct tri_device_kernels {
  /* ---- memory ------------------------------------------------------------------------------------------------ */

  /* Zeroed memory aligned to at least 64 bytes, all pages touched (from the threads that will use them). */
  tri_status (*memory_create)(tri_device *device, size_t bytes, void **out);
  void (*memory_destroy)(tri_device *device, void *memory, size_t bytes);
  tri_status (*copy_in)(tri_device *device, void *to_device, const void *from_host, size_t bytes);
  tri_status (*copy_out)(tri_device *device, void *to_host, const void *from_device, size_t bytes);

  /* ---- matrix products --------------------------------------------------------------------------------------- */

  /* Bytes of scratch memory that matmul wants for this product (0 is common). */
  tri_status (*matmul_workspace)(tri_device *device, const tri_matmul *product, size_t *bytes);
  /* Bytes of a packed b for this product (its lda, ldc and m guide the choice of the layout), or 0 where packing is
   * not supported or does not pay: pack then must not be called, and matmul takes b plain, in b_type or wide. */
  tri_status (*matmul_packed)(tri_device *device, const tri_matmul *product, size_t *bytes);
  /* Packs b, stored plainly as `product` says but of type b_plain_type, into `packed` of product->b_type. */
  tri_status (*matmul_pack)(tri_device *device, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                            void *packed);
  tri_status (*matmul)(tri_device *device, const tri_matmul *product, const void *a, const void *b, const void *bias,
                       void *c, void *workspace);

  /* ---- rows and elements ------------------------------------------------------------------------------------- */

  tri_status (*fill_zero)(tri_device *device, size_t bytes, void *out);
  tri_status (*convert)(tri_device *device, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out);
  /* out = a + b; out may be a or b (in place). */
  tri_status (*add)(tri_device *device, tri_dtype type, int64_t count, const void *a, const void *b, void *out);
  /* out[C] (+)= sum over the rows of in[R,C]; out is wide. */
  tri_status (*column_sum)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const void *in, void *out,
                           bool accumulate);

  /* out[R,C] = table[ids[r] - first_id] (+ positions[(first_position + r) % period]), table[table_rows,C] and
   * positions wide, positions may be NULL. An id outside [first_id, first_id + table_rows) gives a row of zeros
   * (before the position is added): it belongs to another rank's slice of the vocabulary. */
  tri_status (*embedding_forward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const int32_t *ids,
                                  int64_t first_id, int64_t table_rows, const void *table, int64_t first_position,
                                  int64_t period, const void *positions, void *out);
  /* gradient_table[ids[r] - first_id] += gradient[r]; always accumulates; ids outside the slice are skipped. */
  tri_status (*embedding_backward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const int32_t *ids,
                                   int64_t first_id, int64_t table_rows, const void *gradient, void *gradient_table);
  /* gradient_positions[(first_position + r) % period] (+)= gradient[r]; period rows of gradient_positions are written
   * (those that no row meets become zero unless accumulating). */
  tri_status (*position_backward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                  int64_t first_position, int64_t period, const void *gradient,
                                  void *gradient_positions, bool accumulate);

  /* y = (x - mean) * rstd * weight + bias over each row; mean[R] and rstd[R] (wide) are written. bias may be NULL. */
  tri_status (*layer_norm_forward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, double eps,
                                   const void *x, const void *weight, const void *bias, void *y, void *mean,
                                   void *rstd);
  /* gradient_x may be gradient_y (in place) when not accumulating. */
  tri_status (*layer_norm_backward_input)(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                          const void *gradient_y, const void *x, const void *weight, const void *mean,
                                          const void *rstd, void *gradient_x, bool accumulate);
  /* gradient_bias may be NULL. */
  tri_status (*layer_norm_backward_weight)(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                           const void *gradient_y, const void *x, const void *mean, const void *rstd,
                                           void *gradient_weight, void *gradient_bias, bool accumulate);

  /* y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps). */
  tri_status (*rms_norm_forward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, double eps,
                                 const void *x, const void *weight, void *y, void *rstd);
  tri_status (*rms_norm_backward_input)(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                        const void *gradient_y, const void *x, const void *weight, const void *rstd,
                                        void *gradient_x, bool accumulate);
  tri_status (*rms_norm_backward_weight)(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                         const void *gradient_y, const void *x, const void *rstd, void *gradient_weight,
                                         bool accumulate);

  /* GELU: tanh is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), erf is 0.5 x (1 + erf(x / sqrt 2)). */
  tri_status (*gelu_forward)(tri_device *device, tri_dtype type, tri_gelu variant, int64_t count, const void *x,
                             void *y);
  /* In place: gradient_x may be gradient_y. */
  tri_status (*gelu_backward)(tri_device *device, tri_dtype type, tri_gelu variant, int64_t count, const void *x,
                              const void *gradient_y, void *gradient_x);
  /* x[R, 2C] holds gate then up in each row; y[R,C] = silu(gate) * up. */
  tri_status (*swiglu_forward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const void *x, void *y);
  tri_status (*swiglu_backward)(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const void *x,
                                const void *gradient_y, void *gradient_x);

  /* y = x / (1 - probability) where tri_random_u32(key, first_index + i) >= probability * 2^32, else 0. The same call
   * on a gradient is its backward. In place: y may be x. */
  tri_status (*dropout)(tri_device *device, tri_dtype type, int64_t count, double probability, tri_random_key key,
                        uint64_t first_index, const void *x, void *y);

  /* Rotary embedding, in place, of `heads` consecutive heads from the start of each row of x (row stride
   * row_elements): pairs (d, d + D/2) of each head turn by +angle, or by -angle if `inverse` (the backward). Row r is
   * at position first_position + r % period; cosine and sine are [positions, D/2], wide. */
  tri_status (*rope)(tri_device *device, tri_dtype type, int64_t rows, int64_t row_elements, int64_t heads,
                     int64_t head_dim, int64_t first_position, int64_t period, const void *cosine, const void *sine,
                     bool inverse, void *x);

  /* ---- attention --------------------------------------------------------------------------------------------- */

  /* Bytes of scratch for both directions. Never grows with queries x keys. */
  tri_status (*attention_workspace)(tri_device *device, const tri_attention *call, size_t *bytes);
  /* out[B,Tq,H,D]; log_sum_exp[B,H,Tq] (wide) of the scaled scores, or NULL where no backward follows. */
  tri_status (*attention_forward)(tri_device *device, const tri_attention *call, const void *q, const void *k,
                                  const void *v, void *out, void *log_sum_exp, void *workspace);
  /* Gradients of q, k and v with the strides of q, k and v; written, not accumulated. */
  tri_status (*attention_backward)(tri_device *device, const tri_attention *call, const void *q, const void *k,
                                   const void *v, const void *out, const void *log_sum_exp, const void *gradient_out,
                                   void *gradient_q, void *gradient_k, void *gradient_v, void *workspace);

  /* ---- loss -------------------------------------------------------------------------------------------------- */

  /* Of each row of logits[R, V] (wide, leading dimension ld): its maximum, the sum of exp(logit - maximum), and the
   * logit of labels[r] - first_id (0 where that is outside [0, V): another rank's slice, or ignored). Outputs are [R],
   * wide. */
  tri_status (*softmax_statistics)(tri_device *device, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                   const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                   void *sum, void *label_logit);
  /* sum[r] *= exp(from[r] - to[r]): sums of exponentials less one maximum as sums less another. */
  tri_status (*softmax_rescale)(tri_device *device, tri_dtype type, int64_t rows, const void *from, const void *to,
                                void *sum);
  /* losses[r] = log(sum) + maximum - label_logit, or 0 where labels[r] == ignore_index. */
  tri_status (*softmax_loss)(tri_device *device, tri_dtype type, int64_t rows, const int32_t *labels,
                             int32_t ignore_index, const void *maximum, const void *sum, const void *label_logit,
                             void *losses);
  /* gradient[r, v] = scale * (exp(logit - maximum) / sum - (v == labels[r] - first_id)), zeros where labels[r] ==
   * ignore_index. The gradient has `type` and leading dimension gradient_ld (in elements of type). It may lie in the
   * logits' own memory, each row at the start of its row of logits. */
  tri_status (*softmax_gradient)(tri_device *device, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 const void *logits, const int32_t *labels, int64_t first_id, int32_t ignore_index,
                                 double scale, const void *maximum, const void *sum, int64_t gradient_ld,
                                 void *gradient);

  /* ---- optimizer --------------------------------------------------------------------------------------------- */

  /* Decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW. All arrays are wide(type)[count]. */
  tri_status (*adamw)(tri_device *device, tri_dtype type, int64_t count, const tri_adamw *options, void *parameter,
                      const void *gradient, void *moment1, void *moment2);
  /* out[i] (host) = sum of squares, in double, of elements [i * block, (i + 1) * block) of in, for all ceil(count /
   * block); not finite if any element is not. */
  tri_status (*block_squares)(tri_device *device, tri_dtype type, int64_t count, int64_t block, const void *in,
                              double *out);
  /* *out (host) = sum in double of wide values, in an order that depends on count alone. */
  tri_status (*sum)(tri_device *device, tri_dtype type, int64_t count, const void *in, double *out);

  /* ---- itself ------------------------------------------------------------------------------------------------ */

  /* The most FLOP/s that its arithmetic units could do on values of this type; measured, takes a fraction of a second.
   * Optional: without it the fastest matrix product counts as the peak (engine/peak.h). */
  tri_status (*peak_flops)(tri_device *device, tri_dtype type, double *out);
} tri_device_kernels;

struct tri_device {
  const char *name; /* "cpu avx512", "reference" */
  const tri_device_kernels *kernels;
  int threads;
  size_t memory_bytes, memory_peak_bytes; /* held through tri_device_memory_create now, and at most */
  void *state;                            /* the device's own */
  void (*destroy)(tri_device *device);
};

/* Creates a device by its configured name: "auto" (the best there is), "cpu" or "reference". threads 0 takes all cores
 * that this process may use. An unknown name lists the known ones. Release with tri_device_destroy. */
tri_status tri_device_create(const char *name, int threads, tri_device **out);
void tri_device_destroy(tri_device *device);

/* memory_create and memory_destroy of the table, counted: the one way to them for all floors above. NULL is ignored.
 * A device that is given up while it counts memory as held says so. */
tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out);
void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes);

/* LOCAL. Whether the device can train with these activations; the message names what it can. */
tri_status tri_device_supports(const tri_device *device, tri_dtype activations);

#endif
