/* The number formats that tensors are kept in. */
#ifndef TRI_DEVICE_DTYPE_H
#define TRI_DEVICE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

typedef enum tri_dtype { TRI_FP32, TRI_BF16, TRI_FP64, TRI_INT32 } tri_dtype;

static inline size_t tri_dtype_bytes(tri_dtype type) { return type == TRI_BF16 ? 2 : type == TRI_FP64 ? 8 : 4; }

/* Parameters, their gradients, the optimizer's state and row statistics are kept in fp32 beside fp32 and bf16
 * activations, and in fp64 beside fp64 ones. This is "the wide type" of an activation type. */
static inline tri_dtype tri_dtype_wide(tri_dtype activations) { return activations == TRI_FP64 ? TRI_FP64 : TRI_FP32; }

const char *tri_dtype_name(tri_dtype type);

#endif
