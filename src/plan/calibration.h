/* Makes the description of a cluster from measurements. */
#ifndef TRI_PLAN_CALIBRATION_H
#define TRI_PLAN_CALIBRATION_H

#include "plan/cluster.h"

/* A machine and its measurements. All pointers are owned by the caller. */
typedef struct tri_calibration {
  const char *name;
  /* Whether the devices are accelerators, which have their own memory, and compute while messages are transferred
   * (tri_cluster.carries). */
  bool accelerator;
  int64_t devices;               /* devices of a node */
  int64_t threads, cores, nodes; /* threads of each rank; cores of a node; nodes in the measurements */
  tri_dtype precision;
  /* Peak FLOP/s of a device in GEMMs of this precision; bytes of memory of a device. */
  double peak, memory_bytes;
  int64_t processors;           /* multiprocessors of a device; 0: unknown */
  const tri_measured *measured; /* measured times, completed by tri_measured_complete */
} tri_calibration;

/* Errors of the fitted model without its tables: medians of |predicted / measured - 1| for GEMMs, all-reduces and
 * messages. */
typedef struct tri_residuals {
  double products, reduces, messages;
} tri_residuals;

/* Fits the constants of the model of a cluster to the measurements, and adds the measurements as tables. */
void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals);

#endif
