/* GEMM autotuning. A library has several algorithms for a GEMM, which differ in speed and in the last bits of the
 * result. So all ranks of a run use the same algorithm for equal GEMMs, and a resumed run uses the previous algorithms:
 * one rank's device chooses, and the others use its choices.
 *
 * GEMMs and choices are texts with one per line, which only devices with the same chooser can read. If the algorithm of
 * a GEMM was not chosen ahead, the library's ranking chooses it when the GEMM first runs. Devices with the same chooser
 * then choose the same. */
#ifndef TRI_DEVICE_GEMM_CHOICES_H
#define TRI_DEVICE_GEMM_CHOICES_H

#include "device/device.h"

enum { TRI_DEVICE_GEMM_LIBRARY_BYTES = 192 };

/* Allows fp32 GEMMs to round their operands to TF32 (10 bits of mantissa), which is faster. Must be called before any
 * other use of the device. */
void tri_device_allow_tf32(tri_device *device);

/* Writes the name of the chooser, with the versions and the chip for which its choices are valid: "cuBLASLt 13.1.0 on
 * NVIDIA H200 (sm_90a)"; "" if the device has nothing to choose. */
void tri_device_gemm_library(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]);

/* Lists the GEMMs that a plan has requested from the device (tri_device_description.matmul_workspace), in a fixed
 * order. Release *out with tri_free. */
tri_status tri_device_gemms_asked(tri_device *device, char **out);

/* Chooses an algorithm for each GEMM of the text `products`, and uses it for all later GEMMs that are equal: the
 * first in the library's ranking or, with `timed`, the fastest of the first eight. Timing temporarily allocates
 * memory for random operands. *choices is the list of the choices; release it with tri_free. */
tri_status tri_device_gemms_choose(tri_device *device, const char *products, bool timed, char **choices);

/* Uses `choices`, a list of tri_device_gemms_choose, for all later GEMMs. Fails with TRI_BAD_FILE if a line is not a
 * choice. */
tri_status tri_device_gemms_use(tri_device *device, const char *choices);

#endif
