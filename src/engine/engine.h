/* The engine owns the model's memory on this rank and executes the step program on a device, instruction by
 * instruction. The memory plan and the simulator are the other two readers of that program. */
#ifndef TRI_ENGINE_ENGINE_H
#define TRI_ENGINE_ENGINE_H

#include "comm/mesh.h"
#include "data/sampler.h"
#include "engine/evaluate.h"
#include "engine/executor.h"
#include "engine/routers.h"
#include "schedule/parts.h"

typedef struct tri_engine_options {
  const tri_model *model;   /* model after tri_model_complete, which outlives the engine */
  const tri_layout *layout; /* resolved layout (tri_layout_resolve), which outlives the engine */
  const tri_mesh *mesh;     /* mesh of this layout, which outlives the engine; NULL: one rank alone */
  int64_t global_batch;     /* largest number of sequences of a step */
  int64_t sequence;         /* tokens of a sequence */
  tri_dtype precision;      /* type of the activations */
  bool masked;              /* whether documents of a sequence do not attend to each other (`masked` of the sampler) */
  const tri_train_objective *objective; /* loss to train and to score; NULL: cross entropy */
  uint64_t seed;
  int32_t ignore_token; /* id of labels that do not count; -1: all labels count */
  /* Settings of the optimizer, which outlive the engine; NULL: AdamW with the defaults of its keys. */
  const tri_optimizer_settings *optimizer;
  double clip;              /* largest gradient norm; 0: no clipping */
  bool saves;               /* whether the memory plan includes buffers for saving checkpoints */
  bool saves_in_background; /* with `saves`: whether the memory plan also includes a copy of this rank's state */
  size_t lent_bytes; /* least bytes of the scratch region of device memory, which another executor uses between steps
                        (tri_executor_lend); 0: not lent */
} tri_engine_options;

/* The state of the running averages of weights after the newest update; all members are 0 before the first one. */
typedef struct tri_averaging {
  /* For schedule_free: highest learning rate so far; sum of the weights of all updates. */
  double highest_lr, weights;
  int64_t taken; /* number of points in the average over the run (optimizers/average.c) */
} tri_averaging;

/* The batch of a step: samples [first, first + count) of a feed. */
typedef struct tri_global_batch {
  int64_t step; /* number of the step, from 0 on */
  /* Number of the first sample; number of samples, from 1 to global_batch of the engine's options. */
  int64_t first, count;
} tri_global_batch;

/* The result of a step, the same on every rank. */
typedef struct tri_step {
  int64_t samples; /* sequences of the global batch */
  /* Weighted mean over the labels of the global batch, or with completions the sum of their scaled losses; NaN if no
   * label or completion counts. */
  double loss;
  double grad_norm; /* gradient norm of the whole model, before clipping */
  double counted;   /* sum of the loss weights of the labels */
  /* Number of pairs of completions, or of unpaired completions, of the global batch; 0 if the objective has no
   * completions. For policy-gradient objectives only whether the number is 0 is used, because completions 2 p and 2 p +
   * 1 of a sequence count as one. */
  int64_t completions;
  /* Query-key pairs of the batch, the work of attention; the second number is for layers with a sliding window. */
  int64_t seen, seen_in_window;
  double router_loss; /* auxiliary losses of routers (balance, z-loss), not part of `loss`; 0 without experts */
  bool skipped;       /* whether the step makes no update, because loss or norm is not finite or no label counts */
} tri_step;

/* LOCAL. Creates the parts of a step for the rank at `place`. Release with tri_parts_destroy. A dry run prints the
 * parts, and the result of tri_engine_memory_request. */
tri_status tri_engine_parts_create(const tri_engine_options *options, const tri_mesh_coordinates *place,
                                   tri_device *device, tri_parts *out);
/* LOCAL. Returns the memory that the rank at `place` needs for these parts. */
tri_memory_request tri_engine_memory_request(const tri_engine_options *options, const tri_parts *parts,
                                             const tri_mesh_coordinates *place, tri_device *device);

typedef struct tri_engine tri_engine;

