/* The simulator: the third reader of the step program. It gives every instruction of every stage a duration on a
 * described machine and runs them against each other: a rank computes one thing at a time, its reductions go on beside
 * that, its messages arrive when they have been sent, posted and carried.
 *
 * Ranks of one stage do the same at the same time, so one of them stands for all. A step of very many micro-batches
 * repeats itself in its middle: a shorter one is run, and where in its middle every turn of every stage comes as much
 * later than that of a period of micro-batches before, further periods are added without being run; if not, all is run
 * (walk.h). */
#ifndef TRI_PLAN_SIMULATE_H
#define TRI_PLAN_SIMULATE_H

#include "plan/cluster.h"
#include "plan/system.h"
#include "schedule/parts.h"
#include "timeline/timeline.h"

typedef struct tri_simulation_request {
  const tri_model *model;   /* complete */
  const tri_layout *layout; /* resolved */
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t global_batch, sequence;
  bool assumed_sequence; /* nobody gave it: reports say so */
  tri_dtype precision;
  bool masked;        /* documents that share a sequence do not see each other */
  double masked_area; /* the share of attention's work that masks leave, where it is known; 0: all of it */
  const struct tri_device_description
      *device; /* whose scratch memory and packed weights count; NULL: the cluster's kind's */
} tri_simulation_request;

/* Where a step's seconds go, in the mean over the ranks; together they are the step. */
typedef struct tri_step_time {
  double compute;  /* forwards and backwards */
  double tensor;   /* collectives of tensor groups */
  double pipeline; /* messages that a rank waits for while they are under way */
  double data;     /* reductions and gathers that it waits for */
  double context, expert;
  double bubble;    /* neither: it waits for another rank */
  double optimizer; /* norm, update, packing of new weights */
} tri_step_time;

/* Bytes of one rank. */
typedef struct tri_memory_parts {
  double parameters, gradients, optimizer, activations, buffers, peak;
  double steady; /* between steps */
} tri_memory_parts;

typedef struct tri_prediction {
  double step_s, tokens_per_s;
  double tflops_per_device; /* of all products that are computed, recomputed ones too, as published figures count */
  double model_tflops_per_device; /* of the model's products alone */
  double mfu, hfu;                /* shares of the peak: of model_tflops_per_device, and of tflops_per_device */
  double bubble;                  /* share of the step */
  tri_step_time time;
  tri_memory_parts memory; /* of the fullest rank */
  int64_t fullest_stage;
  bool fits;
} tri_prediction;

/* Seconds and bytes; or seconds alone, and memory, fullest_stage and fits are left 0. */
tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out);
tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out);

/* The whole step, drawn: one rank of each stage. Release with tri_timeline_destroy. */
tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out);

/* Bytes of a rank of a stage (memory.c). */
tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out);
/* The stage with the highest peak; *stage may be NULL. Where one takes more than `room`, the first such stage: INFINITY
 * asks for the fullest whatever it takes. */
tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out);

/* Of the whole model; a tied embedding once. 0 where there is no memory to count them. */
double tri_model_num_parameters(const tri_model *model);

/* FLOPs of a step over all devices: the model's, and with what recomputation adds. Attention over the full square, as
 * published figures count it (tri_model_flops_per_token). */
double tri_step_model_flops(const tri_simulation_request *request);
double tri_step_hardware_flops(const tri_simulation_request *request);

#endif
