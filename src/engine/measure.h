/* Measures this machine while all ranks of the job do the same, for the description of a cluster.
 *
 * The caller chooses the cases; this module knows how the engine calls them. A time is the lower quartile of some
 * repetitions, on the slowest rank. Operands are taken in turn, so that they come from memory as in a step. */
#ifndef TRI_ENGINE_MEASURE_H
#define TRI_ENGINE_MEASURE_H

#include "comm/comm.h"
#include "device/device.h"
#include "ops/op.h"
#include "ops/work.h"

typedef struct tri_measure tri_measure;

/* One GEMM [rows, inner] x [inner, columns], as operations call it. */
typedef struct tri_measure_product {
  tri_gemm_form form;
  bool passing; /* the weight does not stay in memory and so is not packed (tri_matmul.b_unpacked) */
  int64_t rows, inner, columns;
} tri_measure_product;

typedef struct tri_measure_attention {
  tri_pass pass;
  int64_t sequence, head_dim, heads; /* heads of all sequences together */
} tri_measure_attention;

typedef struct tri_measure_elements {
  tri_work work;
  tri_pass pass;
  int64_t elements;
} tri_measure_elements;

typedef struct tri_measure_collective {
  tri_collective kind;
  bool shared;          /* on memory that the ranks of a node share, as they share gradients */
  int64_t ranks, bytes; /* groups of `ranks` neighbours, all at the same time; bytes of fp32 values: all that a rank
                         * sends in an all-to-all, or sends to the next rank in a pass */
} tri_measure_collective;

typedef struct tri_measure_request {
  tri_device *device;
  tri_dtype precision;
  const tri_group *world;
  double each_s; /* seconds to spend on each figure, roughly: a call is repeated 4 to 400 times */
} tri_measure_request;

/* COLLECTIVE over the job, as all functions below. Allocates a fifth of a rank's memory, at least 256 MiB and at most 1
 * GiB (4 GiB if the device has memory of its own). Release with tri_measure_destroy. */
tri_status tri_measure_create(const tri_measure_request *request, tri_measure **out);
void tri_measure_destroy(tri_measure *measure);

/* Measures the FLOP/s of GEMMs on the slowest rank; 0: not enough memory. */
tri_status tri_measure_peak(tri_measure *measure, double *flops);
/* Measure seconds, the same on all ranks. 0: not enough memory, or no such case: `passing` on a device that packs
 * nothing, attention's backward of weights, fewer elements than a row. TRI_UNSUPPORTED if the device lacks the
 * kernel. */
tri_status tri_measure_product_s(tri_measure *measure, const tri_measure_product *of, double *seconds);
tri_status tri_measure_attention_s(tri_measure *measure, const tri_measure_attention *of, double *seconds);
tri_status tri_measure_elements_s(tri_measure *measure, const tri_measure_elements *of, double *seconds);
/* The same; also 0 if the case is `shared` and the ranks of a node cannot access each other's memory. */
tri_status tri_measure_collective_s(tri_measure *measure, const tri_measure_collective *of, double *seconds);
/* Measures a message from each rank to the next, all at the same time. */
tri_status tri_measure_message_s(tri_measure *measure, int64_t bytes, double *seconds);

#endif
