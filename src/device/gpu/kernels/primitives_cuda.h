/* The functions of primitives.h in CUDA. */
#ifndef TRI_DEVICE_GPU_KERNELS_PRIMITIVES_CUDA_H
#define TRI_DEVICE_GPU_KERNELS_PRIMITIVES_CUDA_H

#define DEVICE static __device__ __forceinline__
/* A kernel whose arguments are `a`, a struct NAME_arguments, with blocks of NAME_threads. One block per processor is
 * the required minimum: without that setting, ptxas spills a few registers rather than reduce the number of blocks. */
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(name##_threads, 1) name(const name##_arguments a)
/* Defines `name`, a pointer to a `type` in the shared memory of the block, uninitialised. All declarations of a kernel
 * together may have 48 KiB. */
#define SHARED(type, name)                                                                                             \
  __shared__ type name##_memory_;                                                                                      \
  type *const name = &name##_memory_
/* Defines `name`, a pointer to the dynamic shared memory of the block (the launch's shared_bytes), which may be larger
 * and is aligned to 16 bytes. May occur once in a kernel. */
#define SHARED_ASKED(type, name)                                                                                       \
  extern __shared__ __align__(16) unsigned char asked_memory_[];                                                       \
  type *const name = (type *)(void *)asked_memory_
/* Unrolls the following loop, which has a fixed number of iterations and whose arrays must be in registers. */
#define UNROLL _Pragma("unroll")

enum { WARP = 32 };

typedef uint4 sixteen_bytes;

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
#define warp_barrier() __syncwarp()

DEVICE float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
DEVICE uint32_t bits_of_float(float x) { return __float_as_uint(x); }
DEVICE uint64_t bits_of_double(double x) { return (uint64_t)__double_as_longlong(x); }

/* Return the value of lane (own ^ mask) of the warp. */
DEVICE float shuffle_float(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE double shuffle_double(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE int shuffle_int(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

/* Starts an asynchronous copy of 16 bytes from device memory to shared memory; both addresses are aligned to 16 bytes.
 * copy_async_commit makes a group of this thread's copies so far, and copy_async_wait waits for all but the newest
 * `pending` groups (a constant). The bytes are then visible to this thread, and after a subsequent barrier to the other
 * threads. On chips before sm_80 the copy is not asynchronous. */
DEVICE void copy_async(void *to_shared, const void *from) {
#if __CUDA_ARCH__ >= 800
  unsigned to = (unsigned)__cvta_generic_to_shared(to_shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
  *(sixteen_bytes *)to_shared = *(const sixteen_bytes *)from;
#endif
}
DEVICE void copy_async_commit(void) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 800
#define copy_async_wait(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")
#else
#define copy_async_wait(pending) ((void)(pending))
#endif

#endif
