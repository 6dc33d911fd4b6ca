/* Where AMD's libraries lie beside the usual places. */
#ifndef TRI_DEVICE_GPU_HIP_LIBRARY_H
#define TRI_DEVICE_GPU_HIP_LIBRARY_H

/* Lists of patterns as tri_gpu_library takes them. */
extern const char *const tri_hip_folders[], *const tri_hip_wheels[];

#endif
