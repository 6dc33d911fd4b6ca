/* A cluster's description from measurements. */
#ifndef TRI_PLAN_CALIBRATION_H
#define TRI_PLAN_CALIBRATION_H

#include "plan/cluster.h"

typedef struct tri_calibration {
  const char *name;
  bool accelerator;              /* devices with memory of their own, which do not carry what passes between them */
  int64_t devices;               /* all of one node */
  int64_t threads, cores, nodes; /* of each rank; of a node; that the ranks were on */
  tri_dtype precision;
  double peak, memory_bytes;
  int64_t processors;           /* of the chip, where its driver says; 0: not known */
  const tri_measured *measured; /* complete */
} tri_calibration;

/* How far the description without its tables is from the measurements: medians of |predicted / measured - 1|. */
typedef struct tri_residuals {
  double products, reduces, messages;
} tri_residuals;

void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals);

#endif
