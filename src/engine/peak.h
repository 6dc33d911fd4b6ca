/* How fast a device can go, measured: what "share of peak" and MFU are shares of. */
#ifndef TRI_ENGINE_PEAK_H
#define TRI_ENGINE_PEAK_H

#include "device/device.h"

/* LOCAL. The fastest of repeated square matrix products (plain operands, results in the wide type) within about
 * `seconds`, in FLOP/s. The side is 1024, or smaller where that would take long. */
tri_status tri_matmul_flops(tri_device *device, tri_dtype type, double seconds, double *out);

/* LOCAL. The device's peak in FLOP/s on activations of this type, which is what its matrix products reach. Takes about
 * 0.3 s, and less before work that is itself soon done: work_flops is what the device is about to do, INFINITY if
 * that is not known. 0 if the device has no
 * memory left to measure with. Call it while nothing else runs. */
tri_status tri_peak_flops(tri_device *device, tri_dtype type, double work_flops, double *out);

#endif
