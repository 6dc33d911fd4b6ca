/* Reads the description of kernels in the ELF files of AMD's compilers ("code objects"): a note with a map in
 * MessagePack. LLVM's "User Guide for AMDGPU Backend", section "Code Object V3 Metadata", describes the entries of
 * this map, which later versions have kept. */
#ifndef TRI_DEVICE_GPU_CODE_OBJECT_H
#define TRI_DEVICE_GPU_CODE_OBJECT_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_gpu_code_kernel {
  char name[64]; /* truncated to 63 characters */
  int registers; /* vector registers of 32 bits per thread, accumulators included */
  int scalar_registers;
  int warp, block_threads; /* warp: threads of a wavefront. block_threads: maximum number of threads of a block */
  size_t shared_bytes;     /* shared memory that the kernel declares */
  size_t private_bytes; /* private memory of a thread: spilled registers, and arrays that do not fit into registers */
  size_t argument_bytes;
} tri_gpu_code_kernel;

/* Sets *out to the kernels of a code object, in the file's order; release the array with tri_free. Fails with
 * TRI_BAD_FILE if the bytes are not a code object. */
tri_status tri_gpu_code_kernels(const void *image, size_t bytes, tri_gpu_code_kernel **out, int *count);

/* Prints a kernel's line of tri_gpu_compilation.show_resources, truncated to `room` bytes; returns the length of the
 * whole line. */
size_t tri_gpu_code_kernel_print(const tri_gpu_code_kernel *kernel, char *out, size_t room);

#endif
