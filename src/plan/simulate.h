/* The simulator: the third reader of the step program. It gives every instruction of every stage a duration on a
 * described machine and runs them against each other: a rank computes one thing at a time, its reductions go on beside
 * that, its messages arrive when they have been sent, posted and carried.
 *
 * Ranks of one stage do the same at the same time, so one of them stands for all. A step of very many micro-batches
 * repeats itself in its middle: a shorter one is run, and where in its middle every turn of every stage comes as much
 * later than that of a period of micro-batches before, further periods are added without being run; if not, all is run
 * (event_sim.h). */
#ifndef TRI_PLAN_SIMULATE_H
#define TRI_PLAN_SIMULATE_H

#include "ops/experts.h"
#include "optimizers/optimizer.h"
#include "plan/attention_fractions.h"
#include "plan/cluster.h"
#include "plan/system.h"
#include "timeline/timeline.h"

typedef struct tri_simulation_request {
  const tri_model *model;   /* complete */
  const tri_layout *layout; /* resolved */
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t global_batch, sequence;
  bool assumed_sequence; /* not given: reports say so */
  tri_dtype precision;
  bool masked; /* documents that share a sequence do not see each other */
  double
      masked_attention_fraction; /* the share of attention's work that masks leave, where it is known; 0: all of it */
  tri_attention_fraction_table *drawn; /* micro-batches of such documents; NULL: all are as the mean */
  double expert_imbalance; /* rows of the busiest rank's experts, as a multiple of those that they have where all are
                              equally busy; 0: 1 */
  const tri_optimizer_settings *optimizer; /* of a system whose steps are the engine's; NULL: AdamW */
  const struct tri_device_description
      *device; /* whose scratch memory and packed weights count; NULL: the cluster's kind's */
} tri_simulation_request;

/* Where a step's seconds go, on average over the ranks; together they are the step. */
typedef struct tri_step_time {
  double compute;             /* forwards and backwards */
  double along[TRI_NUM_AXES]; /* by the axis that they are shown under: collectives within layers, reductions and
                                 gathers that it waits for, messages that it waits for while they are under way */
  double bubble;              /* neither: it waits for another rank */
  double optimizer;           /* norm, update, packing of new weights */
} tri_step_time;

/* The axes that there is time of, in the order in which it is said. */
enum { TRI_STEP_AXES = 5 };
tri_axis tri_step_axis(int i);
double tri_step_time_sum(const tri_step_time *time);

/* Bytes of one rank. */
typedef struct tri_memory_parts {
  double parameters, gradients, optimizer, activations, buffers, peak;
  double steady; /* between steps */
} tri_memory_parts;

/* What micro-batches of documents have of attention's work, as shares of what joined documents have: on average; on
 * the rank with most, on average of micro-batches and in the worst of those drawn. The step is priced with the second.
 * Beyond that it waits for micro-batches that have more: in a pipeline, and for the data rank that has most. */
typedef struct tri_document_imbalance {
  int64_t micro_batches; /* drawn; 0: none, and all else is 0 */
  double mean, busiest, worst;
  double waiting_s; /* expected, in the step's bubble */
} tri_document_imbalance;

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
  tri_document_imbalance uneven;
  tri_expert_load experts; /* all 0 of a model without */
  int64_t row_pairs;       /* what layout.context_row_pairs is by these prices (row_pairs.h); TRI_NO_ROW_PAIRS: nothing
                              depends on it */
} tri_prediction;

/* Seconds and bytes; or seconds alone, and memory, fullest_stage, fits and row_pairs are left 0. */
tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out);
tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out);

/* The whole step, drawn: one rank of each stage, of micro-batches that are alike. Release with tri_timeline_destroy. */
tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out);

/* Bytes of a rank of a stage (memory.c). */
tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out);
/* The stage with the highest peak; *stage may be NULL. Where one takes more than `room`, the first such stage: INFINITY
 * asks for the fullest whatever it takes. */
tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out);

/* Of the whole model; a tied embedding once. 0 if there is no memory to count them. */
double tri_model_num_parameters(const tri_model *model);

/* The share of attention's work that masks and windows leave, on average over the layers. */
double tri_step_area(const tri_simulation_request *request);

/* FLOPs of a step over all devices: the model's, and with what recomputation adds. Attention over the full square, as
 * published figures count it (tri_model_flops_per_token), of which masks and windows leave their share. */
double tri_step_model_flops(const tri_simulation_request *request);
double tri_step_hardware_flops(const tri_simulation_request *request);

#endif
