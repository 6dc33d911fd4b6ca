/* The number of threads of a kernel's blocks, from its row in a list TRI_GPU_KERNELS_MODULE: the constant NAME_threads.
 */
#ifndef TRI_DEVICE_GPU_KERNELS_THREADS_H
#define TRI_DEVICE_GPU_KERNELS_THREADS_H

#define TRI_GPU_THREADS(name, threads) name##_threads = threads,

#endif
