/* Internals of the engine: engine.c creates it, verbs.c has the functions for training loops, engine_step.c executes
 * programs. */
#ifndef TRI_ENGINE_ENGINE_INTERNAL_H
#define TRI_ENGINE_ENGINE_INTERNAL_H

#include "device/exact_sum.h"
#include "engine/engine.h"

/* Progress of a step. */
typedef enum tri_step_phase { TRI_STEP_NONE, TRI_STEP_ACCUMULATED, TRI_STEP_REDUCED } tri_step_phase;

/* State that the instructions of a program, and the verbs of a step, share. */
typedef struct tri_step_state {
  const tri_feed *feed;
  const tri_program *program; /* the step's program, owned by the engine */
  tri_step_phase phase;
  tri_global_batch batch;
  int64_t updates;
  double lr;
  tri_exact_sum counted; /* sum of the loss weights of the loaded batches */
  int64_t completions;   /* pairs, or unpaired completions, of these batches */
  int64_t tokens;        /* rows of these batches that are not padding */
  /* Query-key pairs of these batches; the second number is for layers with a sliding window. */
  int64_t seen, seen_in_window;
  double gradient_scale; /* factor that the update applies to the gradients; below 1 if they are clipped */
  tri_step result;
  /* Members for a score, that is, for forward passes without dropout over `samples` samples. */
  bool evaluating, without_factors;
  int64_t samples;
} tri_step_state;

struct tri_engine {
  tri_engine_options options;
  tri_mesh alone; /* mesh of one rank, used if options.mesh was NULL */
  tri_device *device;
  tri_parts parts;
  tri_weights *weights;
  tri_executor *executor;
  tri_routers *routers;    /* NULL: the model has no experts */
  tri_averaging averaging; /* state after the newest update */
  double kl;               /* KL divergence set by tri_engine_set_kl */
  tri_step_state step;
  int64_t micro_batches; /* largest number of micro-batches of this rank in a step */
  /* Program of a step with m micro-batches, for each m below micro_batches [micro_batches]; NULL until the first step
   * with m micro-batches. parts.program is the program of a step with `micro_batches` micro-batches. */
  tri_program **programs;
  /* Event of each batch [micro_batches + 1], passed when the batch has been copied to the device. */
  tri_device_event *uploaded;
  tri_device_event values_uploaded;
  /* Waits of the host for results and for staging copies, in `steps` steps together. */
  int64_t result_waits, staging_waits, steps;
  /* Message in progress of each stage buffer [TRI_NUM_STAGE_BUFFER_KINDS * most_stage_buffers]; NULL: none. */
  tri_exchange_request **messages;
  int64_t most_stage_buffers;        /* largest number of stage buffers of a kind */
  tri_exchange_request **reductions; /* reduction in progress of each bucket [buckets]; NULL: none */
  tri_exchange_request **gathers;    /* gathers in progress of each bucket [buckets * BUCKET_GATHERS]; NULL: none */
  /* Staged slice in the gradients' memory (checkpoint_conversions.h); NULL: none. */
  const struct tri_staged_slice *staged;
  bool staged_written; /* whether a load has written to the staged slice, whose values must then be converted back into
                          the state */
  void *shared;        /* memory that tri_engine_share_gradients has shared; NULL: none */
};

/* Number of gathers of a bucket: one for its trained parameters, and one for its frozen parameters of each stored
 * type. */
enum { BUCKET_GATHERS = 1 + TRI_NUM_STORED };

/* Instructions [first, end) of a program. */
typedef struct tri_program_part {
  int64_t first, end;
} tri_program_part;

/* Begins a step or a score: drops earlier gradients, and sets the results to zero. `keeps_gradients`: whether the
 * memory of the gradients keeps its contents, as during a score, when it may have the trained weights
 * (tri_engine_swap_in). */
tri_status tri_engine_begin(tri_engine *engine, bool keeps_gradients);

tri_status tri_engine_execute(tri_engine *engine, const tri_program *program, tri_program_part part,
                              tri_step_state *state);

/* COLLECTIVE. Runs the forward of `samples` samples of a feed, without dropout, with the current parameters. Sets
 * *micro_batches to the number of micro-batches of each rank. If a step has at least as many micro-batches, micro-batch
 * m is then in batch number m of the executor (engine_step.c). */
tri_status tri_engine_forward(tri_engine *engine, const tri_feed *feed, int64_t samples, bool without_factors,
                              int64_t *micro_batches);

/* Adds the weights to their average over the run, if that is due after update number `update` (averaging.c). */
tri_status tri_engine_average_weights(tri_engine *engine, int64_t update);

/* Returns the averaging state after the update that follows `updates` updates. Sets *weight to the weight of this
 * update's point in the average. */
tri_averaging tri_engine_next_averaging(const tri_engine *engine, int64_t updates, double lr, double *weight);

/* COLLECTIVE. Adds up loss and gradient norm over ranks, and decides whether to update (engine_clip.c). */
tri_status tri_engine_clip(tri_engine *engine, tri_step_state *state);

#endif
