#ifndef TRI_DEVICE_CPU_KERNELS_BY_TYPE_H
#define TRI_DEVICE_CPU_KERNELS_BY_TYPE_H

/* Calls the fp32 or the bf16 form of an always-inline function, so that `type` is a constant inside it. This goes
 * inside a parallel loop, around the work on one row or piece: what a parallel loop encloses becomes a function of its
 * own before anything is inlined, and no constant from outside reaches it. */
#define BY_TYPE(function, ...)                                                                                         \
  do {                                                                                                                 \
    if (type == TRI_BF16) {                                                                                            \
      function(TRI_BF16, __VA_ARGS__);                                                                                 \
    } else {                                                                                                           \
      function(TRI_FP32, __VA_ARGS__);                                                                                 \
    }                                                                                                                  \
  } while (0)

#endif
