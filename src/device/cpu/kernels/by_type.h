#ifndef TRI_DEVICE_CPU_KERNELS_BY_TYPE_H
#define TRI_DEVICE_CPU_KERNELS_BY_TYPE_H

/* Calls the fp32 or the bf16 form of an always-inline function, so that `type` is a constant inside it. This goes
 * inside a parallel loop, around the work on one row or piece: what a parallel loop encloses becomes a function of its
 * own before anything is inlined, and no constant from outside reaches it. */
#define BY_TYPE(function, ...)                                                                                         \
  do {                                                                                                                 \
    switch (type) {                                                                                                    \
      case TRI_BF16: function(TRI_BF16, __VA_ARGS__); break;                                                           \
      case TRI_FP32: function(TRI_FP32, __VA_ARGS__); break;                                                           \
      case TRI_FP64:                                                                                                   \
      case TRI_INT32: break; /* tri_device_supports lets them not come so far */                                       \
    }                                                                                                                  \
  } while (0)

#endif
