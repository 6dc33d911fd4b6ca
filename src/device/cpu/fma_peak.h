/* How fast this processor's vector units can go at all. */
#ifndef TRI_DEVICE_CPU_FMA_PEAK_H
#define TRI_DEVICE_CPU_FMA_PEAK_H

#include "device/dtype.h"

/* FLOP/s of `threads` threads that do nothing but multiply and add in registers, with the widest unit there is. In
 * bf16 that of the bf16 dot product (AVX-512) or of fp32, whichever is faster; matrix units (AMX) are not measured.
 * Takes 0.1 to 0.2 s; the best of several short stretches. */
double tri_cpu_fma_peak(int threads, tri_dtype type);

#endif
