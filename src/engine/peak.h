/* Measures a device's peak, the base of "share of peak" and MFU. */
#ifndef TRI_ENGINE_PEAK_H
#define TRI_ENGINE_PEAK_H

#include "device/device.h"

/* LOCAL. Measures the fastest of repeated square GEMMs (plain operands, results in the wide type) within about
 * `seconds`, in FLOP/s. The side is 1024, or smaller if that would take long or the device has too little free memory;
 * sets *out to 0 if it has not enough for the smallest side. */
tri_status tri_matmul_flops(tri_device *device, tri_dtype type, double seconds, double *out);

/* LOCAL. Measures the device's peak in FLOP/s on activations of this type, as its GEMMs reach it. Takes about 0.3 s, or
 * less if work_flops is small: the FLOPs of the work that the device is about to do (INFINITY: unknown). Sets *out to 0
 * if the device has not enough free memory. Must be called while the device does no other work. */
tri_status tri_peak_flops(tri_device *device, tri_dtype type, double work_flops, double *out);

#endif
