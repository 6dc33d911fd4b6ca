/* The interface between attention.c, which checks calls and divides the work, and the vector code in
 * kernels/attention_*.c.
 *
 * The vector code is compiled once for each vector unit and, if the unit multiplies pairs of bf16 (AVX512-BF16), a
 * second time with such pairs. Every function below is one thread's task; tasks of one kind write disjoint memory, so
 * they may run in any order and on any thread without changing a bit of the result. */
#ifndef TRI_DEVICE_CPU_ATTENTION_H
#define TRI_DEVICE_CPU_ATTENTION_H

#include "device/description.h"

/* Number of queries or keys of a tile. */
#define TRI_ATTENTION_TILE 64

typedef struct tri_attention_forward {
  const tri_attention *call;
  const tri_attention_slice *slices;
  int64_t num_slices; /* number of slices up to the last one that is not empty */
  const void *q, *k, *v;
  void *out;
  float *log_sum_exp; /* [H, query_rows]; may be NULL */
} tri_attention_forward;

typedef struct tri_attention_backward {
  const tri_attention *call;
  const tri_attention_slice *slices;
  int64_t num_slices;
  const void *q, *k, *v, *out, *gradient_out;
  const float *log_sum_exp;
  void *gradient_q, *gradient_k, *gradient_v;
  float *delta; /* [H, query_rows]: sum over d of out * gradient_out; the function `delta` sets it, and the other
                   functions of the backward read it */
} tri_attention_backward;

typedef struct tri_attention_kernels {
  /* Return the bytes of one thread's scratch memory. `whole`: whether the memory is for backward_whole and
   * backward_shared, or else for backward_keys and backward_queries. */
  size_t (*forward_scratch)(const tri_attention *call);
  size_t (*backward_scratch)(const tri_attention *call, bool whole);

  /* Processes units first .. first + count - 1 of a slice and key/value head. Unit u is query tile u % tiles of the
   * head with index u / tiles among the heads that share the key/value head. */
  void (*forward)(const tri_attention_forward *job, int64_t slice, int64_t kv_head, int64_t first, int64_t count,
                  void *scratch);
  /* Processes a tile of rows of q through all slices; for calls whose slices share queries. */
  void (*forward_rows)(const tri_attention_forward *job, int64_t head, int64_t first, int64_t count, void *scratch);

  /* Sets job->delta for rows first .. first + count - 1 of a head. */
  void (*delta)(const tri_attention_backward *job, int64_t head, int64_t first, int64_t count);
  /* Computes all three gradients of a slice, for a key/value head and the heads that share it. */
  void (*backward_whole)(const tri_attention_backward *job, int64_t slice, int64_t kv_head, void *scratch);
  /* Computes all three gradients of all slices, for a key/value head and the heads that share it; for calls whose
   * slices share keys but not queries. */
  void (*backward_shared)(const tri_attention_backward *job, int64_t kv_head, void *scratch);
  /* Compute gradients that equal those of backward_whole and backward_shared to the bit. A call of the first
   * function computes the gradients of k and v for at most TRI_ATTENTION_TILE rows of keys, and a call of the second
   * one the gradient of q for at most TRI_ATTENTION_TILE rows of queries, both through the slices begin .. end - 1. */
  void (*backward_keys)(const tri_attention_backward *job, int64_t begin, int64_t end, int64_t kv_head, int64_t first,
                        int64_t count, void *scratch);
  void (*backward_queries)(const tri_attention_backward *job, int64_t begin, int64_t end, int64_t head, int64_t first,
                           int64_t count, void *scratch);
} tri_attention_kernels;

extern const tri_attention_kernels tri_attention_floats_baseline, tri_attention_floats_avx2,
    tri_attention_floats_avx512, tri_attention_pairs_avx512bf16;

/* Implement the functions of the device's table with the vector code `kernels`. job->num_slices is not read, because
 * the slices are counted again. They fail with TRI_UNSUPPORTED if the type is neither fp32 nor bf16, and with
 * TRI_INTERNAL if the call or its slices are not legal. */
tri_status tri_attention_workspace_with(const tri_attention_kernels *kernels, int threads, const tri_attention *call,
                                        size_t *bytes);
tri_status tri_attention_forward_with(const tri_attention_kernels *kernels, int threads,
                                      const tri_attention_forward *job, void *workspace);
/* job->delta is not read: a part of the workspace takes its place. */
tri_status tri_attention_backward_with(const tri_attention_kernels *kernels, int threads,
                                       const tri_attention_backward *job, void *workspace);

#endif
