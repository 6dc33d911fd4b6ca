/* A cluster's description from measurements. */
#ifndef TRI_PLAN_CALIBRATION_H
#define TRI_PLAN_CALIBRATION_H

#include "plan/cluster.h"

/* Measured seconds, and what the description says of the same. */
typedef struct tri_product_sample {
  double rows, inner, columns, seconds;
} tri_product_sample;
typedef struct tri_transfer_sample {
  double bytes, seconds;
} tri_transfer_sample;

typedef struct tri_calibration {
  const char *name;
  bool accelerator;              /* devices with memory of their own, which do not carry what passes between them */
  int64_t devices;               /* all of one node */
  int64_t threads, cores, nodes; /* of each rank; of a node; that the ranks were on */
  tri_dtype precision;
  double peak, memory_bandwidth, vector_flops, attention_flops, memory_bytes;
  const tri_product_sample *products;
  int64_t num_products;
  const tri_transfer_sample *reduces, *messages;
  int64_t num_reduces, num_messages;
} tri_calibration;

/* How far the description is from the measurements: medians of |predicted / measured - 1|. */
typedef struct tri_residuals {
  double products, reduces, messages;
} tri_residuals;

void tri_calibrate(const tri_calibration *from, tri_cluster *out, tri_residuals *residuals);

#endif
