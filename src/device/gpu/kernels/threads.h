/* Defines a constant NAME_threads for each kernel in a list TRI_GPU_KERNELS_MODULE: the number of threads of its
 * blocks. */
#ifndef TRI_DEVICE_GPU_KERNELS_THREADS_H
#define TRI_DEVICE_GPU_KERNELS_THREADS_H

#define TRI_GPU_THREADS(name, threads) name##_threads = threads,

#endif
