/* The simulator. It gives each instruction in the step program of each stage a duration on a cluster, and executes the
 * programs of all stages together. A rank computes one instruction at a time; its reductions and gathers overlap with
 * the computation if the system allows that (tri_system.overlap_reductions, overlap_gathers). The transfer of a message
 * begins when the message has been sent, its receive has been posted, and the message before it with the same tag (the
 * same chunk and direction) has arrived. All ranks of a stage do the same at the same time, so one of them is simulated
 * for all.
 *
 * In a step with very many micro-batches, the middle usually repeats with a period of a few micro-batches. So a shorter
 * step is simulated first. If its middle repeats exactly, the time of the missing periods is added; otherwise the whole
 * step is simulated (tri_step_probe in event_sim.h). */
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

/* The model, its layout and the machine. All pointers are owned by the caller. */
typedef struct tri_simulation_request {
  const tri_model *model;   /* model after tri_model_complete */
  const tri_layout *layout; /* resolved layout */
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t global_batch, sequence; /* sequences of a step; tokens of a sequence */
  bool assumed_sequence;          /* whether `sequence` was not given and is the longest of the model; for reports */
  tri_dtype precision;            /* type of the activations */
  bool masked;                    /* whether documents of a sequence do not attend to each other */
  /* Mean attention fraction that document masks leave; 0: unknown, counts as 1. */
  double masked_attention_fraction;
  /* Attention fractions of drawn micro-batches; NULL: all micro-batches have the mean. */
  tri_attention_fraction_table *drawn;
  /* Rows of experts on the busiest rank, divided by their mean over the ranks; 0 counts as 1. */
  double expert_imbalance;
  const tri_train_objective *objective; /* objective of the training; NULL: cross entropy */
  /* Settings of the optimizer, read only for this program (tri_system.planned); NULL: AdamW. */
  const tri_optimizer_settings *optimizer;
  /* Device whose kernels decide the scratch memory and the packed weights; NULL: the kind of the cluster. */
  const struct tri_device_description *device;
} tri_simulation_request;

/* The seconds of a step by parts, on average over the ranks. The sum of the parts is the time of the step. */
typedef struct tri_step_time {
  double compute; /* seconds of forwards and backwards */
  /* Seconds of waiting for communication that is in progress, by axis [TRI_NUM_AXES]: collectives of layers,
   * reductions, gathers, and messages in transfer. */
  double along[TRI_NUM_AXES];
  double bubble;    /* seconds of waiting for other ranks, before communication begins or at the end */
  double optimizer; /* seconds of the gradient norm, the update and the packing of new weights */
} tri_step_time;

/* Returns the axis at position i, below TRI_STEP_AXES, of the order in which reports print tri_step_time.along. */
enum { TRI_STEP_AXES = 5 };
tri_axis tri_step_axis(int i);
/* Returns the sum of all parts. */
double tri_step_time_sum(const tri_step_time *time);

/* Memory of one rank in bytes. `peak` is the sum of parameters, gradients, optimizer, activations and buffers. */
typedef struct tri_memory_parts {
  double parameters, gradients, optimizer, activations, buffers, peak;
  double steady; /* bytes that remain between two steps */
} tri_memory_parts;

/* The differences of attention between micro-batches with masked documents. All fractions are attention fractions
 * (attention_fractions.h). */
typedef struct tri_document_imbalance {
  int64_t micro_batches; /* number of drawn micro-batches; 0: they do not differ, and all members are 0 */
  double mean;           /* mean over all ranks of all micro-batches */
  /* Mean and maximum over the micro-batches, each with the fraction of its busiest rank. The step is priced with
   * `busiest`. */
  double busiest, worst;
  /* Expected seconds in which the step waits for micro-batches with a higher fraction than `busiest`, in the
   * pipeline and for other data ranks; a part of the bubble. */
  double waiting_s;
} tri_document_imbalance;

