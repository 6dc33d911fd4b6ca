/* How a device makes its matrix products. A library has several ways to make one, which differ in speed and in the last
 * bits, so the ranks of a run make equal products the same way, and a run that goes on makes them as before: one rank's
 * device chooses, and the others take that.
 *
 * Products and choices are texts, a line each, that mean something to devices of the same chooser alone. What has not
 * been chosen when it is asked for is chosen then, by the library's own ranking, and equally by equal choosers. */
#ifndef TRI_DEVICE_GEMM_CHOICES_H
#define TRI_DEVICE_GEMM_CHOICES_H

#include "device/device.h"

enum { TRI_DEVICE_GEMM_LIBRARY_BYTES = 192 };

/* fp32 products may round their operands to TF32 (10 bits), where the device is faster then. Before the device is asked
 * for anything. */
void tri_device_allow_tf32(tri_device *device);

/* Who chooses, with the versions and the chip that choices hold for: "cuBLASLt 13.1.0 on NVIDIA H200 (sm_90a)"; "" on a
 * device that has nothing to choose. */
void tri_device_gemm_library(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]);

/* The products that somebody has planned to ask of the device (tri_device_description.matmul_workspace), in a fixed
 * order. The texts are the caller's, tri_free. */
tri_status tri_device_gemms_asked(tri_device *device, char **out);

/* Chooses for each of them: the library's first, or with `timed` the fastest of its first eight on random numbers, for
 * which memory is taken and given back. Takes the choices itself, too. */
tri_status tri_device_gemms_choose(tri_device *device, const char *products, bool timed, char **choices);

/* From here on products are made so. Lines of choices that do not make sense are TRI_BAD_FILE. */
tri_status tri_device_gemms_take(tri_device *device, const char *choices);

#endif