/* LOCAL. Plans the memory, allocates it, and initialises the parameters from the seed. Fails with TRI_OUT_OF_MEMORY
 * before anything is allocated if the plan does not fit. Release with tri_engine_destroy. */
tri_status tri_engine_create(const tri_engine_options *options, tri_device *device, tri_engine **out);
void tri_engine_destroy(tri_engine *engine);

/* COLLECTIVE over the job, once, before the first step. Lets the ranks of a node access each other's gradients and
 * transfer buffers in place. Then reductions and exchanges need no copies, and those in the background make progress
 * whenever one of these ranks polls (comm.h). Does nothing if the host cannot access device memory, or if the ranks
 * neither add up gradients nor exchange rows of experts. */
tri_status tri_engine_share_gradients(tri_engine *engine);

/* ---- verbs, called by a training loop (verbs.c) ------------------------------------------------------------------ */

/* LOCAL. Returns the batch of a step in a run whose steps all have options.global_batch samples. */
tri_global_batch tri_engine_full_batch(const tri_engine *engine, int64_t step);

/* COLLECTIVE. Runs forward and backward of a batch of the feed. A batch with fewer than global_batch samples has fewer
 * micro-batches, and the last of them are padded. Reductions over ranks may still be in progress when this returns.
 * Drops the gradients of an earlier accumulate that was not followed by an update. */
tri_status tri_engine_accumulate(tri_engine *engine, const tri_feed *feed, const tri_global_batch *batch);

/* COLLECTIVE. Reduces the accumulated gradients over the ranks to those of the global batch, and sets *out to the
 * result of the step, with its loss and gradient norm. */
tri_status tri_engine_reduce(tri_engine *engine, tri_step *out);

/* COLLECTIVE. Updates the parameters with the reduced gradients, unless the step is `skipped`. `updates`: the number of
 * updates before this one, without skipped steps. */
tri_status tri_engine_update(tri_engine *engine, int64_t updates, double lr);

/* COLLECTIVE, between steps. Computes the loss on the first `samples` samples of the feed, without dropout, with the
 * weights that the optimizer evaluates. The result is the same on every rank, and under every layout that computes the
 * same sums. */
tri_status tri_engine_score(tri_engine *engine, const tri_feed *feed, int64_t samples, tri_evaluation *out);

/* The weights of a run that tri_engine_log_probs, tri_engine_swap_in or tri_engine_send_weights (send_weights.h) uses.
 */
typedef enum tri_policy {
  TRI_POLICY_TRAINED,   /* the parameters as they are trained */
  TRI_POLICY_EVALUATED, /* the weights that the optimizer evaluates (schedule-free AdamW's averages) */
  /* The initial weights, if the optimizer's settings have `reference`; else the base of an adapter, without its
     factors. tri_engine_log_probs fails with TRI_UNSUPPORTED if the run has neither. */
  TRI_POLICY_REFERENCE,
} tri_policy;

/* COLLECTIVE, between steps. tri_engine_swap_in replaces the trained weights by the evaluated or the reference ones;
 * tri_engine_swap_back restores the trained weights, which are in the gradients' memory in between (averaging.c). Both
 * do nothing if the run does not keep these weights: for TRI_POLICY_EVALUATED unless the optimizer is schedule-free
 * AdamW, for TRI_POLICY_REFERENCE unless tri_reference_is_kept is true. */
tri_status tri_engine_swap_in(tri_engine *engine, tri_policy point);
tri_status tri_engine_swap_back(tri_engine *engine, tri_policy point);

/* COLLECTIVE, between steps. Computes the log-probabilities, without dropout, of the labels of samples [0, samples) of
 * the feed: out[samples, sequence] on every rank, 0 for labels that do not count. The engine's objective must have
 * completions. A label's result has the same bits whatever the other samples are, and the same bits as in a training
 * step with these weights. */
tri_status tri_engine_log_probs(tri_engine *engine, const tri_feed *feed, int64_t samples, tri_policy policy,
                                double *out);

/* COLLECTIVE, after a step and before the next verb. Sets `out` to the log-probabilities of the step's samples,
 * computed with the weights before its update: out[count of the batch, sequence]. */
