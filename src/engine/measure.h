/* Measures this machine while all ranks of the job do the same, for the description of a cluster.
 *
 * The caller says what to measure; this module knows how the engine calls it. A time is the lower quartile of some
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
  bool passing;
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
  bool shared;
  int64_t ranks, bytes; /* groups of `ranks` neighbours, all at the same time; bytes of fp32 values: all that a rank
                         * sends in an all-to-all, or sends to the next rank in a pass */
} tri_measure_collective;

typedef struct tri_measure_request {
  tri_device *device;
  tri_dtype precision;
  const tri_group *world;
  double each_s; /* seconds to spend on each figure, at least */
} tri_measure_request;

/* COLLECTIVE over the job, as all functions below. Allocates about a fifth of a rank's memory. Release with
 * tri_measure_destroy. */
tri_status tri_measure_create(const tri_measure_request *request, tri_measure **out);
void tri_measure_destroy(tri_measure *measure);

/* Measures the FLOP/s of GEMMs on the slowest rank; 0: not enough memory. */
tri_status tri_measure_peak(tri_measure *measure, double *flops);
/* Measure seconds, the same on all ranks. 0: not enough memory, or the device does not have this case (`passing` on a
 * device that packs nothing; no such kernel). */
tri_status tri_measure_product_s(tri_measure *measure, const tri_measure_product *of, double *seconds);
tri_status tri_measure_attention_s(tri_measure *measure, const tri_measure_attention *of, double *seconds);
tri_status tri_measure_elements_s(tri_measure *measure, const tri_measure_elements *of, double *seconds);
/* Also 0 if `shared` memory was asked for and ranks cannot access each other's. */
tri_status tri_measure_collective_s(tri_measure *measure, const tri_measure_collective *of, double *seconds);
/* Measures a message from each rank to the next, all at the same time. */
tri_status tri_measure_message_s(tri_measure *measure, int64_t bytes, double *seconds);

#endif
