/* AMD's run-time library: opened once in a process, and what its errors mean to who reads them. */
#ifndef TRI_DEVICE_GPU_HIP_DRIVER_H
#define TRI_DEVICE_GPU_HIP_DRIVER_H

#include "base/status.h"
#include "device/gpu/hip_calls.h"

#include <stdbool.h>

typedef struct tri_hip_driver {
  tri_hip_calls calls;
  const char *path;
  int version;    /* 50221153: 5.2.21153 */
  char text[32];  /* "HIP 5.2.21153" */
  int count;      /* GPUs that this process may use */
  char why[1024]; /* why there are that many */
} tri_hip_driver;

/* *out with a count of 0 and TRI_OK if there is no library, no GPU, or none that this user may use. A library that
 * is there and does not work is a failure, the same at each call. */
tri_status tri_hip_driver_open(const tri_hip_driver **out);

/* A call of the library's has failed: tells its name for the error, and what to do where that is known. `of` is what it
 * happened to: "GPU 0 (AMD Instinct MI250X)". */
tri_status tri_hip_failed(const tri_hip_driver *driver, const char *of, const char *call, tri_hip_enum error);

/* Whether a GPU does not recover from it: what it has computed since is lost. */
bool tri_hip_is_lasting(tri_hip_enum error);

/* Why a library sees no GPU, by the files through which it reaches them: `kfd` is /dev/kfd, and `nodes` a pattern of
 * glob(7) for those of the GPUs. "" if they are there and may be used. */
const char *tri_hip_absence(const char *kfd, const char *nodes, char *out, size_t out_bytes);

/* "gfx90a" of the chip's name as the library has it, "gfx90a:sramecc+:xnack-"; "" of what is no such name. */
void tri_hip_chip(const char *name, char *out, size_t out_bytes);

#endif
