/* The engine: one of the three readers of the step program. It owns the model's memory on this rank and executes a
 * training step instruction by instruction on a device. */
#ifndef TRI_ENGINE_ENGINE_H
#define TRI_ENGINE_ENGINE_H

#include "comm/mesh.h"
#include "data/sampler.h"
#include "engine/evaluate.h"
#include "engine/executor.h"
#include "engine/routers.h"
#include "schedule/parts.h"

typedef struct tri_engine_options {
  const tri_model *model;   /* complete; outlives the engine */
  const tri_layout *layout; /* resolved (tri_layout_resolve); outlives the engine */
  const tri_mesh *mesh;     /* of that layout; outlives the engine; NULL is one rank alone */
  int64_t global_batch;     /* sequences                     */
  int64_t sequence;
  tri_dtype precision;
  bool masked; /* sequences may hold documents that do not see each other: the sampler's `masked` */
  const tri_train_objective *objective; /* what it learns, and scores; NULL: cross entropy */
  uint64_t seed;
  int32_t ignore_token;                    /* labels with this id do not count; -1: unused */
  const tri_optimizer_settings *optimizer; /* outlives the engine; NULL: AdamW as its keys' defaults say */
  double clip;
  bool saves;               /* room for what a save needs */
  bool saves_in_background; /* and for a copy of what this rank saves */
} tri_engine_options;

/* What averages have to know of the updates before: 0 before the first. */
typedef struct tri_averaging {
  double highest_lr, weights; /* of points: the highest rate so far; the sum of the updates' weights */
  int64_t taken;              /* weights in the average of the run */
} tri_averaging;

/* What a step did. The same on every rank. */
typedef struct tri_step {
  double loss;      /* mean over the labels of the global batch, as they weigh; NaN where none does */
  double grad_norm; /* of the whole model, before clipping */
  double counted;   /* labels, each as it weighs */
  /* Tokens that the tokens of the batch see, themselves included: attention's work. The second: in layers with a
   * window. */
  int64_t seen, seen_in_window;
  double router_loss; /* what routers add to the loss, which does not have it: balance, size of logits; 0 without */
  bool skipped;       /* loss or norm was not finite, or no label counted: no update was made */
} tri_step;

/* LOCAL. The parts of the rank at `place` (release them with tri_parts_destroy) and what memory they want; also what a
 * dry run shows. */
tri_status tri_engine_parts_create(const tri_engine_options *options, const tri_mesh_coordinates *place,
                                   tri_device *device, tri_parts *out);
tri_memory_request tri_engine_memory_request(const tri_engine_options *options, const tri_parts *parts,
                                             const tri_mesh_coordinates *place, tri_device *device);

typedef struct tri_engine tri_engine;

/* LOCAL. Plans memory (TRI_OUT_OF_MEMORY before anything is allocated), allocates, and initialises the parameters from
 * the seed. Release with tri_engine_destroy. */
tri_status tri_engine_create(const tri_engine_options *options, tri_device *device, tri_engine **out);
void tri_engine_destroy(tri_engine *engine);

/* COLLECTIVE over the job, once, before the first step. Lets the ranks of a node read each other's gradients where they
 * are, so that their sums need no copies and go on in the background whenever one of the ranks looks (comm.h). */
tri_status tri_engine_share_gradients(tri_engine *engine);

/* ---- the engine's verbs, of which loops are made (verbs.c) --------------------------------------------------------
 */

/* COLLECTIVE. Forward and backward of the samples [step * global_batch, (step + 1) * global_batch) of the feed; `step`
 * counts from 0. Sums over ranks may be on their way behind it. What another one has left is forgotten. */
tri_status tri_engine_accumulate(tri_engine *engine, const tri_feed *feed, int64_t step);

/* COLLECTIVE. What was accumulated becomes the gradients of the global batch, of which *out tells. */
tri_status tri_engine_reduce(tri_engine *engine, tri_step *out);

