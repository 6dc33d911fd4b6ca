/* The device of each rank of a job. */
#ifndef TRI_ENGINE_RANK_DEVICE_H
#define TRI_ENGINE_RANK_DEVICE_H

#include "device/device.h"

/* COLLECTIVE over the job. The ranks of a node take its GPUs in turn. Where there are more ranks than GPUs they share
 * them, and the memory of each that others leave: the first rank says so. All ranks have the same kind of device, or
 * the status is TRI_UNSUPPORTED on all of them. Says in info.reached whether MPI reaches all of their memory. threads
 * as in tri_device_request. */
tri_status tri_rank_device_create(const char *name, int threads, tri_device **out);

#endif
