/* What this machine does, measured while all ranks of the job are at it: what a cluster's description is made of. */
#ifndef TRI_ENGINE_MEASURE_H
#define TRI_ENGINE_MEASURE_H

#include "comm/comm.h"
#include "device/kernels.h"

enum { TRI_MEASURED_PRODUCTS = 24, TRI_MEASURED_MESSAGES = 12 };

/* Seconds of one product [rows, inner] x [inner, columns]. */
typedef struct tri_measured_product {
  int64_t rows, inner, columns;
  double seconds;
} tri_measured_product;

/* Seconds of one transfer of so many bytes: an all-reduce over all ranks, or a message from each to its neighbour. */
typedef struct tri_measured_transfer {
  double bytes, seconds;
} tri_measured_transfer;

typedef struct tri_measurements {
  char device[TRI_DEVICE_NAME_BYTES], chip[TRI_DEVICE_CHIP_BYTES]; /* of the first rank */
  bool own_memory;                                                 /* the device's, not the host's */
  int64_t ranks, threads;
  double peak_flops; /* of this rank */
  tri_measured_product products[TRI_MEASURED_PRODUCTS];
  int64_t num_products;
  double memory_bandwidth; /* bytes a second, of a sum of two long vectors */
  double vector_flops;     /* as ops count them: GELU on what the caches hold */
  double attention_flops;  /* of the products of attention, forward and backward, the softmax's time taken off */
  tri_measured_transfer reduces[TRI_MEASURED_MESSAGES], messages[TRI_MEASURED_MESSAGES];
  int64_t num_reduces, num_messages;
  double memory_bytes; /* of the node, for each of its ranks */
} tri_measurements;

/* COLLECTIVE over the job. Medians over the repetitions; the slowest rank's of each. Takes some ten seconds. */
tri_status tri_measure(tri_device *device, tri_dtype precision, const tri_group *world, tri_measurements *out);

#endif