/* COLLECTIVE. The update with what was reduced; none where that says `skipped`. `updates` is how many were made before:
 * skipped steps make none. */
tri_status tri_engine_update(tri_engine *engine, int64_t updates, double lr);

/* COLLECTIVE. Between steps: the loss, at the point that the optimizer evaluates, on the first `samples` samples of the
 * feed, without dropout. The same result on every rank and under every layout that has the same sums. */
tri_status tri_engine_score(tri_engine *engine, const tri_feed *feed, int64_t samples, tri_evaluation *out);

/* COLLECTIVE. One optimizer step: accumulate, reduce, update. */
tri_status tri_engine_step(tri_engine *engine, const tri_feed *feed, int64_t step, int64_t updates, double lr,
                           tri_step *out);

/* Sequences that somebody holds, each [samples, sequence], the first of which is sample `first`; positions (tri_sample)
 * NULL: each sequence is one document; weights NULL: each label that counts weighs 1. */
typedef struct tri_tokens {
  const int32_t *ids, *labels, *positions;
  const float *weights;
} tri_tokens;
typedef struct tri_tokens_at {
  tri_tokens tokens;
  int64_t first, sequence;
} tri_tokens_at;
tri_feed tri_tokens_feed(const tri_tokens_at *at);

/* COLLECTIVE. A step on a given global batch. */
tri_status tri_engine_step_on(tri_engine *engine, const tri_tokens *tokens, int64_t step, int64_t updates, double lr,
                              tri_step *out);

/* COLLECTIVE. The same without the update: gradients stay in the executor until the next step. For tests and for
 * inspecting gradients. */
tri_status tri_engine_gradients(tri_engine *engine, const tri_tokens *tokens, int64_t step, tri_step *out);

/* COLLECTIVE. The score of `windows` windows spread evenly over the sampler's (all of them if it has fewer), the same
 * ones every time. */
tri_status tri_engine_evaluate(tri_engine *engine, const tri_sampler *sampler, int64_t windows, tri_evaluation *out);

/* LOCAL. Where the average is, after a step, and where it goes on. */
tri_averaging tri_engine_averaging(const tri_engine *engine);
void tri_engine_set_averaging(tri_engine *engine, tri_averaging averaging);

/* LOCAL. The parameters are those to begin with: states of the optimizer that are points begin there. */
tri_status tri_engine_begin_states(tri_engine *engine);

/* LOCAL. What the experts of the last step had; valid until the next. */
tri_router_loads tri_engine_router_loads(const tri_engine *engine);

/* LOCAL. Waits for all that is queued on the device: the host may look at its arrays, where it sees them. */
tri_status tri_engine_finish(tri_engine *engine);

/* Parameters were written from outside (a checkpoint): pack them before the next forward. */
void tri_engine_parameters_changed(tri_engine *engine);

/* Bytes that the run was planned to hold on this rank, and the most that it has held, in device memory: all that grows
 * with the model, the batch and the sequence lies there. */
size_t tri_engine_predicted_bytes(const tri_engine *engine);
size_t tri_engine_measured_bytes(const tri_engine *engine);

/* How often in a step, in the mean over those that this process made, the host has waited for results of the device;
 * and for copies of collectives' staging. */
void tri_engine_waits(const tri_engine *engine, double *results, double *staging);

/* Room for a save: TRI_CHECKPOINT_BUFFER_BYTES for its buffers, then for a copy of what this rank saves
 * (tri_engine_options.saves and saves_in_background); NULL and 0 without either. */
void *tri_engine_staging(const tri_engine *engine, size_t *bytes);

const tri_engine_options *tri_engine_get_options(const tri_engine *engine);
const tri_mesh *tri_engine_mesh(const tri_engine *engine);
tri_executor *tri_engine_executor(tri_engine *engine);
const tri_parameter_table *tri_engine_parameters(const tri_engine *engine);
const tri_buckets *tri_engine_buckets(const tri_engine *engine);

#endif