tri_status tri_engine_step_log_probs(tri_engine *engine, double *out);

/* LOCAL. Sets the KL divergence from the reference for later steps. Losses that have a KL term (kto) use it as a
 * constant. */
void tri_engine_set_kl(tri_engine *engine, double kl);

/* COLLECTIVE. Makes one optimizer step: accumulate, reduce, update. */
tri_status tri_engine_step(tri_engine *engine, const tri_feed *feed, const tri_global_batch *batch, int64_t updates,
                           double lr, tri_step *out);

/* Sequences of `sequence` tokens in the caller's memory. The columns of `tokens` begin with sample `first` of the
 * feed. */
typedef struct tri_tokens_at {
  tri_tokens tokens;
  int64_t first, sequence;
} tri_tokens_at;
tri_feed tri_tokens_feed(const tri_tokens_at *at);

/* COLLECTIVE. Makes a step on a given batch of global_batch sequences. */
tri_status tri_engine_step_on(tri_engine *engine, const tri_tokens *tokens, int64_t step, int64_t updates, double lr,
                              tri_step *out);

/* COLLECTIVE. Computes the gradients only; they stay in the executor until the next step. For tests and for inspecting
 * gradients. */
tri_status tri_engine_gradients(tri_engine *engine, const tri_tokens *tokens, int64_t step, tri_step *out);

/* COLLECTIVE. Scores `windows` of the sampler's windows, spread evenly, or all of them if it has fewer. Every call
 * scores the same windows. */
tri_status tri_engine_evaluate(tri_engine *engine, const tri_sampler *sampler, int64_t windows, tri_evaluation *out);

/* LOCAL. Return and set the state of the running averages. A run that resumes sets it to that of its checkpoint or
 * snapshot. */
tri_averaging tri_engine_averaging(const tri_engine *engine);
void tri_engine_set_averaging(tri_engine *engine, tri_averaging averaging);

/* LOCAL. Copies the parameters into the optimizer states that begin as copies of them: averages, the reference, and the
 * second point of schedule_free. `missing`: for each state of the run (tri_run_states), whether it is set; all other
 * states keep their values. NULL: all states that begin as copies are set. Must be called after all initial values of
 * parameters have been set. */
tri_status tri_engine_begin_states(tri_engine *engine, const bool missing[TRI_NUM_RUN_STATES]);

/* LOCAL. Returns the loads of the experts in the last step; valid until the next step. */
tri_router_loads tri_engine_router_loads(const tri_engine *engine);

/* LOCAL. Waits for all queued work of the device. Then the host may read the device's arrays, if it can access device
 * memory. */
tri_status tri_engine_finish(tri_engine *engine);

/* LOCAL. Marks the parameters as changed, for callers that load a checkpoint into them. They are packed again before
 * the next forward. */
void tri_engine_parameters_changed(tri_engine *engine);

/* Return the bytes of memory on this rank: planned, and the highest measured. Both are sums of device memory and of
 * host memory for copies, that is, of everything that grows with model, batch and sequence. */
size_t tri_engine_predicted_bytes(const tri_engine *engine);
size_t tri_engine_measured_bytes(const tri_engine *engine);

/* Computes how often the host waits in a step, on average over all steps: for results of the device, and for staging
 * copies of collectives. */
void tri_engine_waits(const tri_engine *engine, double *results, double *staging);

/* Returns the host memory for saves, and sets *bytes to its size. With tri_engine_options.saves it has
 * TRI_CHECKPOINT_BUFFER_BYTES for buffers, and with saves_in_background also room for a copy of this rank's slices
 * after them. Returns NULL, and sets *bytes to 0, without `saves`. */
void *tri_engine_staging(const tri_engine *engine, size_t *bytes);

const tri_engine_options *tri_engine_get_options(const tri_engine *engine);
const tri_mesh *tri_engine_mesh(const tri_engine *engine);
tri_executor *tri_engine_executor(tri_engine *engine);
const tri_parameter_table *tri_engine_parameters(const tri_engine *engine);
const tri_buckets *tri_engine_buckets(const tri_engine *engine);

#endif