typedef struct tri_prediction {
  double step_s, tokens_per_s;
  double tflops_per_device;       /* TFLOP/s of all GEMMs, including recompute (tri_step_hardware_flops) */
  double model_tflops_per_device; /* TFLOP/s of the GEMMs of the model, without recompute (tri_step_model_flops) */
  double mfu, hfu;                /* model_tflops_per_device and tflops_per_device as shares of the peak */
  double bubble;                  /* share of the step in which ranks wait for other ranks */
  tri_step_time time;
  tri_memory_parts memory; /* memory of the fullest rank */
  int64_t fullest_stage;   /* stage of the fullest rank */
  bool fits;               /* whether the fullest rank fits into the memory of a device */
  tri_document_imbalance uneven;
  tri_expert_load experts; /* load of the experts on the busiest rank; all members are 0 without experts */
  /* Seconds of the forward of mismatched answers, a part of step_s; only for losses with a KL divergence. */
  double mismatched_s;
  /* Seconds in which the reference model computes the log-probabilities of as many sequences as a step has; 0: no
   * reference. They are not in step_s, because a run computes the log-probabilities of all its data before the first
   * step. */
  double reference_s;
  int64_t row_pairs; /* result of tri_plan_row_pairs (row_pairs.h) */
} tri_prediction;

/* Predict a step. tri_simulate predicts time and memory, tri_simulate_step only the time: memory, fullest_stage,
 * fits and row_pairs are 0. */
tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out);
tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out);

/* Share of a limit of the step time by which a bound must exceed it, because of rounding. */
#define TRI_BOUND_MARGIN 1e-6
/* Limits for the layouts of a search; INFINITY: no limit. */
typedef struct tri_simulation_limits {
  double step_s; /* largest step time, in seconds */
  double bytes;  /* most memory of a rank */
  bool memory;   /* whether to predict the memory; false: `bytes` has no effect */
} tri_simulation_limits;
typedef enum tri_simulation_outcome {
  TRI_OUTCOME_SIMULATED, /* time and memory are predicted, although the time may be above its limit */
  TRI_OUTCOME_TOO_SLOW,  /* only step_s is set: a lower bound from the prices of all stages (tri_event_sim_bound), which
                            is above the limit */
  TRI_OUTCOME_TOO_LARGE, /* only fullest_stage and memory are set: those of a stage that needs more than the limit */
} tri_simulation_outcome;
/* Does the same as tri_simulate, but without `fits` and row_pairs, for a layout that may exceed limits: ends as soon as
 * it is known to do so. */
tri_status tri_simulate_within(const tri_simulation_request *request, const tri_simulation_limits *limits,
                               tri_prediction *out, tri_simulation_outcome *outcome);

/* The overlap of gradient reductions and parameter gathers with the computation of a predicted step. hidden_s:
 * seconds of these collectives that tri_step_time does not contain. slower_s: seconds by which they make the
 * computation longer, contained in tri_step_time.compute. Both are 0 for a system without overlap. */
typedef struct tri_overlap {
  double hidden_s, slower_s;
} tri_overlap;
/* Computes the overlap of a prediction, which must be the prediction of the same request. */
tri_status tri_simulate_overlap(const tri_simulation_request *request, const tri_prediction *prediction,
                                tri_overlap *out);

/* Creates a timeline of a step with one rank of each stage, in which all micro-batches have equal attention. Release
 * with tri_timeline_destroy. */
tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out);

/* Predicts the memory of a rank of a stage (memory.c). */
tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out);
/* Sets *stage to the stage whose ranks need the most memory, and *out to this memory. If a stage needs more than
 * `room` bytes (INFINITY: no limit), ends with the first such stage. `stage` may be NULL. */
tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out);

/* Returns the attention fraction that masks and windows leave, on average over the layers. */
double tri_step_attention_fraction(const tri_simulation_request *request);

/* Returns the additional forwards that the preference loss of the request needs. All members are false for other
 * losses. */
tri_preference_rules tri_step_preference_rules(const tri_simulation_request *request);

/* Return the FLOPs of the GEMMs of a step, summed over all devices: tri_step_model_flops without recompute,
 * tri_step_hardware_flops with recompute and with the forward of mismatched answers. Attention counts as the full
 * square of positions, as in published numbers (tri_model_flops_per_token), times the attention fraction. */
double tri_step_model_flops(const tri_simulation_request *request);
double tri_step_hardware_flops(const tri_simulation_request *request);

#endif
