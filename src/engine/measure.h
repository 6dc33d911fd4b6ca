/* What this machine does, measured while all ranks of the job are at it: what a cluster's description is made of.
 *
 * The caller says what to measure; how it is called is here. Every figure is the lower quartile of some
 * repetitions, of the slowest rank, with operands that are taken in turn, so that they come from where a step finds its
 * own. */
#ifndef TRI_ENGINE_MEASURE_H
#define TRI_ENGINE_MEASURE_H

#include "comm/comm.h"
#include "device/device.h"
#include "ops/op.h"
#include "ops/work.h"

typedef struct tri_measure tri_measure;

/* One product [rows, inner] x [inner, columns], as operations make it. */
typedef struct tri_measure_product {
  tri_product_form form;
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
  int64_t ranks, bytes; /* groups of `ranks` neighbours, all at once; of fp32; of an all-to-all what a rank has for all,
                           of a pass what goes to the next */
} tri_measure_collective;

typedef struct tri_measure_request {
  tri_device *device;
  tri_dtype precision;
  const tri_group *world;
  double each_s; /* for each figure, at least */
} tri_measure_request;

/* COLLECTIVE over the job, as all that follows. Takes memory: about a fifth of what a rank may have. Release with
 * tri_measure_destroy. */
tri_status tri_measure_create(const tri_measure_request *request, tri_measure **out);
void tri_measure_destroy(tri_measure *measure);

/* FLOP/s of matrix products, of the slowest rank; 0: there was no memory to find out. */
tri_status tri_measure_peak(tri_measure *measure, double *flops);
/* Seconds; 0: there is not memory enough, or the device has no such case (nothing is packed that could be passing; no
 * such kernel). The same on all ranks. */
tri_status tri_measure_product_s(tri_measure *measure, const tri_measure_product *of, double *seconds);
tri_status tri_measure_attention_s(tri_measure *measure, const tri_measure_attention *of, double *seconds);
tri_status tri_measure_elements_s(tri_measure *measure, const tri_measure_elements *of, double *seconds);
/* Also 0 where ranks do not see each other's memory and it was to be shared. */
tri_status tri_measure_collective_s(tri_measure *measure, const tri_measure_collective *of, double *seconds);
/* From each rank to the next, and from the one before, at once. */
tri_status tri_measure_message_s(tri_measure *measure, int64_t bytes, double *seconds);

#endif
