/* Limits of the chips that kernels are compiled for in the tests. One line a chip, which a script may read too.
 *
 * NVIDIA: CUDA Programming Guide, "Compute Capabilities" (docs.nvidia.com/cuda/cuda-programming-guide, tables of
 * technical specifications); a kernel's arguments: the same, "__global__ function parameters" (4 KiB, more only with
 * newer drivers); without being asked for, a block has 48 KiB of shared memory.
 * AMD: "AMD Instinct MI200" instruction set architecture (LDS of 64 KiB, 512 vector registers a lane, half of them
 * accumulators), HIP programming model (1024 threads a block), hipModuleLaunchKernel (gridDim * blockDim < 2^32 along
 * each dimension). */
#ifndef TRI_TESTS_GPU_CHIPS_H
#define TRI_TESTS_GPU_CHIPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct chip {
  const char *architecture;
  int warp;
  uint32_t block_threads;
  size_t shared_declared; /* bytes of a block that a kernel may declare */
  size_t shared_bytes;    /* bytes of a block in all, declared and asked for */
  uint32_t grid_x, grid_yz;
  uint64_t grid_threads; /* along each dimension: blocks times threads */
  int thread_registers;  /* of 32 bits */
  int block_registers;   /* of 32 bits, of all threads of a block */
  size_t argument_bytes; /* largest size of a kernel's arguments */
} chip;

/* clang-format off */
static const chip chips[] = {
    {"sm_80",   32, 1024, 48 << 10, 163 << 10, 2147483647u, 65535, UINT64_MAX, 255, 65536,  4096},
    {"sm_90a",  32, 1024, 48 << 10, 227 << 10, 2147483647u, 65535, UINT64_MAX, 255, 65536,  4096},
    {"sm_100a", 32, 1024, 48 << 10, 227 << 10, 2147483647u, 65535, UINT64_MAX, 255, 65536,  4096},
    {"gfx90a",  64, 1024, 64 << 10,  64 << 10, 2147483647u, 65535, UINT32_MAX, 512, 131072, 4096},
};
/* clang-format on */
enum { NUM_CHIPS = sizeof chips / sizeof chips[0] };

#endif
