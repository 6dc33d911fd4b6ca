#ifndef TRI_DEVICE_CPU_KERNELS_BY_TYPE_H
#define TRI_DEVICE_CPU_KERNELS_BY_TYPE_H

/* Calls the fp32 or the bf16 form of an always-inline function, so that `type` is a constant inside it. Use it inside a
 * parallel loop, around the work on one row or piece: the compiler outlines the body of a parallel loop before it
 * inlines anything, so a constant from outside would not reach it. */
#define BY_TYPE(function, ...)                                                                                         \
  do {                                                                                                                 \
    switch (type) {                                                                                                    \
      case TRI_BF16: function(TRI_BF16, __VA_ARGS__); break;                                                           \
      case TRI_FP32: function(TRI_FP32, __VA_ARGS__); break;                                                           \
      case TRI_FP64:                                                                                                   \
      case TRI_INT32: break; /* tri_device_supports excludes these types */                                            \
    }                                                                                                                  \
  } while (0)

#endif
