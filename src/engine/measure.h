/* Measures this machine while all ranks of the job do the same, for the description of a cluster.
 *
 * The caller chooses the cases; this module knows how the engine calls them. A time is the lower quartile of some
 * repetitions, on the slowest rank. Repetitions use several sets of operands in turn, so that operands come from memory
 * as in a step, and not from caches. */
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
  bool passing; /* whether the weight does not stay in memory and so is not packed (tri_matmul.b_unpacked) */
  int64_t rows, inner, columns;
} tri_measure_product;

typedef struct tri_measure_attention {
  tri_pass pass;
  /* Positions of a sequence; elements of a head; heads of all sequences together. */
  int64_t sequence, head_dim, heads;
} tri_measure_attention;

typedef struct tri_measure_elements {
  tri_work work;
  tri_pass pass;
  int64_t elements;
} tri_measure_elements;

typedef struct tri_measure_collective {
  tri_collective kind;
  bool shared; /* whether the buffers are in memory that the ranks of a node share, as gradients are */
  /* Ranks of a group: all groups of `ranks` neighbours run the collective at the same time. Bytes of the fp32 values of
   * a rank: for an all-to-all, all that it sends; for a pass, those that it sends to the next rank. */
  int64_t ranks, bytes;
} tri_measure_collective;

typedef struct tri_measure_request {
  tri_device *device;
  tri_dtype precision;
  const tri_group *world;
  double each_s; /* approximate seconds to spend on each figure: a call is repeated 4 to 400 times */
} tri_measure_request;

/* COLLECTIVE over the job, as all functions below. Allocates a fifth of a rank's memory, at least 256 MiB and at most 1
 * GiB (4 GiB if the device has memory of its own). Release with tri_measure_destroy. */
tri_status tri_measure_create(const tri_measure_request *request, tri_measure **out);
void tri_measure_destroy(tri_measure *measure);

/* Measures the FLOP/s of GEMMs on the slowest rank. Sets *flops to 0 if the device has not enough memory. */
tri_status tri_measure_peak(tri_measure *measure, double *flops);
/* Measure the seconds of a call; all ranks get the same result. Set *seconds to 0 if the memory is not enough, or if
 * there is no such case: `passing` on a device that packs nothing, attention's backward of weights, fewer elements than
 * a row. Fail with TRI_UNSUPPORTED if the device lacks the kernel. */
tri_status tri_measure_product_s(tri_measure *measure, const tri_measure_product *of, double *seconds);
/* Measures the seconds of a GEMM with the sizes, types and packing of a call of an operation, but without a bias, and
 * on matrices whose rows are adjacent in memory. */
tri_status tri_measure_matmul_s(tri_measure *measure, const tri_matmul *of, double *seconds);
tri_status tri_measure_attention_s(tri_measure *measure, const tri_measure_attention *of, double *seconds);
tri_status tri_measure_elements_s(tri_measure *measure, const tri_measure_elements *of, double *seconds);
/* Measures the seconds of a collective. Sets *seconds to 0 if the memory is not enough, if the ranks do not divide into
 * groups of of->ranks, or if the case is `shared` and the ranks of a node cannot access each other's memory. */
tri_status tri_measure_collective_s(tri_measure *measure, const tri_measure_collective *of, double *seconds);
/* Measures the seconds of a message from each rank to the next one, all at the same time. Sets *seconds to 0 for a
 * single rank, and for messages of more than 32 MiB. */
tri_status tri_measure_message_s(tri_measure *measure, int64_t bytes, double *seconds);

#endif
