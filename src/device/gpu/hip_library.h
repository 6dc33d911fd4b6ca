/* Folders of AMD's libraries in addition to the usual places. */
#ifndef TRI_DEVICE_GPU_HIP_LIBRARY_H
#define TRI_DEVICE_GPU_HIP_LIBRARY_H

/* Lists of patterns for tri_gpu_library. */
extern const char *const tri_hip_folders[], *const tri_hip_wheels[];

#endif
