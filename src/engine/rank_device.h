/* The device of each rank of a job. */
#ifndef TRI_ENGINE_RANK_DEVICE_H
#define TRI_ENGINE_RANK_DEVICE_H

#include "device/device.h"

/* COLLECTIVE over the job. Assigns the GPUs of a node to its ranks in turn. If there are more ranks than GPUs, several
 * ranks share a GPU and its free memory, and the first rank warns. Fails with TRI_UNSUPPORTED on all ranks if they
 * would have different kinds of device. Sets info.reached to whether MPI can access the device memory of all ranks.
 * name, threads: as in tri_device_request. */
tri_status tri_rank_device_create(const char *name, int threads, tri_device **out);

#endif
