/* Marks functions that the program and its kernels for GPUs share: they are written once, in the common subset of C and
 * C++, so that both compute the same bits. The program contains their text for the compilers of kernels
 * (cmake/gpu_kernels.cmake). */
#ifndef TRI_BASE_HOST_AND_GPU_H
#define TRI_BASE_HOST_AND_GPU_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__HIP__) || defined(__HIPCC_RTC__)
#define TRI_ON_GPU 1
#define TRI_HOST_AND_GPU static __device__ __forceinline__
/* Precedes a loop whose iterations depend on each other: unrolling it would only take registers. */
#define TRI_NOT_UNROLLED _Pragma("unroll 1")
#else
#define TRI_HOST_AND_GPU static inline
#define TRI_NOT_UNROLLED
#endif

#endif
