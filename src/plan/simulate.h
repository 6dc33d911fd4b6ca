/* The simulator. It gives every instruction of every stage's step program a duration on a cluster, and runs the stages
 * together. A rank computes one instruction at a time; its reductions and gathers overlap with the computation if the
 * system allows that (tri_system.overlap_reductions, overlap_gathers). The transfer of a message begins when the
 * message has been sent, its receive has been posted, and the previous message of the same direction and chunk has
 * arrived.
 *
 * All ranks of a stage do the same at the same time, so one of them is simulated for all. The middle of a step with
 * very many micro-batches usually repeats with a period of some micro-batches. So a shorter step is simulated first. If
 * all turns (forwards and backwards of micro-batches) in its middle are one constant time after the same turns of the
 * previous period, the missing periods are added without simulating them. Otherwise the whole step is simulated
 * (event_sim.h). */
#ifndef TRI_PLAN_SIMULATE_H
#define TRI_PLAN_SIMULATE_H

#include "model/objective.h"
#include "model/preference_losses.h"
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
  bool assumed_sequence; /* `sequence` was not given; for reports */
  tri_dtype precision;
  bool masked;                         /* documents of a sequence do not attend to each other */
  double masked_attention_fraction;    /* attention fraction that document masks leave; 0: unknown, counts as 1 */
  tri_attention_fraction_table *drawn; /* fractions of drawn micro-batches; NULL: all have the mean */
  double expert_imbalance; /* rows of the busiest rank's experts, as a multiple of their number under perfect balance; 0
                              counts as 1 */
  const tri_train_objective *objective;        /* NULL: cross entropy */
  const tri_optimizer_settings *optimizer;     /* for systems that are planned (tri_system.planned); NULL: AdamW */
  const struct tri_device_description *device; /* for scratch memory and packed weights; NULL: by the cluster's kind */
} tri_simulation_request;

/* The parts of a step's seconds, on average over the ranks; their sum is the step. */
typedef struct tri_step_time {
  double compute;             /* forwards and backwards */
  double along[TRI_NUM_AXES]; /* communication that a rank waits for, by axis: collectives of layers, reductions,
                                 gathers, and messages while they are transferred */
  double bubble;              /* waiting for other ranks */
  double optimizer;           /* norm, update, packing of new weights */
} tri_step_time;

/* The axes of tri_step_time.along, in the order of reports. */
enum { TRI_STEP_AXES = 5 };
tri_axis tri_step_axis(int i);
double tri_step_time_sum(const tri_step_time *time);

/* Memory of one rank in bytes. */
typedef struct tri_memory_parts {
  double parameters, gradients, optimizer, activations, buffers, peak;
  double steady; /* between steps */
} tri_memory_parts;

/* Differences of attention between micro-batches with masked documents, as attention fractions
 * (tri_attention_fractions). */
typedef struct tri_document_imbalance {
  int64_t micro_batches; /* number of drawn micro-batches; 0: none, and all members are 0 */
  double mean;           /* mean over all ranks and micro-batches */
  double busiest, worst; /* mean and maximum over the micro-batches, each with its busiest rank; the step is priced with
                            `busiest` */
  double waiting_s;      /* expected seconds that the step waits, in the pipeline and for other data ranks, for
                            micro-batches with a higher fraction than `busiest`; a part of the bubble */
} tri_document_imbalance;

typedef struct tri_prediction {
  double step_s, tokens_per_s;
  double tflops_per_device;       /* TFLOP/s of all computed GEMMs, with recompute, counted as in published numbers */
  double model_tflops_per_device; /* the same without recompute */
  double mfu, hfu;                /* model_tflops_per_device, and tflops_per_device, as shares of the peak */
  double bubble;                  /* share of the step */
  tri_step_time time;
  tri_memory_parts memory; /* bytes of the fullest rank */
  int64_t fullest_stage;
  bool fits;
  tri_document_imbalance uneven;
  tri_expert_load experts; /* all 0 without experts */
  double mismatched_s;     /* part of step_s: the forward of mismatched answers, for losses with a KL divergence */
  double reference_s; /* seconds of the reference model's log-probabilities of the sequences of one step, not in step_s:
                         a run computes them for all its data before the first step; 0: no reference */
  int64_t row_pairs;  /* layout.context_row_pairs by these prices (row_pairs.h), or TRI_NO_ROW_PAIRS */
} tri_prediction;

/* Predict time and memory, or only the time (tri_simulate_step: memory, fullest_stage, fits and row_pairs are 0). */
tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out);
tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out);

/* Seconds in which transfers of gradients and parameters overlap with the computation of a predicted step, and seconds
 * by which they make the computation longer. tri_step_time does not show them. 0 for a system without overlap. */
typedef struct tri_overlap {
  double hidden_s, slower_s;
} tri_overlap;
tri_status tri_simulate_overlap(const tri_simulation_request *request, const tri_prediction *prediction,
                                tri_overlap *out);

/* Draws a timeline of the whole step: one rank of each stage, with equal micro-batches. Release with
 * tri_timeline_destroy. */
tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out);

/* Predicts the memory of a rank of a stage (memory.c). */
tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out);
/* Finds the stage with the highest peak, or the first one that needs more than `room` bytes (INFINITY: no limit).
 * *stage may be NULL. */
tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out);

/* Returns the number of parameters of the model; tied embeddings count once. 0 if memory is exhausted. */
double tri_model_num_parameters(const tri_model *model);

/* Returns the attention fraction that masks and windows leave, on average over the layers. */
double tri_step_attention_fraction(const tri_simulation_request *request);

/* Returns what the objective's preference loss needs in addition to a step: a reference model, further forwards. All
 * false for cross entropy. */
tri_preference_rules tri_step_preference_rules(const tri_simulation_request *request);

/* Return the FLOPs of a step over all devices: tri_step_model_flops without, tri_step_hardware_flops with recompute and
 * the forward of mismatched answers. Attention counts the full square of positions, as in published numbers
 * (tri_model_flops_per_token), times the attention fraction. */
double tri_step_model_flops(const tri_simulation_request *request);
double tri_step_hardware_flops(const tri_simulation_request *request);

#endif
