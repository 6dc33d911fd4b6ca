/* Makes a cluster's description from measurements. */
#ifndef TRI_PLAN_CALIBRATION_H
#define TRI_PLAN_CALIBRATION_H

#include "plan/cluster.h"

typedef struct tri_calibration {
  const char *name;
  bool accelerator; /* whether devices have their own memory, and leave communication to others (tri_cluster.carries) */
  int64_t devices;  /* devices of a node */
  int64_t threads, cores, nodes; /* threads of each rank; cores of a node; nodes of the ranks */
  tri_dtype precision;
  double peak, memory_bytes;    /* FLOP/s of GEMMs in that precision; bytes of a device */
  int64_t processors;           /* multiprocessors of the chip; 0: unknown */
  const tri_measured *measured; /* after tri_measured_complete */
} tri_calibration;

/* Errors of predictions from the description without its tables: medians of |predicted / measured - 1|. */
typedef struct tri_residuals {
  double products, reduces, messages;
} tri_residuals;

/* Describes a cluster: fits the constants of its model to the measurements, and adds the measurements as tables. */
void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals);

#endif
