/* The kernels of this folder, by their names within one variant. */
#ifndef TRI_DEVICE_CPU_KERNELS_KERNELS_H
#define TRI_DEVICE_CPU_KERNELS_KERNELS_H

#include "device/cpu/cpu.h"
#include "device/cpu/variants.h"
#include "device/device.h"
#include "device/kernels.h"

#define TRI_JOIN_(name, isa) tri_cpu_##name##_##isa
#define TRI_JOIN(name, isa) TRI_JOIN_(name, isa)
/* Returns the name of a symbol in the variant that is being compiled: tri_cpu_few_rows_avx2. */
#define TRI_KERNEL(name) TRI_JOIN(name, TRI_ISA)

/* Below this many elements a loop stays on one thread: starting the others would take longer. */
enum { TRI_ALONE = 16384 };

/* Number of threads that share the work of a kernel, whose first argument is `queue`. */
#define THREADS (queue->device->description.threads)
/* The pool that runs short loops on the device's threads (regions.h). */
#define REGIONS tri_cpu_regions_of(&queue->device->description)

/* Each function fills in the table entries of its file. */
TRI_CPU_FILES(TRI_CPU_DECLARE, TRI_ISA, TRI_ISA)
/* Returns the bytes of scratch memory of one thread. */
size_t TRI_KERNEL(attention_pages_scratch)(const tri_attention *call);

#endif
