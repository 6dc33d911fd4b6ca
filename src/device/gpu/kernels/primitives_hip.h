/* The functions of primitives.h in HIP, for hipRTC. hipRTC declares HIP's own names (threadIdx, __shfl_xor, exp, ...)
 * without an include. */
#ifndef TRI_DEVICE_GPU_KERNELS_PRIMITIVES_HIP_H
#define TRI_DEVICE_GPU_KERNELS_PRIMITIVES_HIP_H

#define DEVICE static __device__ __forceinline__
/* primitives_cuda.h has the specification of each macro and function. */
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(name##_threads) name(const name##_arguments a)
#define SHARED(type, name)                                                                                             \
  __shared__ type name##_memory_;                                                                                      \
  type *const name = &name##_memory_
#define SHARED_ASKED(type, name)                                                                                       \
  extern __shared__ __attribute__((aligned(16))) unsigned char asked_memory_[];                                        \
  type *const name = (type *)(void *)asked_memory_
#define UNROLL _Pragma("unroll")

/* Threads of a wavefront. rtc.c defines TRI_GPU_WARP from the chip's name and checks the number in the compiled code,
 * because the compiler's own macros for this number differ by version. */
enum { WARP = TRI_GPU_WARP };

/* The compiler's vector type instead of HIP's uint4, which is a class that a union may contain only in some
 * versions. */
typedef unsigned sixteen_bytes __attribute__((ext_vector_type(4), may_alias));

DEVICE int thread(void) { return (int)threadIdx.x; }
DEVICE int threads(void) { return (int)blockDim.x; }
DEVICE int lane(void) { return (int)threadIdx.x % WARP; }
DEVICE int warp(void) { return (int)threadIdx.x / WARP; }
DEVICE int block_warps(void) { return (int)blockDim.x / WARP; }
DEVICE int64_t block_x(void) { return (int64_t)blockIdx.x; }
DEVICE int64_t block_y(void) { return (int64_t)blockIdx.y; }
DEVICE int64_t block_z(void) { return (int64_t)blockIdx.z; }
DEVICE int64_t blocks_x(void) { return (int64_t)gridDim.x; }

#define barrier() __syncthreads()
/* Lanes of a wavefront run in lockstep and see each other's shared memory in order. No instruction is needed, but the
 * compiler must not move memory accesses across this barrier. */
DEVICE void warp_barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

DEVICE float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
DEVICE uint32_t bits_of_float(float x) { return __float_as_uint(x); }
DEVICE uint64_t bits_of_double(double x) { return (uint64_t)__double_as_longlong(x); }

DEVICE float shuffle_float(float x, int mask) { return __shfl_xor(x, mask, WARP); }
DEVICE double shuffle_double(double x, int mask) { return __shfl_xor(x, mask, WARP); }
DEVICE int shuffle_int(int x, int mask) { return __shfl_xor(x, mask, WARP); }

DEVICE void copy_async(void *to_shared, const void *from) {
  *(sixteen_bytes *)to_shared = *(const sixteen_bytes *)from;
}
DEVICE void copy_async_commit(void) {}
#define copy_async_wait(pending) ((void)(pending))

#endif
