/* The parts of oneDNN that this program uses: layouts of matrices, reorders, GEMMs, and their execution. Only this file
 * and onednn.c depend on the differences between 2.x and 3.x: 2.x has memory descriptors by value, and needs the
 * descriptor of an operation to make that of its primitive; 3.x has opaque memory descriptors, and makes the descriptor
 * of a primitive directly. */
#ifndef TRI_DEVICE_CPU_ONEDNN_H
#define TRI_DEVICE_CPU_ONEDNN_H

#include "base/status.h"
#include "device/dtype.h"

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The layout of a matrix in memory. {0} is unset; a layout that is set must be destroyed. */
typedef struct tri_onednn_layout {
  dnnl_memory_desc_t desc;
  bool set;
} tri_onednn_layout;

/* Creates a layout with element (r, c) at r * row_stride + c * column_stride. fp32 and bf16 only. */
tri_status tri_onednn_layout_strided(tri_dtype type, int64_t rows, int64_t columns, int64_t row_stride,
                                     int64_t column_stride, tri_onednn_layout *out);
/* Creates the placeholder for a layout that oneDNN chooses; only for a GEMM's b. */
tri_status tri_onednn_layout_any(tri_dtype type, int64_t rows, int64_t columns, tri_onednn_layout *out);
/* Returns the number of columns of a panel if this layout of a matrix [rows, columns] has bf16 panels (reorder.h) with
 * a depth of 32; 0: it is another layout. */
int64_t tri_onednn_layout_panel(const tri_onednn_layout *layout, int64_t rows, int64_t columns);
size_t tri_onednn_layout_bytes(const tri_onednn_layout *layout);
void tri_onednn_layout_destroy(tri_onednn_layout *layout);

enum { TRI_ONEDNN_ARGUMENTS = 5 };

/* A primitive with the memory objects of its arguments. {0} is unset. */
typedef struct tri_onednn_primitive {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t arguments[TRI_ONEDNN_ARGUMENTS];
  int num_arguments;
  size_t scratch_bytes;
  char implementation[48]; /* oneDNN's name: "brg:avx512_core", "gemm:jit", "ref:any" */
} tri_onednn_primitive;

/* c[m,n] (+)= a[m,k] b[k,n] (+ bias[n]). If b has the layout `any`, oneDNN chooses its layout (chosen_b). The caller
 * passes scratch memory: oneDNN allocates nothing. */
typedef struct tri_onednn_product {
  const tri_onednn_layout *a, *b, *c;
  bool bias, accumulate;
  int64_t m, n, k; /* shape, for messages and for the check for a bug of oneDNN; n also for the bias */
} tri_onednn_product;

/* Returns whether the CPU has a matrix unit (AMX) that oneDNN uses. */
bool tri_onednn_matrix_unit(void);

/* Returns the number of threads, at most `threads`, for which a GEMM of depth k must be created so that its result does
 * not depend on the number of threads. On a matrix unit (AMX) oneDNN divides k of bf16 GEMMs among the threads if there
 * are 16 or more of them and k is above 1024; a primitive that was created for 15 threads runs on 15. */
int tri_onednn_product_threads(tri_dtype type, int64_t k, int threads);

/* Creates the primitive of a GEMM. Sets *chosen_b (may be NULL) to the layout of b. Fails with TRI_UNSUPPORTED if
 * oneDNN does not support the GEMM on this CPU, or might compute it wrongly. */
tri_status tri_onednn_product_create(dnnl_engine_t engine, const tri_onednn_product *product, tri_onednn_primitive *out,
                                     tri_onednn_layout *chosen_b);
/* Runs the GEMM; bias and scratch are ignored if the primitive does not use them. */
tri_status tri_onednn_product_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                  const void *b, const void *bias, void *c, void *scratch);
/* Runs the GEMM in one of several parallel threads, each with its own primitives. Returns oneDNN's status and sets no
 * message. */
dnnl_status_t tri_onednn_product_execute(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                         const void *b, const void *bias, void *c, void *scratch);

/* Create and run the copy of a matrix from one layout (and type) to another. */
tri_status tri_onednn_reorder_create(dnnl_engine_t engine, const tri_onednn_layout *from, const tri_onednn_layout *to,
                                     tri_onednn_primitive *out);
tri_status tri_onednn_reorder_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *from,
                                  void *to);

void tri_onednn_primitive_destroy(tri_onednn_primitive *primitive);

/* Fails with TRI_UNSUPPORTED, TRI_OUT_OF_MEMORY or TRI_INTERNAL and a message, unless oneDNN's status is success. */
tri_status tri_onednn_check(dnnl_status_t status, const char *what);

#endif
