/* The CPU device: kernels compiled once for each vector unit, chosen at run time, threaded by OpenMP. */
#ifndef TRI_DEVICE_CPU_CPU_H
#define TRI_DEVICE_CPU_CPU_H

#include "device/cpu/regions.h"
#include "device/device.h"
#include "device/queue.h"

/* Sets the members of a device. isa is "" (the best one that this CPU has), "baseline", "avx2", "avx512" or
 * "avx512bf16". Fails with TRI_UNSUPPORTED if the CPU lacks it. If request->threads is 0, there are as many threads
 * as cores that this process may use. */
tri_status tri_cpu_create(const char *isa, const tri_device_request *request, tri_device *out);

/* Returns the parallel regions for the short loops of generation; training uses OpenMP's loops. */
tri_regions *tri_cpu_regions_of(const tri_device_description *of);

/* Functions of the device's tables (memory.c): host memory, in huge pages if the system has them, copies and
 * fill_zero. */
tri_status tri_cpu_memory_create(tri_device *device, size_t bytes, void **out);
void tri_cpu_memory_destroy(tri_device *device, void *memory, size_t bytes);
tri_status tri_cpu_copy(tri_queue *queue, const tri_copy *copy);
tri_status tri_cpu_fill_zero(tri_queue *queue, size_t bytes, void *out);

#endif
