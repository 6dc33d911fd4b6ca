/* What we use of oneDNN: layouts of matrices, reorders, products, and their execution. The one place (with onednn.c)
 * that knows that the 2.x and 3.x interfaces differ: 2.x keeps a memory descriptor by value and describes an operation
 * before its primitive, 3.x has opaque descriptors and does both at once. */
#ifndef TRI_DEVICE_CPU_ONEDNN_H
#define TRI_DEVICE_CPU_ONEDNN_H

#include "base/status.h"
#include "device/dtype.h"

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a matrix lies in memory. One that is all zero bytes is unset; every set one is destroyed. */
typedef struct tri_onednn_layout {
  dnnl_memory_desc_t desc;
  bool set;
} tri_onednn_layout;

/* Element (r, c) at r * row_stride + c * column_stride. fp32 and bf16 only. */
tri_status tri_onednn_layout_strided(tri_dtype type, int64_t rows, int64_t columns, int64_t row_stride,
                                     int64_t column_stride, tri_onednn_layout *out);
/* The layout that oneDNN itself likes best; only for a product's b. */
tri_status tri_onednn_layout_any(tri_dtype type, int64_t rows, int64_t columns, tri_onednn_layout *out);
size_t tri_onednn_layout_bytes(const tri_onednn_layout *layout);
void tri_onednn_layout_destroy(tri_onednn_layout *layout);

enum { TRI_ONEDNN_ARGUMENTS = 5 };

/* Something to execute, with the memory objects of its arguments. One that is all zero bytes is unset. */
typedef struct tri_onednn_primitive {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t arguments[TRI_ONEDNN_ARGUMENTS];
  int num_arguments;
  size_t scratch_bytes;
  char implementation[48]; /* as oneDNN calls it: "brg:avx512_core", "gemm:jit", "ref:any" */
} tri_onednn_primitive;

/* c[m,n] (+)= a[m,k] b[k,n] (+ bias[n]); b of layout `any` is chosen by oneDNN and can be asked for. TRI_UNSUPPORTED
 * where oneDNN has no such product on this CPU. Scratch memory is the caller's: oneDNN allocates nothing. */
typedef struct tri_onednn_product {
  const tri_onednn_layout *a, *b, *c;
  bool bias, accumulate;
  int64_t m, n, k; /* for messages, and n for the bias */
} tri_onednn_product;

/* The threads, `threads` at most, for which a product of this depth is to be created so that its result does not depend
 * on how many they are. On a matrix unit (AMX) oneDNN cuts k of bf16 products among threads where there are 16 or more
 * and each gets 1024 of it; a primitive that was created for 15 runs on 15. */
int tri_onednn_product_threads(tri_dtype type, int64_t k, int threads);

/* *chosen_b may be NULL. */
tri_status tri_onednn_product_create(dnnl_engine_t engine, const tri_onednn_product *product, tri_onednn_primitive *out,
                                     tri_onednn_layout *chosen_b);
/* In the order a, b, bias, c, scratch; bias and scratch are ignored if there are none. */
tri_status tri_onednn_product_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                  const void *b, const void *bias, void *c, void *scratch);
/* The same where threads must not say what is wrong: each runs primitives of its own, at one time. */
dnnl_status_t tri_onednn_product_execute(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                         const void *b, const void *bias, void *c, void *scratch);

/* Copies a matrix from one layout (and type) to another. */
tri_status tri_onednn_reorder_create(dnnl_engine_t engine, const tri_onednn_layout *from, const tri_onednn_layout *to,
                                     tri_onednn_primitive *out);
tri_status tri_onednn_reorder_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *from,
                                  void *to);

void tri_onednn_primitive_destroy(tri_onednn_primitive *primitive);

/* The message and TRI_UNSUPPORTED, TRI_OUT_OF_MEMORY or TRI_INTERNAL for a status of oneDNN; TRI_OK for success. */
tri_status tri_onednn_check(dnnl_status_t status, const char *what);

#endif
