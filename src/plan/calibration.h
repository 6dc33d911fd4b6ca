/* Makes a cluster's description from measurements. */
#ifndef TRI_PLAN_CALIBRATION_H
#define TRI_PLAN_CALIBRATION_H

#include "plan/cluster.h"

/* A machine and its measurements. All pointers are owned by the caller. */
typedef struct tri_calibration {
  const char *name;
  bool accelerator; /* the devices are accelerators: they have their own memory, and can compute while messages are sent
                       (tri_cluster.carries) */
  int64_t devices;  /* devices of a node */
  int64_t threads, cores, nodes; /* threads of each rank; cores of a node; nodes that were used */
  tri_dtype precision;
  double peak, memory_bytes;    /* peak FLOP/s of a device in GEMMs of this precision; bytes of memory of a device */
  int64_t processors;           /* multiprocessors of a device; 0: unknown */
  const tri_measured *measured; /* the measurements, completed by tri_measured_complete */
} tri_calibration;

/* Errors of the fitted model, without its tables: medians of |predicted / measured - 1| for GEMMs, all-reduces and
 * messages. */
typedef struct tri_residuals {
  double products, reduces, messages;
} tri_residuals;

/* Describes a cluster: fits the constants of its model to the measurements, and adds the measurements as tables. */
void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals);

#endif
