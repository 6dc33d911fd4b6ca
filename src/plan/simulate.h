/* The simulator. It gives each instruction in the step program of each stage a duration on a cluster, and executes the
 * programs of all stages together. A rank computes one instruction at a time; its reductions and gathers overlap with
 * the computation if the system allows that (tri_system.overlap_reductions, overlap_gathers). The transfer of a message
 * begins when the message has been sent, its receive has been posted, and the previous message of the same direction
 * and chunk has arrived. All ranks of a stage do the same at the same time, so one of them is simulated for all.
 *
 * In a step with very many micro-batches, the middle usually repeats with a period of a few micro-batches. So a
 * shorter step is simulated first. If its middle repeats exactly, the missing periods are added without simulating
 * them; otherwise the whole step is simulated (tri_step_probe in event_sim.h). */
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

/* All pointers are owned by the caller. */
typedef struct tri_simulation_request {
  const tri_model *model;   /* complete */
  const tri_layout *layout; /* resolved */
  const tri_cluster *cluster;
  const tri_system *system;
  int64_t global_batch, sequence; /* sequences of a step; tokens of a sequence */
  bool assumed_sequence;          /* `sequence` was not given, but is the longest of the model; for reports */
  tri_dtype precision;            /* of activations */
  bool masked;                    /* documents of a sequence are masked: they do not attend to each other */
  double
      masked_attention_fraction; /* attention fraction that document masks leave, on average; 0: unknown, counts as 1 */
  tri_attention_fraction_table
      *drawn;              /* attention fractions of drawn micro-batches; NULL: all micro-batches have the mean */
  double expert_imbalance; /* rows of the experts on the busiest rank, as a multiple of their number under perfect
                              balance; 0 counts as 1 */
  const tri_train_objective *objective;    /* NULL: cross entropy */
  const tri_optimizer_settings *optimizer; /* only for this program (tri_system.planned); NULL: AdamW */
  const struct tri_device_description
      *device; /* device for scratch memory and packed weights; NULL: the kind of the cluster */
} tri_simulation_request;

/* The seconds of a step by parts, on average over the ranks. Their sum is the time of the step. */
typedef struct tri_step_time {
  double compute;             /* forwards and backwards */
  double along[TRI_NUM_AXES]; /* seconds in which a rank waits for communication, by axis [TRI_NUM_AXES]: collectives of
                                 layers, reductions, gathers, and messages while they are transferred */
  double bubble;              /* waiting for other ranks */
  double optimizer;           /* norm, update, packing of new weights */
} tri_step_time;

/* Returns axis number i, below TRI_STEP_AXES, in the order in which reports show tri_step_time.along. */
enum { TRI_STEP_AXES = 5 };
tri_axis tri_step_axis(int i);
/* Returns the sum of all parts. */
double tri_step_time_sum(const tri_step_time *time);

/* Memory of one rank in bytes. `peak` is the sum of parameters, gradients, optimizer, activations and buffers. */
typedef struct tri_memory_parts {
  double parameters, gradients, optimizer, activations, buffers, peak;
  double steady; /* bytes between two steps */
} tri_memory_parts;

/* The differences of attention between micro-batches with masked documents, as attention fractions
 * (attention_fractions.h). */
typedef struct tri_document_imbalance {
  int64_t micro_batches; /* number of drawn micro-batches; 0: no differences, and all members are 0 */
  double mean;           /* mean of all ranks and micro-batches */
  double busiest, worst; /* mean and maximum over the micro-batches of the fraction of their busiest rank; the step is
                            priced with `busiest` */
  double waiting_s; /* expected seconds in which the step waits for micro-batches with a higher fraction than `busiest`,
                       in the pipeline and for other data ranks; a part of the bubble */
} tri_document_imbalance;

typedef struct tri_prediction {
  double step_s, tokens_per_s;
  double tflops_per_device;       /* TFLOP/s of all GEMMs, including recompute (tri_step_hardware_flops) */
  double model_tflops_per_device; /* TFLOP/s of the GEMMs of the model, without recompute (tri_step_model_flops) */
  double mfu, hfu;                /* model_tflops_per_device and tflops_per_device as shares of the peak */
  double bubble;                  /* share of the step in which ranks wait for other ranks */
  tri_step_time time;
  tri_memory_parts memory; /* bytes of the fullest rank */
  int64_t fullest_stage;   /* stage of this rank */
  bool fits;               /* the fullest rank fits into the memory of a device */
  tri_document_imbalance uneven;
  tri_expert_load experts; /* load of the experts; all members are 0 without experts */
  double mismatched_s;     /* seconds of the forward of mismatched answers, a part of step_s; only for losses with a KL
                              divergence */
  double
      reference_s; /* seconds in which the reference model computes log-probabilities for the sequences of one step; not
                      in step_s, because a run does this for all its data before the first step; 0: no reference */
  int64_t row_pairs; /* tri_plan_row_pairs of the request (row_pairs.h) */
} tri_prediction;

/* tri_simulate predicts time and memory. tri_simulate_step predicts only the time: memory, fullest_stage, fits and
 * row_pairs are 0. */
tri_status tri_simulate(const tri_simulation_request *request, tri_prediction *out);
tri_status tri_simulate_step(const tri_simulation_request *request, tri_prediction *out);

/* hidden_s: seconds of the transfers of gradients and parameters that overlap with the computation of a predicted
 * step; tri_step_time does not contain them. slower_s: seconds by which these transfers make the computation longer;
 * tri_step_time.compute contains them. Both are 0 for a system without overlap. */
typedef struct tri_overlap {
  double hidden_s, slower_s;
} tri_overlap;
/* Computes the overlap of a prediction for the same request. */
tri_status tri_simulate_overlap(const tri_simulation_request *request, const tri_prediction *prediction,
                                tri_overlap *out);

/* Draws a timeline of a step: one rank of each stage, for micro-batches with equal attention. Release with
 * tri_timeline_destroy. */
tri_status tri_simulate_timeline(const tri_simulation_request *request, tri_timeline **out);

/* Predicts the memory of a rank of a stage (memory.c). */
tri_status tri_predict_memory(const tri_simulation_request *request, int64_t stage, tri_memory_parts *out);
/* Sets *stage and *out to the stage with the highest peak and its memory, or to the first stage that needs more than
 * `room` bytes (INFINITY: no limit). `stage` may be NULL. */
tri_status tri_predict_fullest(const tri_simulation_request *request, double room, int64_t *stage,
                               tri_memory_parts *out);

/* Returns the number of parameters of a model, with tied embeddings counted once; 0 if memory is exhausted. */
double tri_model_num_parameters(const tri_model *model);

/* Returns the attention fraction that masks and windows leave, on average over the layers. */
double tri_step_attention_fraction(const tri_simulation_request *request);

/* Returns the additional work that the preference loss of the request's objective needs: a reference model, further
 * forwards. All members are false for cross entropy. */
tri_preference_rules tri_step_preference_rules(const tri_simulation_request *request);

/* Return the FLOPs of a step, summed over all devices: tri_step_model_flops without recompute,
 * tri_step_hardware_flops with recompute and the forward of mismatched answers. Attention counts as the full square
 * of positions, as in published numbers (tri_model_flops_per_token), times the attention fraction. */
double tri_step_model_flops(const tri_simulation_request *request);
double tri_step_hardware_flops(const tri_simulation_request *request);

#endif
